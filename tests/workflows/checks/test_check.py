"""Exactly the damages that archives have are found by `check`."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkfold.errors import PlanError, SourceError
from chunkfold.workflows.checks import coordinate_findings
from chunkfold.workflows.checks.check import check
from chunkfold.workflows.checks.finding_kinds import MEANINGS, REMARKS, FindingKind
from chunkfold.workflows.checks.findings import Soundness
from chunkfold.workflows.images.pyramid import pyramid
from tests.web import served

pytestmark = pytest.mark.unoptimised
SHAPE, CHUNKS = (12, 8), (3, 4)
KEPT: Any = {"write_empty_chunks": True}


def made(at: Path, name: str, data: np.ndarray, dims: tuple[str, ...], **given: Any) -> Path:
    """Write an array of a group; return its folder."""
    attributes = given.pop("attributes", {})
    if given.get("zarr_format") == 2:
        attributes = {**attributes, "_ARRAY_DIMENSIONS": list(dims)}
        given.setdefault("fill_value", None)
    else:
        given["dimension_names"] = dims
    given = {"chunks": data.shape, "config": KEPT, "overwrite": True} | given
    array = zarr.create_array(
        at / name, shape=data.shape, dtype=data.dtype, attributes=attributes, **given
    )
    array[...] = data
    return at / name


def air(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(280, 5, SHAPE).astype("f4")


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A group in which nothing is wrong."""
    path = tmp_path / "s.zarr"
    zarr.open_group(path, mode="w")
    made(path, "air", air(), ("time", "lat"), chunks=CHUNKS)
    units = {"units": "days since 2001-01-01", "calendar": "standard"}
    made(path, "time", np.arange(12), ("time",), attributes=units)
    made(path, "lat", np.linspace(-70, 70, 8), ("lat",))
    return path


def told(found: Soundness) -> dict[tuple[str, str], str]:
    """Return messages by the last name of the array and the kind."""
    return {(one.name.rpartition("/")[2], str(one.kind)): one.message for one in found.findings}


def test_a_sound_archive_has_no_findings(sound: Path):
    zarr.consolidate_metadata(sound)
    found = check(sound)
    assert (found.ok, found.unread, found.findings) == (True, False, ())
    assert found.summary == f"{sound}: sound (3 arrays, 10 chunks, 544 B)"


FORMS: dict[str, dict[str, Any]] = {
    "format 3": {},
    "format 2": {"zarr_format": 2},
    "shards": {"shards": (6, 8)},
    "order F": {"zarr_format": 2, "order": "F"},
}
DAMAGES = ["none", "cut", "flipped", "missing", "nan", "fill", "constant", "infinite", "outside"]
KINDS = {"cut": "unreadable", "flipped": "unreadable"}
FILL = -5.0


def damaged(path: Path, form: dict[str, Any], damages: list[str]) -> None:
    """Write an array whose chunks are damaged, each in a way of its own."""
    values = air()
    places = [np.unravel_index(n, (4, 2)) for n in range(8)]
    for damage, (i, j) in zip(damages, places, strict=True):
        part = values[3 * i : 3 * i + 3, 4 * j : 4 * j + 4]
        if damage in ("nan", "fill", "constant"):
            part[...] = {"nan": np.nan, "fill": FILL, "constant": 281}[damage]
        elif damage in ("infinite", "outside"):
            part[1, 2] = {"infinite": np.inf, "outside": 1e5}[damage]
    valid = {"valid_min": FILL, "valid_max": 1e4}
    given = {"chunks": CHUNKS, "fill_value": FILL, "attributes": valid} | form
    made(path, "air", values, ("y", "x"), **given)
    key = zarr.open_array(path / "air", mode="r").metadata.encode_chunk_key
    for damage, place in zip(damages, places, strict=True):
        file = path / "air" / key(tuple(map(int, place)))
        if damage == "missing":
            file.unlink()
        elif damage == "cut":
            file.write_bytes(file.read_bytes()[:-7])
        elif damage == "flipped":
            stored = bytearray(file.read_bytes())
            stored[0] ^= 0xFF
            file.write_bytes(stored)


@pytest.mark.short
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["format 3", "format 2", "order F"]),
    st.lists(st.sampled_from(DAMAGES), min_size=8, max_size=8),
)
def test_exactly_the_damages_that_were_planted_are_found(form: str, damages: list[str]):
    with tempfile.TemporaryDirectory() as folder:
        damaged(Path(folder), FORMS[form], damages)
        found = check(Path(folder) / "air")
    (array,) = found.arrays
    assert array.states is not None
    order = ["none", *FindingKind]
    worst = [order[n] for n in array.states.ravel()]
    kinds = [KINDS.get(one, one) for one in damages]
    assert worst == ["outside" if kind == "infinite" else kind for kind in kinds]  # beyond 1e4, too
    planted = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds) if kind != "none"}
    if "infinite" in planted:
        planted["outside"] = planted.get("outside", 0) + planted["infinite"]
    assert {str(one.kind): one.chunks for one in found.findings} == planted
    assert found.ok == (not set(planted) - set(map(str, REMARKS)))
    assert found.unread == ("unreadable" in planted)


def test_a_damaged_shard_is_found_by_its_chunks(tmp_path: Path):
    zarr.open_group(tmp_path, mode="w")
    damaged(tmp_path, FORMS["shards"], ["none"] * 8)
    file = tmp_path / "air/c/1/0"
    stored = bytearray(file.read_bytes())
    stored[0] ^= 0xFF
    file.write_bytes(stored)
    (tmp_path / "air/c/0/0").unlink()
    found = {str(one.kind): one for one in check(tmp_path).findings}
    assert set(found) == {"missing", "unreadable"}
    assert (found["missing"].chunks, found["missing"].keys) == (4, ("c/0/0",))
    assert (found["unreadable"].chunks, found["unreadable"].keys) == (1, ("c/1/0",))
    assert found["unreadable"].places == ("[6:9, 0:4]",)


def test_chunks_that_are_not_stored_are_not_outside_limits(sound: Path):
    values = air()
    values[0, 0] = 999
    made(sound, "air", values, ("time", "lat"), chunks=CHUNKS)
    (sound / "air/c/2/1").unlink()
    found = told(check(sound, limits={"air": (200, 400)}))
    assert found["air", "outside"] == "values up to 999.0, outside limits 200 to 400"


def test_findings_name_chunks_and_where_they_are(sound: Path):
    (sound / "air/c/2/1").unlink()
    (one,) = check(sound).findings
    assert (one.kind, one.error, one.chunks, one.keys) == ("missing", False, 1, ("c/2/1",))
    assert one.places == ("[6:9, 4:8] time 2001-01-07 to 2001-01-09, lat 10.0 to 70.0",)


def test_packed_numbers_are_compared_with_limits_as_cf_says(tmp_path: Path):
    values = np.arange(100, dtype="i2")
    packed = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": 99}
    both = "values down to 0 and up to 98 as stored, outside valid_range 10 to 59"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"valid_max": 98}, ""),
        ({"valid_max": 97}, "values up to 98 as stored, outside valid_max 97 or less"),
        ({"valid_range": [10.0, 59]}, both),
        ({"valid_range": [10.5, 59]}, "values down to 10.0, outside valid_range 10.5 to 59"),
    ]
    for attributes, message in cases:
        made(tmp_path, "a", values, ("x",), attributes={**packed, **attributes})
        found = told(check(tmp_path / "a"))
        assert found == ({("a", "outside"): message} if message else {})
    limits = {"a": (None, 58.5)}
    made(tmp_path, "a", values, ("x",), attributes=packed)
    assert told(check(tmp_path / "a", limits=limits)) == {
        ("a", "outside"): "values up to 59.0, outside limits 58.5 or less"
    }
    made(tmp_path, "a", values, ("x",), attributes={**packed, "scale_factor": -0.5})
    assert told(check(tmp_path / "a", limits={"*": (-39, 10)})) == {}


def test_unsigned_numbers_in_signed_bytes_are_compared_as_they_are_meant(tmp_path: Path):
    values = np.array([0, 100, 200, 255], "u1").view("i1")
    given = {"_Unsigned": "true", "_FillValue": -1, "valid_max": 199}
    made(tmp_path, "a", values, ("x",), attributes=given)
    message = "values up to 200, outside valid_max 199 or less"
    assert told(check(tmp_path / "a")) == {("a", "outside"): message}


@pytest.mark.parametrize("dtype", ["?", "u8", "f2", "M8[ns]", "m8[s]", "c16", ">i4"])
def test_chunks_of_any_dtype_are_checked(tmp_path: Path, dtype: str):
    values = np.arange(12).astype(dtype)
    array = made(tmp_path, "a", values, ("x",), chunks=(4,), attributes={"valid_max": 10})
    (array / "c/1").unlink()
    kinds = {kind for _, kind in told(check(array))}
    assert kinds == {"missing", *(["outside"] if dtype not in ("?", "c16") else []),
                     *(["constant"] if dtype == "?" else [])}  # fmt: skip


def test_what_numbers_mean_must_be_numbers(tmp_path: Path):
    made(tmp_path, "a", np.arange(3), ("x",), attributes={"scale_factor": "a tenth"})
    made(tmp_path, "b", np.arange(3), ("x",), attributes={"valid_range": "0 to 5"})
    zarr.open_group(tmp_path, mode="a").create_array("c", shape=(3,), dtype="str")
    found = check(tmp_path)
    assert {(one.name[-1], str(one.kind), one.error) for one in found.findings} == {
        ("a", "attributes", True),
        ("b", "attributes", True),
        ("c", "unchecked", False),
    }


UNITS = {"units": "hours since 2001-01-01", "calendar": "noleap"}
DAY = np.arange(10) * 24
TIMES: dict[str, tuple[np.ndarray, set[str]]] = {
    "days": (DAY, set()),
    "months": (np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30]) * 24, set()),
    "backwards": (DAY[::-1].copy(), {"order"}),
    "one early": (np.where(np.arange(10) == 5, 24.5, DAY), {"order", "gap"}),
    "doubled": (np.where(np.arange(10) == 5, DAY[4], DAY), {"double", "gap"}),
    "a gap": (DAY + 48 * (np.arange(10) > 6), {"gap"}),
    "uneven": (2 ** np.arange(10), set()),
    "one": (DAY[:1], set()),
    "none": (DAY[:0], set()),
    "without a value": (np.where(np.arange(10) == 9, np.nan, DAY), {"coordinate"}),
}


@pytest.mark.parametrize("case", TIMES)
def test_times_are_in_order_single_and_without_gaps(tmp_path: Path, case: str):
    values, kinds = TIMES[case]
    chunks = (max(1, len(values)),)
    array = made(tmp_path, "time", values, ("time",), attributes=UNITS, chunks=chunks)
    assert {kind for _, kind in told(check(array))} == kinds


def test_dates_of_times_are_told(tmp_path: Path):
    times = np.array(["2001-01-01", "2001-01-02", "2001-01-05", "2001-01-06"], "M8[s]")
    array = made(tmp_path, "time", times, ("time",))
    assert told(check(array)) == {
        ("time", "gap"): "1 gap, about 2 times missing, the first between 2001-01-02 and 2001-01-05"
    }


def test_coordinates_too_long_to_be_read_as_one_are_told(
    sound: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(coordinate_findings, "_MOST", 11)
    made(sound, "time", np.arange(12)[::-1].copy(), ("time",), attributes=UNITS)
    assert set(told(check(sound))) == {("time", "unchecked")}


def test_coordinates_are_as_long_as_axes(sound: Path):
    made(sound, "lat", np.arange(7.0), ("lat",))
    zarr.open_group(sound / "more", mode="w")
    made(sound, "more/u", np.zeros((3, 2)), ("y", "x"), fill_value=1)
    made(sound, "more/v", np.zeros((3, 2)), ("y", "x"), fill_value=1)
    made(sound, "more/w", np.ones((3, 3)), ("y", "x"), fill_value=9)
    found = check(sound, ignore=["constant"])
    assert told(found) == {
        ("lat", "shape"): "it has 7 elements, but axis 'lat' has 8 in air",
        ("w", "shape"): "its axis 'x' has 3 elements, but 2 in u, 2 in v",
    }


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_are_compared_with_own_ones(tmp_path: Path, zarr_format: Any):
    path = tmp_path / "s.zarr"
    zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name in ("a", "b", "gone"):
        made(path, name, np.arange(6), (name,), zarr_format=zarr_format)
    zarr.consolidate_metadata(path)
    assert check(path).findings == ()
    zarr.open_array(path / "a", mode="a").append(np.arange(6, 12))
    zarr.open_array(path / "b", mode="a").attrs["units"] = "m"
    shutil.rmtree(path / "gone")
    made(path, "new", np.arange(6), ("new",), zarr_format=zarr_format)
    found = told(check(path))
    named = "attribute units" if zarr_format == 3 else "units"
    assert found == {
        ("a", "consolidated"): "shape is [12], but [6] consolidated",
        ("b", "consolidated"): f'{named} is "m", but nothing consolidated',
        ("gone", "gone"): "is gone, but the consolidated metadata of its group name it",
        (
            "new",
            "consolidated",
        ): "is not in the consolidated metadata: readers that use them do not see it",
    }
    (path / "b" / ("zarr.json" if zarr_format == 3 else ".zarray")).write_text("{ not")
    assert ("b", "unopened") in told(check(path))


def test_hdf5_is_checked_too(tmp_path: Path):
    with h5py.File(tmp_path / "a.nc", "w") as file:
        dataset = file.create_dataset("air", SHAPE, "f4", chunks=CHUNKS, compression="gzip")
        dataset[:9] = air()[:9]
        dataset[3:6, :4] = np.nan
        dataset.attrs["valid_max"] = 1000.0
        offset = dataset.id.get_chunk_info(0).byte_offset
    with (tmp_path / "a.nc").open("r+b") as stored:
        stored.seek(offset)
        stored.write(b"spoiled")
    found = check(tmp_path / "a.nc")
    chunks = {str(one.kind): (one.chunks, one.places) for one in found.findings}
    assert chunks == {
        "unreadable": (1, ("[0:3, 0:4]",)),
        "nan": (1, ("[3:6, 0:4]",)),
        "missing": (2, ("[9:12, 0:4]", "[9:12, 4:8]")),
    }


def test_kinds_are_failed_on_or_passed_over(sound: Path):
    (sound / "air/c/0/0").unlink()
    assert check(sound).ok
    assert not check(sound, fail_on=["missing"]).ok
    assert not check(sound, fail_on=["all"]).ok
    assert check(sound, ignore=["missing"], fail_on=["missing"]).findings == ()
    with pytest.raises(PlanError, match="fail_on is 'absent'; use 'all' or one of unreadable"):
        check(sound, fail_on=["absent"])


def test_arrays_are_chosen_by_patterns(sound: Path):
    made(sound, "time", np.arange(12)[::-1].copy(), ("time",), attributes=UNITS)
    made(sound, "other", np.full(9, np.nan), ("n",))
    found = check(sound, arrays=["a*"])
    assert [one.name for one in found.arrays] == [f"{sound}/air"]
    assert set(told(found)) == {("time", "order")}
    with pytest.raises(PlanError, match=r"has no array called 'water'; it has air, lat"):
        check(sound, arrays=["water"])
    with pytest.raises(PlanError, match="has no array called 'water'"):
        check(sound, limits={"water": (0, 1)})
    with pytest.raises(SourceError, match="no such path"):
        check(sound / "nothing")


def test_an_array_is_read_once(sound: Path, monkeypatch: pytest.MonkeyPatch):
    from chunkfold.decoding.direct import Direct

    read = np.zeros(SHAPE, int)
    true_read = Direct.read

    def counting(self: Direct, name: str, region, out, known=None) -> None:
        if name.endswith("air"):
            read[region] += 1
        true_read(self, name, region, out, known)

    monkeypatch.setattr(Direct, "read", counting)
    assert check(sound).ok
    assert (read == 1).all()


def test_arrays_of_no_elements_or_no_axes_are_sound(tmp_path: Path):
    made(tmp_path, "none", np.empty((0, 3)), ("y", "x"), chunks=(1, 3))
    made(tmp_path, "one", np.array(7.0), ())
    zarr.open_group(tmp_path, mode="a")
    assert check(tmp_path).findings == ()
    made(tmp_path, "one", np.array(np.nan), ())
    (one,) = check(tmp_path).findings
    assert (one.kind, one.keys, one.places) == ("nan", ("c",), ("[]",))


def test_the_command_tells_findings_and_draws_chunks(sound: Path, here: Callable, tmp_path: Path):
    code, shown, _ = here("check", sound)
    assert (code, shown) == (0, f"{sound}: sound (3 arrays, 10 chunks, 544 B)\n")
    (sound / "air/c/1/0").unlink()
    code, shown, _ = here("check", sound, "--limits", "air=:100")
    assert code == 1
    assert "\n!-!!\n!!!!\n· sound  - missing  ! outside\n" in shown
    (sound / "air/c/3/1").write_bytes(b"spoiled")
    picture = tmp_path / "chunks.svg"
    code, shown, _ = here("check", sound, "--json", "--plot", picture)
    told = json.loads(shown)
    assert (code, told["ok"], told["unread"]) == (3, False, True)
    assert [one["kind"] for one in told["findings"]] == ["unreadable", "missing"]
    (worst,) = (one["worst"] for one in told["arrays"] if one["name"].endswith("air"))
    assert worst == {"sound": 6, "missing": 1, "unreadable": 1}
    assert "<svg" in picture.read_text()
    code, _, said = here("check", sound, "--limits", "air")
    assert code == 2
    assert "write 'air=180:330'" in said


def test_the_command_names_every_kind(here: Callable):
    _, shown, _ = here("check", "--help")
    for kind, meaning in MEANINGS.items():
        assert f"{kind} " in shown
        assert " ".join(meaning.split()[:4]) in " ".join(shown.split())


def test_stores_that_list_nothing_are_checked_as_far_as_they_tell(sound: Path):
    (sound / "air/c/2/1").unlink()
    packed = shutil.make_archive(str(sound), "zip", sound.parent, sound.name)
    kinds = {kind for _, kind in told(check(f"{packed}/{sound.name}"))}
    assert kinds == {"fill", "unchecked"}
    with served(sound.parent) as web:
        found = check(f"{web.url}/{sound.name}/air")
    (lacking,) = (one for one in found.findings if one.kind == "missing")
    assert (lacking.chunks, lacking.message) == (
        1,
        "1 chunk not stored; the store does not list which",
    )


def test_levels_of_an_image_have_axes_of_several_lengths(tmp_path: Path):
    image = np.random.default_rng(0).integers(1, 99, (8, 8), "u1")
    zarr.create_array(tmp_path / "image.zarr", data=image, dimension_names=("y", "x"))
    pyramid(tmp_path / "image.zarr", tmp_path / "levels.zarr", levels=3)
    found = check(tmp_path / "levels.zarr")
    assert (len(found.arrays) > 2, found.findings) == (True, ())
