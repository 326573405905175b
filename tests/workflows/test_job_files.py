"""Job files: what is right is read, what is wrong is named with its line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold import JobError, Monoid
from chunkfold.workflows.job.job_keys import line_of
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.schema import CLUSTERS, Job
from chunkfold.workflows.job.toml_tables import Slurm
from tests.wheels import installed

PLAIN = """\
schema = 1
sources = ["air.zarr", "s3://bucket/*.zarr"]

[reduce]
statistics = ["mean", "std"]
axes = ["time", 2]
select = "0:10, ..."

[output]
path = "out/${NAME:-none}.zarr"

[cluster]
kind = "slurm"
workers = 2
cores = 4
memory = "8 GiB"

[limits]
memory = "2 GiB"
time = "90 m"
"""


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "night.toml"
        path.write_text(text)
        return path

    return write


def problems(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(JobError) as error:
        load_job(path, overrides)
    return str(error.value).replace(str(path), "FILE").splitlines()


def test_a_job_file_is_read(written, tmp_path: Path):
    job = load_job(written(PLAIN))
    assert (job.name, job.version) == ("night", 1)
    assert job.sources == [str(tmp_path / "air.zarr"), "s3://bucket/*.zarr"]
    assert job.reduce.library["op"] == ["mean", "std"]
    assert (job.options.names, job.options.memory_bytes) == (("mean", "std"), 2 << 30)
    assert job.options.selection == (slice(0, 10), Ellipsis)
    assert job.output.path == str(tmp_path / "out/none.zarr")
    assert isinstance(job.cluster, Slurm)
    assert (job.cluster.memory, job.cluster.wait) == (8 << 30, 600)
    assert (job.limits.memory, job.limits.time, job.limits.on_bad_chunk) == (2 << 30, 5400, "stop")
    json.dumps(job.model_dump(mode="json"))
    joined = load_job(written(PLAIN.replace('"mean", "std"', '"mean, std"')))
    assert joined.reduce.library["op"] == ["mean", "std"]
    near = load_job(written(PLAIN.replace('"std"]', '"nanp95"]\nsketch = 0.02'))).options
    assert near.names == ("mean", "nanp95")
    assert near.monoids[1].skipna
    assert near.monoids[1].specialised.rtol == 0.02  # type: ignore[union-attr]
    local = load_job(written(PLAIN.partition("[cluster]")[0] + '[cluster]\ndevices = "cpu"\n'))
    assert (local.cluster.kind, local.cluster.devices) == ("local", ["cpu"])


def test_the_environment_and_overrides_are_heard(written, monkeypatch):
    monkeypatch.setenv("NAME", "2026")
    path = written(PLAIN)
    job = load_job(path, ["limits.time='2 h'", "cluster.workers=3", "name=other", "sources=a.zarr"])
    assert job.output.path.endswith("out/2026.zarr")
    assert (job.limits.time, job.cluster.workers, job.name) == (7200, 3, "other")
    assert job.sources == [str(path.parent / "a.zarr")]
    monkeypatch.setenv("NAME", "$${X}")  # what a variable holds is not read again
    assert load_job(path).output.path.endswith("out/$${X}.zarr")
    assert load_job(path, ["output.path=$${NAME}.zarr"]).output.path.endswith("/${NAME}.zarr")
    for override, sentence in (
        ("output.path=${NOPE}", "FILE, --set output.path=${NOPE}: the environment has no NOPE"),
        ("limits.time=soon", "FILE, --set limits.time=soon: give a time with its unit, such as"),
        ("limits", "--set 'limits' is not KEY=VALUE, as in limits.time='2 h'"),
        ("schema.of=3", "--set 'schema.of=3': schema is not a table"),
    ):
        assert problems(path, override)[0].startswith(sentence)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("schema = 1", "", "FILE: it has no schema; begin it with: schema = 1"),
        ("schema = 1", "schema = 2", "FILE:1: schema: is 2, but this chunkfold knows job files"),
        ("schema = 1", "schema = '1'", "FILE:1: schema: is '1'; job files of this chunkfold have"),
        ("schema = 1", "schema = 1\nabc = 3", "FILE:2: abc: is no such key; use one of: schema"),
        ("axes", "axess", "FILE:6: reduce.axess: is no such key; did you mean 'axes'?"),
        ("workers = 2", "worker = 2", "FILE:14: cluster.worker: is no such key; did you mean 'wo"),
        ("workers = 2", "", "FILE:12: cluster.workers: is missing"),
        ("workers = 2", "workers = 'two'", "FILE:14: cluster.workers: is 'two', but should be a v"),
        ("workers = 2", "workers = 0", "FILE:14: cluster.workers: is 0, but should be greater th"),
        ('"slurm"', '"slum"', "FILE:13: cluster.kind: is 'slum'; use one of: 'local', 'address', "),
        ('kind = "slurm"', "", "FILE:14: cluster.workers: is no such key; did you mean 'workers"),
        ('"time", 2', '"time", 2.5', "FILE:6: reduce.axes[1]: is 2.5, but should be a valid"),
        ('"0:10, ..."', '"0:x"', "FILE:7: reduce.select: selection '0:x': '0:x' is not an int"),
        ('"0:10, ..."', "3", "FILE:7: reduce.select: is 3, but should be a valid string"),
        ('"std"', '"sdt"', "FILE:5: reduce.statistics: no reduction is called 'sdt'; did you mean"),
        ('"std"', '"dot"', "FILE:5: reduce.statistics: dot takes two arrays; a job reduces one at"),
        ('"std"]', '"std"]\nedges = "1,2"', "FILE:4: reduce: edges '1,2' are for a histogram, bu"),
        ('"std"]', '"std"]\nsketch = 0.1', "FILE:4: reduce: sketch 0.1 is for quantiles, such as"),
        ('"std"]', '"p5"]\nsketch = 2', "FILE:4: reduce: rtol of a sketch of quantiles is 2; give"),
        ('"std"]', '"std"]\nskipna = 1', "FILE:6: reduce.skipna: is 1, but should be a valid bool"),
        ('"std"]', '"std"]\ndtype = "i9"', "FILE:6: reduce.dtype: 'i9' is not a dtype"),
        ('"std"]', '"std"]\nlift = "x*x"', "FILE:6: reduce.lift: a job file holds no code: put a"),
        ('"std"', '"x; }"', "FILE:5: reduce.statistics[1]: a job file holds no code"),
        ('"std"', '{ name = "s" }', "FILE:5: reduce.statistics[1]: a job file holds no code"),
        ('"2 GiB"', '"2"', "FILE:19: limits.memory: give a size with its unit, such as '2 GiB', "),
        ('"2 GiB"', "2000", "FILE:19: limits.memory: give a size with its unit, such as '2 GiB',"),
        ('"90 m"', '"-1 h"', "FILE:20: limits.time: give a time with its unit"),
        ('["air.zarr", "s3://bucket/*.zarr"]', "[]", "FILE:2: sources: is []: value should"),
        ('"8 GiB"', '"8 GiB"\ndirectives = ["--x=1\\nrm"]', "FILE:17: cluster.directives[0]: is "),
        ("sources", "sources = 1\nsources", "FILE: line 3: Cannot overwrite a value: sources = "),
        ('"8 GiB"', '"8 GiB"\ntime = "2 h"', "FILE:17: cluster.time: give a time as Slurm writ"),
        ('"90 m"', '"1e999 s"', "FILE:20: limits.time: give a time with its unit"),
        ('"90 m"', '""', "FILE:20: limits.time: give a time with its unit"),
        ('"2 GiB"', '""', "FILE:19: limits.memory: give a size with its unit"),
        ('"2 GiB"', '"٢ GiB"', "FILE:19: limits.memory: give a size with its unit"),
        ('"90 m"', '"٩ m"', "FILE:20: limits.time: give a time with its unit"),
        ('"2 GiB"', '"1e9"', "FILE:19: limits.memory: give a size with its unit"),
        ('"std"]', '"std"]\ndtype = ","', "FILE:6: reduce.dtype: ',' is not a dtype"),
        ("[output]", "# a\u2028b\n[output]\nx = 1", "FILE:11: output.x: is no such key"),
        ('"8 GiB"', '"8 GiB"\nslurm = 1', "FILE:17: cluster.slurm: is no such key"),
        ('"std"]', '"std"]\nstr = 1', "FILE:6: reduce.str: is no such key"),
        ("${NAME:-none}", "${NAME:none}", "FILE:10: output.path: 'out/${NAME:none}.zarr': wri"),
        ("[limits]", "[limits", "FILE: line 18: Expected ']' at the end of a table declaration"),
        ("out/${NAME:-none}.zarr", "${NOT_SET}", "FILE:10: output.path: the environment has no NO"),
    ],
    ids=lambda text: text[-40:],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(written, old: str, new: str, sentence: str):
    assert old in PLAIN
    found = problems(written(PLAIN.replace(old, new, 1)))
    assert any(line.startswith(sentence) for line in found), found


def test_everything_that_is_wrong_is_named_at_once(written):
    text = PLAIN.replace("axes", "axis").replace("90 m", "90").replace("cores = 4", "cores = true")
    assert [line.partition(": ")[0] for line in problems(written(text))] == [
        "FILE:6", "FILE:15", "FILE:20",
    ]  # fmt: skip


def test_what_is_no_job_file_is_said_to_be_none(tmp_path: Path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2 << 20)
    for name, sentence in (("binary", "cannot be read"), ("huge", "larger"), ("", "cannot be")):
        with pytest.raises(JobError, match=sentence):
            load_job(tmp_path / name)


def test_code_comes_from_installed_packages(written, tmp_path: Path, monkeypatch):
    code = (
        "import chunkfold as cf\n"
        "energy = cf.Monoid('e', fields={'s': 'float64'}, zero={'s': 0},"
        " lift=lambda x: cf.real(x) ** 2, op='add')\n"
        "broken = 1\n"
    )
    points = "energy = theirs:energy\nbroken = theirs:broken"
    installed(tmp_path, monkeypatch, code, f"[chunkfold.monoids]\n{points}\n")
    op, _ = load_job(written(PLAIN.replace('"mean"', '"energy"'))).reduce.library["op"]
    assert isinstance(op, Monoid)
    assert op.name == "energy"
    assert (
        "theirs:broken is a int, not a Monoid"
        in problems(written(PLAIN.replace('"mean"', '"broken"')))[0]
    )


def test_editors_are_told_the_schema(written):
    schema = Job.model_json_schema()
    assert schema["properties"]["sources"]["description"].startswith("Paths, relative to")
    assert not schema["additionalProperties"]
    assert schema["$defs"]["Limits"]["properties"]["time"]["anyOf"][0] == {"type": "string"}
    assert schema["$defs"]["Slurm"]["properties"]["wait"]["default"] == "10 m"


TEXTS = st.sampled_from(
    ["", "# note", "a = 1", 'b = """\nx = 3\n[y]\n"""', "c = [\n 1,\n # d = 2\n]", "[t]", "[t.u]",
     "e = { f = 1 }", "[[g]]", "h.i = 2"]
)  # fmt: skip


@given(st.lists(TEXTS, max_size=8, unique=True))
def test_a_line_is_where_the_statement_of_its_key_begins(statements: list[str]):
    """Whatever stands around it: comments, tables, texts and lists of several lines."""
    text = "\n".join(statements)
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # one statement contradicts another
    line, table = 1, ()
    for statement in statements:
        if statement.startswith("["):
            table = tuple(statement.strip("[]").split("."))
            table += (0,) if statement.startswith("[[") else ()
        elif statement[:1].isalpha():
            place = (*table, *statement.partition(" = ")[0].split("."))
            assert line_of(text, place) == line, place
        line += statement.count("\n") + 1


def test_a_cluster_s_kind_is_any_of_them(written):
    text = PLAIN[: PLAIN.index("[cluster]")]
    for kind, rest in (
        ("local", ""),
        ("address", 'address = "tcp://10.0.0.1:8786"'),
        ("slurm", 'workers = 1\ncores = 1\nmemory = "1 GiB"'),
        ("kubernetes", 'image = "i"\nworkers = 1\ncores = 1\nmemory = "1 GiB"'),
    ):
        job = load_job(written(f'{text}[cluster]\nkind = "{kind}"\n{rest}\n'))
        assert isinstance(job.cluster, CLUSTERS[kind])
    bad = 'kind = "kubernetes"\nimage = "i"\nworker = 1\ncores = 1\nmemory = "1 GiB"\n'
    assert "cluster.worker: is no such key; did you mean 'workers'?" in "".join(
        problems(written(f"{text}[cluster]\n{bad}"))
    )
    for address in ("nowhere", "tcp://", "tcp://host"):
        cluster = f'[cluster]\nkind = "address"\naddress = "{address}"\n'
        assert "give a scheduler's address" in problems(written(f"{text}{cluster}"))[0]


def test_a_folder_whose_name_is_a_pattern_is_refused(tmp_path: Path):
    folder = tmp_path / "run[1]"
    folder.mkdir()
    (folder / "job.toml").write_text(PLAIN)
    with pytest.raises(JobError, match=r"run\[1\] has one of .* in its name"):
        load_job(folder / "job.toml")
