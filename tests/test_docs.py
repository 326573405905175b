"""What the documentation shows of declarations runs as it stands there."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from matplotlib import pyplot as plt

import chunkfold as cf
from chunkfold.kernels.catalogue.named import _NO_REDUCTIONS

pytestmark = pytest.mark.unoptimised
ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def shown(page: str, holding: str) -> str:
    """The Python of a page, in one piece: blocks that have something in them."""
    blocks = BLOCK.findall((ROOT / page).read_text())
    return "\n".join(block for block in blocks if holding in block)


def test_the_page_on_declarations_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    sample, model = (rng.normal(285, 10, (4, 6, 5)).astype("f4") for _ in range(2))
    codes = rng.integers(0, 9, (4, 6, 5), "u1")
    for name, array in (
        ("sample.zarr/temperature", sample),
        ("model.zarr/temperature", model),
        ("landuse.zarr", codes),
    ):
        zarr.create_array(name, data=array, chunks=(2, 6, 5))
    names: dict[str, Any] = {}
    exec(shown("docs/monoids.md", "cf."), names)
    temperature = "sample.zarr/temperature"
    assert cf.reduce(temperature, names["first_beyond"]) == np.argmax(sample > 300)
    far = np.abs(sample.astype("f8") - 280)
    assert (cf.reduce(temperature, names["farthest"], axis=0) == far.argmax(0)).all()
    classes = [np.isin(codes, of).sum((1, 2)) for of in ([0, 1], [2], [3, 4, 5], [6])]
    got = cf.reduce("landuse.zarr", names["cover"], axis=(1, 2))
    assert got.tolist() == np.transpose(classes).tolist()
    apart = np.sqrt(np.mean((sample.astype("f8") - model) ** 2, 0))
    pair = [temperature, "model.zarr/temperature"]
    np.testing.assert_allclose(cf.reduce(pair, names["rmse"], axis=0), apart, rtol=1e-12)
    assert names["kurtosis"].evaluate(names["heights"]) == 2.0209626342802727
    logs = np.log(sample.astype("f8")).mean(0)
    geometric = cf.reduce(temperature, names["geometric_mean"], axis=0)
    np.testing.assert_allclose(geometric, np.exp(logs), rtol=1e-6)
    there = [Fraction(float(x)) for x in sample.ravel()]
    mean = sum(there) / len(there)
    fourth, second = (sum((x - mean) ** n for x in there) for n in (4, 2))
    wanted = np.float32(float(fourth / second**2 * len(there)))
    assert cf.reduce(temperature, names["kurtosis"]) == wanted
    total = cf.reduce(temperature, names["compensated"])
    np.testing.assert_allclose(total, sample.sum(dtype="f8"), rtol=1e-15)


def test_the_functions_of_the_page_are_those_there_are():
    """Each that it names is there, and each that is there is named."""
    page = (ROOT / "docs" / "monoids.md").read_text()
    table = page.partition("| function | |")[2].partition("##")[0]
    named = set(re.findall(r"`cf\.(\w+)\(", table))
    others = {
        "topk",
        "bottomk",
        "argtopk",
        "argbottomk",
        "approx_nunique",
        "ask",
        "bins",
        "concatenate",
        "devices",
        "histogram",
        "longest_run",
        "plan",
    }
    others |= {"accelerate", "corrcoef", "cov", "quantile", "reduce", "submit"}
    assert named == {name for name in cf.__all__ if name.islower()} - others
    of_numpy = page.partition("of NumPy ")[2].partition("and the operators")[0]
    with pytest.raises(cf.MonoidError) as error:
        cf.Monoid("m", zero=0, lift=np.sort, op="add")
    known = set(str(error.value).rpartition(": ")[2].split(", "))
    listed = set(re.findall(r"`(\w+)`", of_numpy))
    assert listed <= known
    operators = {
        "abs", "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder",
        "mod", "negative", "positive", "fabs", "left_shift", "right_shift", "bitwise_and",
        "bitwise_or", "bitwise_xor", "invert", "bitwise_invert", "logical_and", "logical_or",
        "logical_xor", "logical_not", "equal", "not_equal", "less", "less_equal", "greater",
        "greater_equal",
    }  # fmt: skip
    assert known - listed == operators


def test_the_declaration_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    array = np.random.default_rng(4).normal(280, 10, (9, 40)).astype("f4")
    zarr.create_array("store.zarr/air", data=array, chunks=(4, 40))
    names: dict[str, Any] = {"cf": cf}
    exec(shown("README.md", "cf.Monoid("), names)
    root = np.sqrt(np.mean(array.astype("f8") ** 2))
    got = cf.reduce("store.zarr/air", names["rms_parts"])
    np.testing.assert_allclose(got, root, rtol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        "results", "groups", "weights", "quantiles", "selections", "coarsen", "questions",
        "accelerate", "plots", "images", "anomalies", "check",
    ],
)  # fmt: skip
def test_pages_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
):
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    exec(shown("docs/sample.md", "zarr"), {})
    exec(shown(f"docs/{name}.md", "cf." if name == "coarsen" else ""), names := {})
    page = (ROOT / "docs" / f"{name}.md").read_text()
    for line in capsys.readouterr().out.splitlines():
        assert f"\n    {line}\n" in page
    if name == "results":
        for line in str(names["warmest"]).splitlines():
            assert line in page or line.startswith(" [")
        return
    if name not in ("groups", "coarsen", "selections", "weights"):
        return
    with xarray.open_zarr("sample.zarr") as sample:
        air = sample.temperature.astype("f8")
        if name == "groups":
            want = air.groupby("time.month").mean()
            np.testing.assert_allclose(names["climatology"], want, rtol=1e-7)
        elif name == "coarsen":
            want = air.coarsen(time=7, boundary="trim").mean().mean(("lat", "lon"))
            xarray.testing.assert_allclose(names["weekly"].astype("f8"), want)
        elif name == "selections":
            want = air.sel(time=slice("2001-06", "2001-08"), lat=slice(24, 60)).mean()
            np.testing.assert_allclose(names["summer"], want, rtol=1e-7)
        else:
            weighted = air.weighted(names["weights"]).mean(("lat", "lon"))
            np.testing.assert_allclose(names["daily"]["mean"], weighted, rtol=1e-12)


def test_trends_of_the_page_are_those_of_a_straight_line(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(shown("docs/sample.md", "zarr"), {})
    exec(shown("docs/not-here.md", "cf"), names := {})
    with xarray.open_zarr("sample.zarr") as sample:
        flat = sample.temperature.values.reshape(sample.sizes["time"], -1).astype("f8")
    slope, _ = np.polyfit(names["years"], flat, 1)
    np.testing.assert_allclose(np.asarray(names["slope"]).reshape(-1), slope, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.asarray(names["gaps"]), np.asarray(names["slope"]), rtol=1e-6)


def test_the_sum_of_the_page_is_what_it_says():
    exec(shown("docs/float32.md", "cf"), names := {})
    assert names["cf"].reduce(names["x"], "sum") == 1000.0


NAMED = re.compile(r"`(\w+)`\s+\(`([\w/]+\.py)`\)")
FILE = re.compile(r"`([\w/]+\.(?:py|c|cl|clh))`")
LAYERS = ("kernels", "pipeline", "workflows")


def defined(path: Path) -> set[str]:
    """Return the names that a module defines."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            each = (one for target in targets for one in ast.walk(target))
            names |= {one.id for one in each if isinstance(one, ast.Name)}
    return names


def test_functions_that_a_page_names_are_defined_in_the_modules_that_it_names():
    found = NAMED.findall((ROOT / "docs" / "how-it-works.md").read_text())
    assert len(found) > 40
    assert not {(name, path) for name, path in found if name not in defined(ROOT / path)}


@pytest.mark.parametrize(
    "page", ["docs/how-it-works.md", "docs/for-developers.md", "docs/adding.md", "CONTRIBUTING.md"]
)
def test_files_that_a_page_names_exist(page: str):
    text = re.sub(r"(?ms)^```diff\n.*?^```", "", (ROOT / page).read_text())
    files = [
        str(path.relative_to(ROOT))
        for folder in (*LAYERS, "tests", "benchmarks", "docs")
        for path in (ROOT / folder).rglob("*.*")
    ]
    assert not {
        name
        for name in FILE.findall(text)
        if not any(f"/{file}".endswith(f"/{name}") for file in files)
    }


LINK = re.compile(r"\]\(([^()\s:]*\.md)?#([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are linked by."""
    found = (re.sub(r"[^\w\- ]", "", one.lower()) for one in HEADING.findall(page.read_text()))
    return {one.strip().replace(" ", "-") for one in found}


def test_links_lead_to_headings_that_there_are():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    links = [(page, *link) for page in pages for link in LINK.findall(page.read_text())]
    assert links
    wrong = [
        f"{page.name}: {other}#{anchor}"
        for page, other, anchor in links
        if anchor not in anchors(page.parent / other if other else page)
    ]
    assert not wrong


def test_names_that_are_no_reductions_lead_to_pages_that_tell_of_them():
    for name, page in _NO_REDUCTIONS.items():
        with pytest.raises(
            cf.MonoidError, match=f"{name.upper()}' is not a reduction: docs/{page} "
        ):
            cf.reduce(np.ones(3), name.upper())
        assert (ROOT / "docs" / page).exists()
