"""Groups hold what is stored, whatever their consolidated metadata say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore, ZipStore

import chunkfold as cf
from chunkfold.errors import SourceError
from chunkfold.sources.opening import Unopened, open_each, open_source
from chunkfold.sources.zarr_groups import members_of, open_as_it_is

NAMES = ("kept", "told", "longer", "gone", "deep/down")


class Unlisted(LocalStore):
    """A store as plain web servers have it: objects come by name alone."""

    def list_dir(self, prefix: str) -> Any:
        raise OSError(f"{prefix} cannot be listed")


@pytest.fixture(params=[2, 3])
def stale(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A group that others wrote to after its metadata were consolidated."""
    path, zarr_format = tmp_path / "g.zarr", request.param
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)
    for name in NAMES:
        made = group.create_array(name, shape=(8,), chunks=(4,), dtype="f8")
        made[...] = np.arange(8.0)
    zarr.consolidate_metadata(path, zarr_format=zarr_format)
    zarr.open_array(path / "told", mode="a").attrs["units"] = "K"
    zarr.open_array(path / "longer", mode="a").append(np.full(4, 100.0))
    shutil.rmtree(path / "gone")
    written = zarr.open_group(path, mode="a", use_consolidated=False)
    written.create_array("added", data=np.full(3, 7.0))
    (path / "README").write_text("no array")
    return path


def spoil(array: Path) -> None:
    (array / ("zarr.json" if (array / "zarr.json").exists() else ".zarray")).write_text("{ not")


def test_members_are_what_is_stored(stale: Path):
    found = {member.path: member.found for member in members_of(zarr.open_group(stale, mode="r"))}
    assert list(found) == ["added", "deep/down", "gone", "kept", "longer", "told"]
    assert found.pop("gone") is None
    assert {path: node.shape for path, node in found.items() if node.shape != (8,)} == {
        "added": (3,),
        "longer": (12,),
    }
    assert found["told"].attrs.asdict() == {"units": "K"}


def test_where_nothing_is_listed_consolidated_metadata_name_members(stale: Path):
    found = members_of(open_as_it_is(Unlisted(stale, read_only=True)))
    assert [(one.path, one.found is None) for one in found] == [
        ("deep/down", False),
        ("gone", True),
        ("kept", False),
        ("longer", False),
        ("told", False),
    ]
    assert {one.path: one.found for one in found}["longer"].shape == (12,)
    zarr.open_group(stale, mode="w", zarr_format=zarr.open_group(stale).metadata.zarr_format)
    with pytest.raises(OSError, match="cannot be listed"):
        members_of(open_as_it_is(Unlisted(stale, read_only=True)))


def test_a_broken_array_is_told_beside_the_others(stale: Path):
    spoil(stale / "kept")
    found = {one.name.removeprefix(f"{stale}/"): one for one in open_each(stale)}
    broken = found["kept"]
    assert isinstance(broken, Unopened)
    assert not broken.gone
    assert "kept: cannot be opened (JSONDecodeError" in str(broken.error)
    assert [name for name, one in found.items() if isinstance(one, Unopened)] == ["gone", "kept"]
    with pytest.raises(SourceError, match=r"its arrays: .*/added, .*/kept, .*/longer, .*/told$"):
        open_source(stale)


@pytest.mark.parametrize("zipped", [False, True])
def test_arrays_of_stale_groups_are_reduced_as_they_are(stale: Path, *, zipped: bool):
    """Staleness is no change under way."""
    store: Any = stale
    if zipped:
        shutil.make_archive(str(stale), "zip", stale)
        store = ZipStore(f"{stale}.zip", read_only=True)
    group = zarr.open_group(store, mode="r")
    assert cf.reduce(group["longer"], "max") == 100
    assert {one.name.rpartition("/")[2]: cf.reduce(one, "count") for one in there(group)} == {
        "added": 3,
        "down": 8,
        "kept": 8,
        "longer": 12,
        "told": 8,
    }


def there(group: zarr.Group) -> list[Any]:
    return [one for one in open_each(group) if not isinstance(one, Unopened)]


def test_links_that_lead_back_are_followed_once(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "g"), mode="w")
    group.create_array("v", data=np.arange(4.0), chunks=(2,))
    for name in ("a", "b"):
        (tmp_path / "g" / name).symlink_to(".")
    assert [one.path for one in members_of(zarr.open_group(str(tmp_path / "g"), mode="r"))] == ["v"]


def test_every_link_to_a_folder_has_its_arrays(tmp_path: Path):
    group = zarr.open_group(str(tmp_path / "g"), mode="w")
    group.create_array("run/deep/v", data=np.arange(4.0), chunks=(2,))
    (tmp_path / "g" / "latest").symlink_to("run")
    (tmp_path / "g" / "run" / "deep" / "back").symlink_to("..")
    found = members_of(zarr.open_group(str(tmp_path / "g"), mode="r"))
    assert [one.path for one in found] == ["latest/deep/v", "run/deep/v"]
