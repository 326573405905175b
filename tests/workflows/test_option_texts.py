"""Texts of options: help, schema, signature and refusals are those in `pinned/`, word by word.

`CHUNKFOLD_PIN=1 pytest tests/workflows/test_option_texts.py` writes them anew, for a change that
is meant: what it did is in the diff.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import chunkfold as cf
from chunkfold.kernels.catalogue.named import NAMES
from chunkfold.planning.options import Options
from chunkfold.workflows.cli import COMMANDS
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.job.schema import Job

PINNED = Path(__file__).parent / "pinned"


def pinned(name: str, text: str) -> None:
    """See that a text is as it was, but for the catalogue, which grows."""
    path, text = PINNED / name, text.replace(NAMES, "NAMES")
    if os.environ.get("CHUNKFOLD_PIN"):
        path.write_text(text)
    assert text.splitlines() == path.read_text().splitlines()


HELPS = """
import json
import click
from chunkfold.workflows.cli import cli

def contexts(group, context):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, context, name, terminal_width=10_000)
        if isinstance(command, click.Group):
            yield from contexts(command, inner)
        yield inner

top = click.Context(cli, info_name="chunkfold", terminal_width=10_000, **cli.context_settings)
print(json.dumps([[one.command_path, one.get_help()] for one in [top, *contexts(cli, top)]]))
"""


@pytest.fixture(scope="module")
def helps() -> list[list[str]]:
    """Each command and its help, without breaks of lines, which are click's.

    A process of its own makes them: click remembers how a command was first parsed.
    """
    return json.loads(subprocess.check_output([sys.executable, "-c", HELPS]))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command: str, helps: list[list[str]]):
    texts = [text for path, text in helps if f"{path} ".split(" ")[1] == command]
    pinned(f"help-{command or 'chunkfold'}.txt", "\n\n".join(texts) + "\n")


def test_schema_of_job_files():
    """A line for each key."""
    schema = Job.model_json_schema()
    lines = []
    for name, table in {"Job": schema, **schema.pop("$defs")}.items():
        keys = table.pop("properties")
        lines += [f"{name} {json.dumps(table)}"]
        lines += [f"{name}.{key} {json.dumps(of)}" for key, of in keys.items()]
    pinned("job_schema.txt", "\n".join(lines) + "\n")


def test_signature_and_docs():
    lines = [
        f"{name}: {one.annotation} = {one.default!r} ({one.kind.description})"
        for name, one in inspect.signature(cf.reduce).parameters.items()
    ]
    pinned("reduce.txt", "\n".join([*lines, "", inspect.getdoc(cf.reduce) or "", ""]))


PYTHON: dict[str, list[Any]] = {
    "op": [[], ["max", "max"], "summ", 3],
    "keepdims": ["no", None],
    "coarsen": [3, {}, {"y": 0}, {"y": 2.5}],
    "boundary": ["pad", "best"],
    "dtype": ["sandwich", "U3"],
    "ddof": [float("nan"), "1", 1],
    "skipna": [1, "yes"],
    "where": ["x >", 3],
    "weights": [],
    "min_count": [-1, 2.5, True],
    "initial": ["a"],
    "mask_and_scale": [None],
    "sel": [3, {3: 4}],
    "sel_method": ["nearest"],
    "sel_tolerance": [3],
    "allow_empty": [1],
    "mode": ["best", ["fast"], None],
    "variant": ["trees", 3],
    "decode": ["gpu", None],
    "memory": ["10", "2 parsecs", -1, True, []],
    "on_bad_chunk": ["fill", None],
    "on_missing_chunk": ["skip", None],
    "storage_options": ["anon"],
    "by_axis": [0],
    "groups": [[1]],
    "resample": ["time"],
}
MORE: list[dict[str, Any]] = [
    {"coarsen": {"y": 2}, "boundary": "best"},
    {"coarsen": {"y": 2}, "boundary": {"x": "pad"}},
    {"coarsen": {"y": 2}, "by": "lat"},
    {"coarsen": {"y": 2}, "resample": {"time": "1MS"}},
    {"sel": {"lat": 3}, "sel_method": "best"},
    {"sel": {"lat": 3}, "sel_tolerance": 2},
    {"op": "mean", "initial": 3},
    {"where": (np.ones(3, bool), np.ones(3, bool))},
]


def refusal(ask: Callable[[], object]) -> str:
    try:
        ask()
    except (cf.ChunkfoldError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "taken"


def test_refusals_in_python():
    given: list[dict[str, Any]] = [{name: one} for name, each in PYTHON.items() for one in each]
    told = [f"{one!r}\n  {refusal(lambda one=one: Options(**one))}" for one in [*given, *MORE]]
    pinned("refusals-python.txt", "\n".join(told) + "\n")


SHELL = [
    "--op summ", "--op 'mean max'", "--op ''", "--op p0.95", "--op top0", "--op max,max",
    "--edges 1,2", "--op histogram --edges 1:2", "--op histogram --edges 0:3:0", "--sketch 0.1",
    "--sketch x", "--op p95 --sketch 2", "--axis x", "--axis 2", "--axis 0,0", "--axis ''",
    "--coarsen 3", "--coarsen 0=0", "--coarsen 0=x", "--coarsen 0=2,0=2", "--coarsen 0=7",
    "--boundary pad", "--boundary best", "--ddof x", "--ddof 1", "--op var --ddof nan",
    "--op var --ddof 1e99", "--skipna=1", "--min-count -1", "--min-count 2.5", "--initial x",
    "--op mean --initial 3", "--where 'x >'", "--where y", "--mask nowhere", "--weights nowhere",
    "--op max --weights nowhere", "--by nowhere", "--by time.moon", "--by-axis 0", "--bins 1,2,x",
    "--by lat --by lon --bins 1,2", "--groups 1", "--by lat --groups 1 --groups 2",
    "--resample time", "--resample time=", "--resample time=1MS --resample time=1MS",
    "--mode best", "--dtype sandwich", "--dtype U3", "--dtype object --op mean", "--memory 10",
    "--memory '2 parsecs'", "--memory 0", "--memory -1GiB", "--memory ''", "--select 0:x",
    "--select 1,2,3", "--select 9999:", "--select x=0:3", "--sel lat", "--sel lat=3",
    "--sel lat=3 --sel lat=4", "--sel lat=1:2:3:4", "--sel-method nearest", "--sel-method best",
    "--sel-tolerance 3", "--sel lat=3 --sel-tolerance 3", "--on-missing-chunk skip",
    "--on-bad-chunk fill", "--variant trees", "--decode gpu", "--decode", "--ask mean",
    "--ask 'a: --op mean' --ask 'a: --op max'", "--ask 'a: --select 0'", "--ask 'a: --colour'",
    "--ask 'a: --mode best'", "--ask 'a: --op summ'", "--ask 'a: --quiet'", "--ask 'a/b: --op max'",
    "--worker-losses 0", "--worker-losses x", "--missing-status 500", "--allow-targets ''",
    "--scheduler x", "--scheduler x --device cpu", "--out m.txt", "--out no/such/x.json",
    "--manifest m.txt", "--report r.txt",
    "--keep-dims", "--dim 0", "--skip_na", "--memory-limit 3", "--colour red",
    "--concatenate x", "--concatenate 5", "--keepdims --coarsen 0=3 --by 0",
]  # fmt: skip


def sentence(said: str) -> str:
    """Leave out how click calls the program, which is pytest here."""
    return " ".join(said[said.find("Error: ") if said.startswith("Usage: ") else 0 :].split())


def test_refusals_in_the_shell(here: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    zarr.create_array("a.zarr", data=np.arange(12.0).reshape(3, 4))
    told = []
    for words in SHELL:
        code, out, said = here("reduce", "a.zarr", *shlex.split(words))
        assert out == ""
        told.append(f"{words}\n  {code} {sentence(said)}")
    for words in ("--by best", "--ddof x", "--skipna=1", "--channels x", "--dtype i4 --apply o"):
        code, _, said = here("normalize", "a.zarr", *words.split())
        told.append(f"normalize {words}\n  {code} {sentence(said)}")
    text = "\n".join(told).replace(str(tmp_path), "HERE")
    pinned("refusals-shell.txt", text + "\n")


JOB = [
    *(
        f"reduce.{one}"
        for one in (
            'statistics = "summ"', "statistics = []", "statistics = 3",
            'statistics = ["max", "max"]', "axes = []", "axes = 1.5", "axes = [[1]]",
            "coarsen = {}", "coarsen = 3", "coarsen = { y = 0 }", 'boundary = "pad"',
            'boundary = "best"', "keepdims = 1",
            'select = "0:x"', "select = 3", 'sel = "lat"', "sel = { lat = {} }",
            'sel = { lat = "1:2:3:4" }', 'sel_method = "nearest"', 'sel_method = "best"',
            "sel_tolerance = 3", "sel_tolerance = []", "allow_empty = 1", 'edges = "1,2"',
            "edges = 3", "sketch = 0.1", 'sketch = "x"', "ddof = 1", 'ddof = "x"', "ddof = nan",
            "skipna = 1", 'where = "x >"', "where = 3", "mask = true", 'mask = ""', "weights = 1",
            'weights = ""', "by = []", "by = 3", "by_axis = 0", "by_axis = 1.5", 'bins = "1,2,x"',
            "bins = true", "groups = [1]", 'groups = "DJF"', 'resample = "time"',
            "resample = { time = 3 }", "min_count = -1", "min_count = 2.5", 'initial = "x"',
            "mask_and_scale = 1", 'mode = "best"', 'dtype = "sandwich"', 'dtype = "U3"',
            "skip_na = true", 'axis = "x"', 'decode = "host"', 'memory = "2 GiB"',
        )
    ),
    *(
        f"limits.{one}"
        for one in (
            'memory = "10"', "memory = 10", 'memory = "2 parsecs"', 'decode = "gpu"',
            'on_bad_chunk = "fill"', 'on_missing_chunk = "skip"', "worker_losses = 0",
            'time = "soon"', "skipna = true", "variants = 3",
        )
    ),
    "output.overwrite = 1", "output.report = 3", "allow_targets = []", "allow_targets = 3",
]  # fmt: skip


def test_refusals_in_job_files(tmp_path: Path):
    file = tmp_path / "job.toml"
    told = []
    for line in JOB:
        lines = ["schema = 1", 'sources = "a.zarr"', line]
        lines += [] if "statistics" in line else ['reduce.statistics = "sum"']
        file.write_text("\n".join([*lines, 'output.path = "o.zarr"', ""]))
        told.append(f"{line}\n  {refusal(lambda: load_job(file))}".replace(str(tmp_path), "HERE"))
    pinned("refusals-job.txt", "\n".join(told) + "\n")
