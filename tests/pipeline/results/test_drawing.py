"""Pictures say by their axes what is drawn: coordinates, units, groups, true edges."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot as plt
from matplotlib.dates import num2date

import chunkfold as cf
from chunkfold.errors import PlanError
from chunkfold.results.drawing import plotted

pytestmark = pytest.mark.unoptimised
RNG = np.random.default_rng(0)
TIME = np.arange("2001-01-01", "2001-03-01", dtype="M8[D]").astype("M8[ns]")
AIR = xr.DataArray(
    RNG.normal(280, 9, (59, 4, 6)).astype("f4"),
    {
        "time": TIME,
        "lat": ("lat", [-60.0, -20.0, 20.0, 60.0], {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0.0, 360, 60), {"units": "degrees_east"}),
    },
    ("time", "lat", "lon"),
    "t2m",
    {"units": "K", "long_name": "2 metre temperature"},
)


@pytest.fixture(autouse=True)
def figures() -> Iterator[None]:
    mpl.use("agg")
    yield
    plt.close("all")


def reduced(op: object, **given) -> cf.Result:
    return cf.submit(AIR, op, **given).labelled()


def labels(ax) -> tuple[str, str]:
    return ax.get_xlabel(), ax.get_ylabel()


def test_two_axes_are_a_map_with_true_coordinates_and_units():
    ax = reduced("mean", axis="time").plot()
    assert labels(ax) == ("lon [degrees_east]", "lat [degrees_north]")
    assert ax.get_title() == "mean of 2 metre temperature"
    (mesh,) = ax.collections
    assert mesh.colorbar.ax.get_ylabel() == "mean [K]"
    assert ax.get_xlim() == (-30, 330)
    assert ax.get_ylim() == (-80, 80)
    np.testing.assert_allclose(mesh.get_array().reshape(4, 6), AIR.mean("time"), rtol=1e-5)
    assert ax.get_aspect() == 1


def test_a_map_without_values_says_so():
    ax = reduced("mean", axis="time", where=lambda x: x < 0).plot()
    assert [text.get_text() for text in ax.texts] == ["all values are NaN"]


def test_one_axis_is_a_line_over_its_coordinate():
    ax = reduced("mean", axis=("lat", "lon")).plot(color="red")
    (line,) = ax.lines
    assert labels(ax) == ("time", "mean [K]")
    np.testing.assert_array_equal(np.array(line.get_xdata(), "M8[D]"), TIME.astype("M8[D]"))
    assert line.get_color() == "red"


def test_groups_are_bars_lines_and_small_multiples():
    counts = reduced("sum", by="time.month", where="x > 1e9").plot()
    assert [one.get_text() for one in counts.get_xticklabels()] == ["1", "2"]
    assert labels(counts) == ("month", "sum [K]")
    zones = cf.bins([-90, 0, 90], of="lat")
    lines = reduced("mean", axis=("lat", "lon"), by=zones).plot()
    assert [one.get_label() for one in lines.lines] == ["[-90, 0)", "[0, 90)"]
    panels = reduced("mean", axis="time", by="time.month").plot()
    assert [one.get_title() for one in panels] == ["month 1", "month 2"]
    meshes = [ax.collections[0] for ax in panels]
    assert len({one.get_clim() for one in meshes}) == 1  # colours stand for the same
    assert panels[0].figure.get_supxlabel() == "lon [degrees_east]"


def test_bars_of_intervals_are_as_wide_as_these():
    bands = cf.bins([-90, -30, 0, 90], of="lat")
    ax = reduced("count", by=bands).plot()
    assert labels(ax)[0] == "lat_bins [degrees_north]"
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    assert ends == [(-90, -30), (-30, 0), (0, 90)]


def test_a_histogram_stands_on_the_axis_of_its_values():
    ax = reduced(cf.histogram(edges=[250, 260, 300, 310])).plot()
    assert labels(ax) == ("2 metre temperature [K]", "values per width")
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [
        (250, 10), (260, 40), (300, 10),
    ]  # fmt: skip
    counts, _ = np.histogram(AIR, [250, 260, 300, 310])
    tall = np.array([bar.get_height() for bar in ax.patches])
    np.testing.assert_allclose(tall, (counts / [10, 40, 10]) / max(counts / [10, 40, 10]))


def test_bins_without_end_are_told_and_not_drawn():
    values = np.array([0.0] * 50 + [1.0, 2.0, 3.0] * 20 + [np.inf] * 7)
    ax = cf.reduce(values, "histogram", labels=True).plot()
    assert [one.get_text() for one in ax.texts] == ["inf to inf: 7"]
    assert len(ax.patches) == 4
    assert all(np.isfinite(bar.get_x()) and bar.get_width() > 0 for bar in ax.patches)


def test_quantiles_are_bands_also_where_each_is_a_reduction():
    whole = reduced(cf.quantile([0.05, 0.5, 0.95]), axis=("lat", "lon")).plot()
    several = reduced(["p5", "median", "p95"], axis=("lat", "lon")).plot()
    for ax in (whole, several):
        told = [one.get_text() for one in ax.get_legend().get_texts()]
        assert told == ["5% to 95%", "50%"]
        low, high = ax.collections[0].get_datalim(ax.transData).intervaly
        want = np.quantile(AIR, [0.05, 0.95], axis=(1, 2), method="lower")
        assert low == pytest.approx(want.min(), abs=3)
        assert high == pytest.approx(want.max(), abs=3)


def test_dates_are_dates_along_colours_too():
    ax = reduced("argmax", axis="lat").plot()
    assert labels(ax) == ("lon [degrees_east]", "time")
    low, high = ax.get_ylim()
    assert (num2date(low).year, num2date(high).month) == (2000, 2)


def test_what_differs_about_zero_is_drawn_in_two_colours():
    climate = reduced("mean", axis="time")
    anomaly = reduced("mean", axis="time", by="time.month") - climate
    mesh = anomaly.plot()[0].collections[0]
    low, high = mesh.get_clim()
    assert (low, mesh.get_cmap().name) == (-high, "RdBu_r")


def test_large_maps_are_thinned_and_say_so():
    large = xr.DataArray(np.arange(6_000.0).reshape(3, 2000), dims=("y", "x"), name="sum")
    ax = cf.Result("sum", large.values, ("y", "x"), {}).plot()
    assert ax.get_xlabel() == "x (positions), 1 of 2 drawn"
    assert ax.collections[0].get_array().size == 3000


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (cf.Result("sum", np.float32(1), (), {}), "a single number"),
        (cf.Result("sum", np.ones((2, 3), "c8"), ("y", "x"), {}), r"np\.abs\(result\)"),
        (cf.Result("sum", np.ones((0, 3)), ("y", "x"), {}), "no elements"),
        (cf.Result("mode", np.array(["a", "b"]), ("y",), {}), "only numbers"),
        (cf.Result("sum", np.ones((13, 2, 3)), ("z", "y", "x"), {}), "13 panels"),
    ],
)
def test_what_has_no_picture_is_refused_in_a_sentence(result: cf.Result, told: str):
    with pytest.raises(PlanError, match=told):
        result.plot()
    assert plt.get_fignums() == []


def test_given_axes_are_drawn_on():
    _, (left, right) = plt.subplots(1, 2)
    result = reduced("mean", axis="time")
    assert result.plot(ax=right) is right
    assert not left.has_data()
    with pytest.raises(PlanError, match="2 panels: omit ax"):
        reduced("mean", axis="time", by="time.month").plot(ax=left)


def test_without_matplotlib_its_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    result = reduced("mean", axis="time")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'chunkfold\[plot\]'"):
        result.plot()


def test_names_of_strangers_are_texts():
    said = {"units": r"$\frac{1", "long_name": "\n"}
    named = cf.Result("sum", np.ones((2, 3)), ("a$b$", "x\x1b"), said)
    ax = named.plot()
    ax.figure.canvas.draw()
    assert labels(ax) == (r"x\x1b (positions)", "a$b$ (positions)")
    assert ax.get_title() == r"sum of \n"


DAYS = np.array("2001-01-01", "M8[D]") + np.arange(12).reshape(3, 4)
CURVED = np.meshgrid(np.linspace(40, 60, 3), np.linspace(0, 30, 4), indexing="ij")
NOLEAP = xr.date_range("2001-01-01", periods=3, freq="MS", calendar="noleap", use_cftime=True)


@pytest.mark.parametrize(
    ("values", "coords", "told"),
    [
        (DAYS, {}, ("x (positions)", "y (positions)")),
        (DAYS - DAYS[0, 0], {}, ("x (positions)", "y (positions)")),
        (np.full((3, 4), np.nan), {}, ("x (positions)", "y (positions)")),
        (np.eye(3, 4) > 0, {}, ("x (positions)", "y (positions)")),
        (np.eye(3, 4).astype("f2"), {}, ("x (positions)", "y (positions)")),
        (np.array([[1, np.inf], [2, 3]]), {}, ("x (positions)", "y (positions)")),
        (np.eye(3, 4), {"y": list("abc"), "x": [1, 2, 3, 4]}, ("x", "y")),
        (np.eye(3, 4), {"y": NOLEAP}, ("x (positions)", "y (years)")),
        (
            np.eye(3, 4),
            {
                "lat": (("y", "x"), CURVED[0], {"units": "degrees_north"}),
                "lon": (("y", "x"), CURVED[1], {"units": "degrees_east"}),
            },
            ("lon [degrees_east]", "lat [degrees_north]"),
        ),
    ],
)
def test_maps_of_any_values_and_coordinates_are_drawn(values, coords, told):
    array = xr.DataArray(values, coords, ("y", "x"), "some")
    ax = plotted(array, None, {})
    ax.figure.canvas.draw()
    assert labels(ax) == told


@pytest.mark.parametrize("values", [DAYS[0, :3], [1, np.nan, 3], [np.nan] * 3, [0, 0, 0]])
@pytest.mark.parametrize("coords", [[1, 2, 3], list("abc"), [0.5, 1, 1.5], NOLEAP])
def test_lines_and_bars_of_any_values_are_drawn(values, coords):
    ax = plotted(xr.DataArray(values, {"k": coords}, ("k",), "some"), None, {})
    ax.figure.canvas.draw()
    assert labels(ax)[1] == "some"


def test_without_coordinates_cells_stand_at_their_positions_and_the_first_row_is_on_top():
    """As an image of which not every cell is drawn."""
    made = np.zeros((2500, 1200), "f4")
    ax = cf.reduce(made[None], "max", axis=0, labels=True).plot()
    assert ax.get_xlim()[1] > 1198
    low, high = ax.get_ylim()
    assert low > 2490
    assert high <= 0
