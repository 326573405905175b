"""Names of a store say nothing to the terminal, the log or the spreadsheet but what they are."""

from __future__ import annotations

import csv
import json
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from chunkfold.printable import printable
from chunkfold.workflows.files.tables import harmless
from chunkfold.workflows.terminal import consoles
from tests.processes import BIN

pytestmark = pytest.mark.unoptimised

NAMES = (
    "a\x1b]0;owned\x07\x1b[2J",
    "b\nwrote done",
    "c\u202egpj\u200b",
    "[red]d[/]",
    "e\x9b31m",
)
UNSEEN = re.compile(r"[^\n\x20-\x7e\xa1-\u1fff\u2010-\u2027\u2030-\u205f\u2070-\ud7ff]")


@pytest.fixture
def group(tmp_path: Path) -> Path:
    made = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    for name in NAMES:
        made.create_array(
            name,
            data=np.arange(6.0).reshape(2, 3),
            dimension_names=(NAMES[0], NAMES[1]),
            attributes={"units": NAMES[0], "scale_factor": 2.0, "coordinates": NAMES[1]},
        )
    broken = made.create_array("f\x1b[1A", data=np.arange(3.0), chunks=(3,))
    (tmp_path / "g.zarr" / broken.path / "c/0").write_bytes(b"spoiled")
    return tmp_path / "g.zarr"


def clean(*told: str) -> None:
    for text in told:
        assert not UNSEEN.findall(text), UNSEEN.findall(text)
        assert not re.search(r"^wrote done", text, re.MULTILINE), text


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "."],
        ["reduce", "./" + NAMES[1], "--axis", NAMES[0]],
        ["reduce", "./" + NAMES[1], "--axis", "no\x1b[2Jsuch"],
        ["reduce", "./f\x1b[1A", "--on-bad-chunk", "skip"],
        ["reduce", "./gone\x1b[1A\nwrote done"],
        ["plan", "./" + NAMES[1]],
        ["diff", "./" + NAMES[1], "./" + NAMES[2]],
        ["reduce", ".", "--no\x1b[2Jsuch"],
        ["no\x1b[2Jsuch"],
    ],
)
def test_no_command_prints_a_name_as_it_is(group: Path, here, monkeypatch, words: list[str]):
    monkeypatch.chdir(group)
    _, out, err = here(*words)
    clean(out, err)
    assert out + err


def test_a_job_prints_no_name_as_it_is(group: Path, here, tmp_path: Path):
    job = tmp_path / "j.toml"
    job.write_text(
        f'schema = 1\nsources = ["{group}"]\nexclude = ["f*"]\n[reduce]\nstatistics = ["sum"]\n'
        f'[output]\npath = "{tmp_path}/o.csv"\n'
    )
    for more in (["--check"], []):
        code, out, err = here("run", job, *more)
        assert code == 0, err
        clean(out, err)
    with (tmp_path / "o.csv").open(newline="") as file:
        assert {row["source"] for row in csv.DictReader(file)} == set(map(printable, NAMES))


def test_json_stays_json(group: Path, here):
    _, out, _ = here("describe", group, "--json")
    assert {Path(one["name"]).name for one in json.loads(out)} >= {NAMES[0], NAMES[2]}
    clean(out)


def test_a_terminal_is_steered_by_nothing_but_the_bar(group: Path):
    """Of colours and cursors there are the bar's own, and no title."""
    ours, theirs = pty.openpty()
    words = [str(BIN / "chunkfold"), "reduce", str(group / NAMES[0])]
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(words, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        told = b""
        try:
            while part := os.read(ours, 65536):
                told += part
        except OSError:  # nobody writes any more
            pass
    os.close(ours)
    assert process.returncode == 0, told
    assert b"\x1b]0;" not in told
    assert b"\x1b[2J" not in told
    assert b"\\x1b]0;owned" in told


def test_logs_and_faults_of_others_are_printed_so(capfd, monkeypatch):
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    consoles.hear_others()
    log = logging.getLogger("somebody.else")
    monkeypatch.setattr(logging.root, "handlers", [])
    log.warning("no \x1b[2J at https://me:hush@host/a?sig=hush")
    sys.excepthook(ValueError, ValueError("b\x1b[2J"), None)
    told = capfd.readouterr().err
    clean(told)
    assert "somebody.else: no \\x1b[2J at https://host/a\n" in told
    assert "ValueError: b\\x1b[2J" in told
    assert "hush" not in told


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("＝1", "'＝1"),  # noqa: RUF001
        ("-1.5e-3", "-1.5e-3"),
        ("+3", "+3"),
        ("-inf", "-inf"),
        ("a=b", "a=b"),
        ("", ""),
        (-3, -3),
        (None, None),
        (np.float64(-1.5), np.float64(-1.5)),
        (np.str_("=1"), "'=1"),
        (-2j, -2j),
    ],
)
def test_cells_are_no_formulas(cell, written):
    assert harmless(cell) == written
    assert type(harmless(cell)) is (str if written != cell else type(cell))


STEERS = "a\x1b]0;b\x07\x9b2J\u202egpj\u2066c\u200b\td"
"""A name that steers terminals and turns the order of letters."""


def test_names_are_spelled_in_reports_and_in_tables(tmp_path: Path, here):
    made = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    axes = (f"y{STEERS}", "x")
    made.create_array(f"n{STEERS}", data=np.arange(6.0).reshape(2, 3), dimension_names=axes)
    labels = made.create_array(axes[0], shape=(2,), dtype=str, dimension_names=axes[:1])
    labels[...] = np.array([f"=l{STEERS}", f"m{STEERS}"])
    table, page = tmp_path / "o.csv", tmp_path / "o.html"
    code, _, err = here(
        *("reduce", tmp_path / f"g.zarr/n{STEERS}", "--op", "mean", "--axis", "x"),
        *("--out", table, "--report", page),
    )
    assert code == 0, err
    spelled = "a\\x1b]0;b\\x07\\x9b2J\\u202egpj\\u2066c\\u200b\\td"
    for file in (table, page):
        text = file.read_text("utf-8")
        assert text.replace("\n", "").isprintable()
        assert spelled in text
    with table.open(newline="") as read:
        header, *rows = csv.reader(read)
    assert header[1] == f"y{spelled}"
    assert [row[1:] for row in rows] == [[f"'=l{spelled}", "1.0"], [f"m{spelled}", "4.0"]]
    assert f"<h1>{tmp_path}/g.zarr/n{spelled}</h1>" in page.read_text()


def test_no_name_in_a_table_is_a_formula(tmp_path: Path, here):
    made = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
    axes = ("@x", "+y")
    made.create_array("=a", data=-np.arange(6.0).reshape(2, 3), dimension_names=axes)
    labels = made.create_array("@x", shape=(2,), dtype=str, dimension_names=("@x",))
    labels[...] = np.array(["=1+1", "-2"])
    code, _, err = here(
        *("reduce", tmp_path / "g.zarr/=a", "--op", "sum,min", "--axis", "+y"),
        *("--out", tmp_path / "o.csv"),
    )
    assert code == 0, err
    with (tmp_path / "o.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[1] == "'@x"
    assert [row[1:] for row in rows] == [["'=1+1", "-3.0", "-2.0"], ["-2", "-12.0", "-5.0"]]
