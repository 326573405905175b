"""`chunkfold bench`: tables, JSON, pictures, refusals."""

from __future__ import annotations

import json
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

from chunkfold.errors import DeviceError
from chunkfold.kernels.bench.measure import bench_kernels
from chunkfold.workflows.cli import bench_command

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_ladder_prints_a_table_and_draws(tmp_path: Path, command: Callable):
    picture = tmp_path / "ladder.svg"
    done = command("bench", "ladder", "cpu", "--mib", "1", "--rounds", "1", "--plot", str(picture))
    assert " 1 interleaved addressing" in done.stdout
    assert "read ceiling" in done.stdout
    root = ET.parse(picture).getroot()
    assert root.tag.endswith("svg")
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 20


def test_kernels_as_json(command: Callable):
    words = ("kernels", "cpu", "--mib", "1", "--rounds", "1", "--op", "sum", "--dtype", "int32")
    done = json.loads(command("bench", *words, "--json").stdout)
    for row in done["rows"]:
        assert {"chunkfold", "read ceiling", "numpy", "ReductionKernel"} == set(row["rates"])
    assert set(done["faster_from"]) == {row["device"] for row in done["rows"]}


def test_rows_that_were_measured_before_a_device_failed_are_printed(here, monkeypatch):
    def fails(*given):
        yield from bench_kernels(*given)
        raise DeviceError("the device is gone")

    monkeypatch.setattr(bench_command, "bench_kernels", fails)
    words = ("--mib", "1", "--rounds", "1", "--op", "sum", "--dtype", "int32")
    code, out, said = here("bench", "kernels", "cpu", *words)
    assert code == 2
    assert "the device is gone" in said
    assert "int32" in out


def test_a_peer_that_is_not_installed_is_named_with_its_extra(here, monkeypatch):
    monkeypatch.setattr(bench_command, "find_spec", lambda _: None)
    words = ("--mib", "1", "--rounds", "1", "--op", "sum", "--dtype", "int32")
    code, _, said = here("bench", "kernels", "cpu", *words)
    assert code == 0
    assert "ReductionKernel needs the extra 'bench'" in said
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert any(one.startswith("mako") for one in extras["bench"])


def test_transfer_prints_every_way_and_draws(tmp_path: Path, command: Callable):
    picture = tmp_path / "transfer.svg"
    words = ("transfer", "cpu", "--mib", "1", "--rounds", "1")
    done = command("bench", *words, "--plot", str(picture))
    for way in ("pageable", "pinned", "mapped", "zero copy *", "in place"):
        assert way in done.stdout
    assert ET.parse(picture).getroot().tag.endswith("svg")
    told = json.loads(command("bench", *words, "--json").stdout)
    assert all(row["folded"][row["used"]] > 0 for row in told["rows"])


def test_bad_input_is_found_first(tmp_path: Path, here):
    there = tmp_path / "there.svg"
    there.touch()
    for words, sentence in (
        (("--plot", str(there)), "exists"),
        (("--plot", str(tmp_path / "x.nonsense")), "no such kind of picture"),
        (("--op", "summ"), "did you mean 'sum'"),
        (("--dtype", "nonsense"), "nonsense"),
        (("--mib", "0"), "0 is not in the range"),
        (("quantum",), "no OpenCL device matches 'quantum'"),
    ):
        code, _, said = here("bench", "ladder", *words)
        assert code == 2
        assert sentence in " ".join(said.split()), words
    small = ("bench", "kernels", "cpu", "--mib", "1", "--rounds", "1", "--op", "sum")
    for words, sentence in (
        (("--op", "sum+nothing"), "no reduction is called 'nothing'"),
        (("--dtype", "int8", "--dtype", "complex64"), "'complex64' is not measured"),
    ):
        code, out, said = here(*small, *words)
        assert (code, out) == (2, "")
        assert sentence in " ".join(said.split()), words
