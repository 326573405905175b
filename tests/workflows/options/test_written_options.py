"""Each option is one, however it is written: on the command line, in a job file, in Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest

from chunkfold.kernels import VARIANTS
from chunkfold.planning.option_table import SECTIONS, meanings
from chunkfold.planning.option_values import Section, VariantName
from chunkfold.planning.options import Options
from chunkfold.workflows.cli import reduction_options
from chunkfold.workflows.cli.plan_command import plan_command
from chunkfold.workflows.job.loading import load_job
from chunkfold.workflows.options.written_options import WRITTEN

SAMPLES: dict[str, tuple[str, str, Any]] = {
    "op": ("--op mean,std --op max", 'reduce.statistics = ["mean", "std", "max"]',
           ("mean", "std", "max")),
    "axis": ("--axis time,2", 'reduce.axes = ["time", 2]', ["time", 2]),
    "keepdims": ("--keepdims", "reduce.keepdims = true", True),
    "coarsen": ("--coarsen y=2,0=3", "reduce.coarsen = { y = 2, 0 = 3 }", {"y": 2, 0: 3}),
    "boundary": ("--boundary pad --coarsen y=2",
                 'reduce.boundary = "pad"\nreduce.coarsen = { y = 2 }', "pad"),
    "ddof": ("--op var --ddof 1", 'reduce.statistics = "var"\nreduce.ddof = 1', 1),
    "skipna": ("--skipna", "reduce.skipna = true", True),
    "min_count": ("--min-count 3", "reduce.min_count = 3", 3),
    "initial": ("--initial 2.5", "reduce.initial = 2.5", 2.5),
    "where": ("--where 'x > 3'", 'reduce.where = "x > 3"', ("x > 3",)),
    "weights": ("--weights 'cos(lat)'", 'reduce.weights = "cos(lat)"', "cos(lat)"),
    "mask_and_scale": ("--mask-and-scale", "reduce.mask_and_scale = true", True),
    "mode": ("--mode fast", 'reduce.mode = "fast"', "fast"),
    "dtype": ("--dtype float32", 'reduce.dtype = "float32"', "float32"),
    "by": ("--by time.month --by lat", 'reduce.by = ["time.month", "lat"]', ("time.month", "lat")),
    "by_axis": ("--by lat --by-axis 0,x", 'reduce.by = "lat"\nreduce.by_axis = [0, "x"]', [0, "x"]),
    "groups": ("--by lat --by lon --groups 1,2 --groups ''",
               'reduce.by = ["lat", "lon"]\nreduce.groups = [[1, 2], []]', [[1, 2], None]),
    "resample": ("--resample time=1MS", 'reduce.resample = { time = "1MS" }', {"time": "1MS"}),
    "selection": ("--select '0:3, ..., [1]'", 'reduce.select = "0:3, ..., [1]"',
                  (slice(0, 3), Ellipsis, [1])),
    "sel": ("--sel lat=30:60", 'reduce.sel = { lat = "30:60" }', {"lat": slice("30", "60")}),
    "sel_method": ("--sel lat=3 --sel-method pad",
                   'reduce.sel = { lat = "3" }\nreduce.sel_method = "pad"', "pad"),
    "sel_tolerance": ("--sel x=3 --sel-method pad --sel-tolerance 12h",
                      'reduce.sel_tolerance = "12h"\nreduce.sel_method = "pad"\nreduce.sel.x = "3"',
                      "12h"),
    "tendency": ("--op std --tendency time=4",
                 'reduce.statistics = "std"\nreduce.tendency = "time=4"', ("time", 4)),
    "allow_empty": ("--allow-empty", "reduce.allow_empty = true", True),
    "memory": ("--memory 2GiB", 'limits.memory = "2GiB"', 2 << 30),
    "on_bad_chunk": ("--on-bad-chunk skip", 'limits.on_bad_chunk = "skip"', "skip"),
    "on_missing_chunk": ("--on-missing-chunk stop", 'limits.on_missing_chunk = "stop"', "stop"),
    "decode": ("--decode host", 'limits.decode = "host"', "host"),
    "ledger": ("--ledger s3://b/l", 'limits.ledger = "s3://b/l"', "s3://b/l"),
    "ledger_verify": ("--ledger-verify content", 'limits.ledger_verify = "content"', "content"),
    "trust_ledger": ("--trust-ledger", "limits.trust_ledger = true", True),
    "ledger_statistics": (
        "--ledger-statistics --ledger s3://b/l",
        'limits.ledger_statistics = true\nlimits.ledger = "s3://b/l"',
        True,
    ),
    "variant": ("--variant tree", 'limits.variant = "tree"', "tree"),
}  # fmt: skip
"""Of each option of the library: as the command line has it, as job files do, and what it is."""
ELSEWHERE = {"edges", "sketch", "mask", "bins"}
"""Parts of other options: tests of histograms, quantiles, masks and groups write them."""


def in_shell(words: str) -> Options:
    params = plan_command.make_context("plan", ["a.zarr", *shlex.split(words)]).params
    return reduction_options.options_from(**{name: params[name] for name in WRITTEN})


def in_job(lines: str, file: Path) -> Options:
    more = "" if "reduce.statistics" in lines else 'reduce.statistics = "sum"\n'
    file.write_text(f'schema = 1\nsources = "a"\n{more}{lines}\noutput.path = "o.zarr"\n')
    return load_job(file).options


def test_every_option_is_written_in_some_way():
    assert SECTIONS.keys() - WRITTEN.keys() == {"storage_options", "allow_targets"}
    assert SAMPLES.keys() | ELSEWHERE == WRITTEN.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_it_is_the_same_wherever_it_is_written(name: str, tmp_path: Path):
    words, lines, value = SAMPLES[name]
    shell, job = in_shell(words), in_job(lines, tmp_path / "job.toml")
    usual = Options()
    for one in SECTIONS:
        found = [getattr(options, one) for options in (shell, job)]
        if one == "memory":
            found = [options.memory_bytes for options in (shell, job)]
        assert found[0] == found[1], one
        if one == name:
            assert found[0] == value
            assert found[0] != getattr(usual, one)


@pytest.mark.parametrize("name", WRITTEN)
def test_help_is_sentences(name: str):
    row = WRITTEN[name]
    for text in (f"{row.help} {row.in_shell}", row.in_toml, meanings().get(name, ".")):
        said = re.sub(r" *\[default: .*\]$", "", text).strip()
        assert not said or said[-1] == ".", text
        assert not re.search(r"(^|\. |\n\n)(Of|What|Whether)\b", said), text


def test_kernel_variants_are_those_there_are():
    assert get_args(VariantName) == VARIANTS


def test_help_has_sections():
    context = plan_command.make_context("plan", ["a.zarr"])
    shown = re.findall(r"^(\w+):$", context.get_help(), re.MULTILINE)
    assert shown == [section.value for section in Section]
