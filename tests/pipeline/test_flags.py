"""Groups by codes that flag_values and flag_meanings name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkfold as cf
import chunkfold.xarray
from chunkfold.sources.flags import flags_of
from chunkfold.workflows.cli.reduce_command import reduce_command

pytestmark = pytest.mark.unoptimised
NAMES = {-1: "ocean", 1: "france", 2: "spain", 7: "italy"}
FLAGS = {"flag_values": np.array([*NAMES], "i2"), "flag_meanings": " ".join(NAMES.values())}


def sample() -> xr.Dataset:
    """Days on a map of countries: codes 0 and 5 have no name, and nothing is italy."""
    rng = np.random.default_rng(1)
    country = rng.choice(np.array([-1, 0, 1, 2, 5], "i2"), (6, 5))
    coords = {"time": np.arange(9), "country": (("lat", "lon"), country, FLAGS)}
    return xr.Dataset({"t": (("time", "lat", "lon"), rng.integers(0, 99, (9, 6, 5)))}, coords)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("flags")
    sample().to_zarr(made / "a.zarr", consolidated=False, encoding={"t": {"chunks": (4, 6, 5)}})
    sample().to_netcdf(made / "a.nc", engine="h5netcdf")
    for n, part in enumerate((slice(0, 4), slice(4, 9))):
        sample().isel(time=part).to_zarr(made / f"part{n}.zarr", consolidated=False)
    return made


SOURCES: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "Zarr": lambda folder: (f"{folder}/a.zarr/t", "country"),
    "Zarr, labels by their path": lambda folder: (
        f"{folder}/a.zarr/t",
        f"{folder}/a.zarr/country",
    ),
    "NetCDF": lambda folder: (f"{folder}/a.nc/t", "country"),
    "several as one": lambda folder: (
        cf.concatenate([f"{folder}/part{n}.zarr/t" for n in (0, 1)], "time"),
        "country",
    ),
    "xarray": lambda _: (sample()["t"], "country"),
    "xarray, labels by themselves": lambda _: (sample()["t"], sample()["country"]),
}


def want(code: int) -> Any:
    return sample()["t"].where(sample()["country"] == code).sum().item()


@pytest.mark.parametrize("kind", SOURCES)
def test_groups_are_called_by_their_names(kind: str, folder: Path):
    source, by = SOURCES[kind](folder)
    found = cf.reduce(source, "sum", by=by, labels=True)
    labels = found["country"].values if isinstance(found, xr.DataArray) else found.labels
    assert [*labels] == ["ocean", "france", "spain"]
    assert np.asarray(found).tolist() == [want(-1), want(1), want(2)]
    made = found if isinstance(found, xr.DataArray) else found.to_xarray()
    assert made.sel(country="spain") == want(2)
    assert not {*FLAGS} & {*made["country"].attrs}


@settings(max_examples=20)
@given(asked=st.lists(st.sampled_from([*NAMES.items()]), min_size=1, unique=True), data=st.data())
def test_groups_are_asked_for_by_name_or_by_code(asked, data, folder: Path):
    groups = [data.draw(st.sampled_from(both)) for both in asked]
    found = cf.reduce(f"{folder}/a.zarr/t", "sum", by="country", groups=groups)
    assert [*found.labels] == [name for _, name in asked]
    assert found.tolist() == [want(code) for code, _ in asked]


def test_tables_and_files_have_names(folder: Path, tmp_path: Path):
    words = ["--op", "sum", "--by", "country", "--groups", "spain,italy", "--json"]
    out = ["--out", str(tmp_path / "a.csv")]
    done = CliRunner().invoke(reduce_command, [f"{folder}/a.zarr/t", *words, *out])
    rows = (tmp_path / "a.csv").read_text().splitlines()
    want_rows = [["spain", str(int(want(2)))], ["italy", "0"]]
    assert [row.split(",")[1:] for row in rows[1:]] == want_rows
    assert json.loads(done.stdout)["groups"] == ["spain", "italy"]


def test_names_go_with_other_labels_and_along_a_coordinates_own_axis():
    region = ("region", np.array([2, 0, 1]), {"flag_values": [0, 1, 2], "flag_meanings": "a b c"})
    array = xr.DataArray(
        np.arange(6).reshape(2, 3), {"region": region, "x": [3, 4]}, ("x", "region")
    )
    found = cf.reduce(array, "sum", by=("x", "region"), groups=(None, ["c", "a"]))
    assert found.sel(x=4, region="c") == 3
    assert found.values.tolist() == [[0, 1], [3, 4]]


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (["frence"], "'frence', which country does not name; did you mean 'france'"),
        (["france", 5], r"groups has 5, .* the names are -1 \(ocean\), 1 \(france\)"),
        (["france", 1], "groups has 1 more than once"),
        ("france", "groups is 'france'; give a list"),
        ([[1]], r"groups has \[1\], which country does not name"),
    ],
)
def test_groups_without_a_name_are_refused(groups, told, folder: Path):
    with pytest.raises(cf.PlanError, match=told):
        cf.plan(f"{folder}/a.zarr/t", "sum", by="country", groups=groups)


def test_codes_of_which_none_has_a_name_make_no_group():
    labels = xr.DataArray([4, 5], dims="x", name="land", attrs=FLAGS)
    with pytest.raises(cf.PlanError, match="all 2 selected labels are missing or have no name"):
        cf.plan(xr.DataArray([1.0, 2.0], dims="x"), "sum", by=labels)


@pytest.mark.parametrize(
    "attributes",
    [
        {"flag_values": [0, 1]},
        {"flag_meanings": "a b"},
        {"flag_values": [0, 1], "flag_meanings": "a"},
        {"flag_values": [0, 1], "flag_meanings": "a a"},
        {"flag_values": [0, 0], "flag_meanings": "a b"},
        {"flag_values": [0.5, 1], "flag_meanings": "a b"},
        {"flag_values": [0, 1], "flag_meanings": "a b", "flag_masks": [1, 1]},
        {"flag_values": [0, 1], "flag_meanings": None},
    ],
)
def test_attributes_that_do_not_fit_leave_numbers(attributes: dict[str, Any]):
    assert flags_of(attributes) is None
    labels = xr.DataArray([1, 1, 0], dims="x", name="land", attrs=attributes)
    found = cf.reduce(xr.DataArray([1.0, 2.0, 4.0], dims="x"), "sum", by=labels)
    assert found["land"].values.tolist() == [0, 1]


def test_bins_of_codes_are_of_numbers(folder: Path):
    found = cf.reduce(f"{folder}/a.zarr/t", "sum", by=cf.bins([0, 3], of="country"))
    assert found[0] == want(0) + want(1) + want(2)
