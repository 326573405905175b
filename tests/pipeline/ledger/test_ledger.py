"""A ledger returns what was written or nothing, whatever became of its files."""

from __future__ import annotations

import os
import pickle
import random
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import zarr
from safetensors.numpy import load_file

from chunkfold.errors import LedgerError
from chunkfold.ledger import upkeep
from chunkfold.ledger.ledger import Ledger
from chunkfold.ledger.ledger_folders import SUFFIX
from chunkfold.ledger.segments import NewEntry, StoredEntry
from chunkfold.ledger.upkeep import MOST_SEGMENTS, join_segments, prune, verify

MUTANTS = int(os.environ.get("CHUNKFOLD_LEDGER_MUTANTS", "500"))


def entry(number: int, *, components: tuple[str, ...] = ("c",)) -> NewEntry:
    """Return an entry whose arrays follow from its number."""
    arrays = {
        "0.count": np.array(number),
        "0.c.s": np.arange(number % 7, dtype=np.float64) + number,
        "0.c.t": np.full((2, 3), number, np.int64),
        "0.c.b": np.array([True, False]),
    }
    return NewEntry(f"{number:032x}", components, arrays, (1, 2), "a.zarr", "sum of [0:9]", 72)


def assert_is(found: list[dict[str, np.ndarray]] | None, number: int) -> None:
    """See that an entry is the one of a number."""
    assert found is not None
    (arrays,) = found
    for name, expected in entry(number).arrays.items():
        np.testing.assert_array_equal(arrays[name], expected)
        assert arrays[name].dtype == expected.dtype


def test_entries_are_found_by_the_writer_and_by_others(tmp_path: Path):
    ledger = Ledger.at(str(tmp_path / "l"))
    ledger.write([entry(1), entry(2)])
    ledger.write([entry(3)])
    for one in (ledger, Ledger.at(str(tmp_path / "l")), pickle.loads(pickle.dumps(ledger))):
        assert len(one) == 3
        for number in (1, 2, 3):
            assert one.has(entry(number).key, ["c"])
            assert_is(one.read(entry(number).key, ["c"]), number)
        assert not one.has(entry(4).key, ["c"])
        assert one.read(entry(4).key, ["c"]) is None
        assert not one.has(entry(1).key, ["c", "d"])
        assert verify(one) == []


def test_components_of_several_entries_are_found_together(tmp_path: Path):
    ledger = Ledger.at(str(tmp_path))
    ledger.write([entry(1), NewEntry(entry(1).key, ("d",), {"0.d.x": np.ones(2)}, (1, 2))])
    found = ledger.read(entry(1).key, ["c", "d"])
    assert found is not None
    assert {name for one in found for name in one} >= {"0.c.s", "0.d.x"}
    assert ledger.read(entry(1).key, ["c", "e"]) is None


def test_any_reader_of_safetensors_opens_a_segment(tmp_path: Path):
    ledger = Ledger.at(str(tmp_path))
    ledger.write([entry(5)])
    (file,) = tmp_path.iterdir()
    found = load_file(file)
    np.testing.assert_array_equal(found["0/0.c.t"], entry(5).arrays["0.c.t"])


def test_the_folder_is_private_and_the_files_too(tmp_path: Path):
    Ledger.at(str(tmp_path / "l")).write([entry(1)])
    assert stat.S_IMODE((tmp_path / "l").stat().st_mode) == 0o700
    (file,) = (tmp_path / "l").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_folder_that_others_may_write_to_is_refused_unless_it_is_trusted(tmp_path: Path):
    folder = tmp_path / "l"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(LedgerError, match=r"others may write to .*trust_ledger=True"):
        Ledger.at(str(folder))
    Ledger.at(str(folder), trusted=True).write([entry(1)])


def test_a_zarr_is_no_ledger(tmp_path: Path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("t", data=np.ones((3, 4)))
    for place in ("a.zarr", "a.zarr/t", "a.zarr/t/c/l"):
        with pytest.raises(LedgerError, match=r"is a Zarr: give|is in the Zarr array"):
            Ledger.at(str(tmp_path / place))


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("http://host/l", "http, which cannot be written"),
        ("ftp://host/l", "ftp"),
        ("{file}", "file"),
        ("", "give the path"),
        ("file://host/l", "another host"),
        ("~nobody-of-this-name/l", "nobody"),
        ("n" * 300, "cannot be used"),
    ],
)
def test_what_can_be_no_ledger_is_refused_in_a_sentence(tmp_path: Path, place: str, says: str):
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match=says):
        Ledger.at(place.format(file=tmp_path / "file"))


def test_a_ledger_that_is_only_shown_is_not_made(tmp_path: Path):
    with pytest.raises(LedgerError, match="the folder does not exist"):
        Ledger.at(str(tmp_path / "none"), create=False)
    assert not (tmp_path / "none").exists()


def _flip(content: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _cut(content: bytearray, rng: random.Random) -> None:
    del content[rng.randrange(len(content)) :]


def _fill(content: bytearray, rng: random.Random) -> None:
    begin = rng.randrange(len(content))
    size = min(rng.randrange(1, 64), len(content) - begin)
    content[begin : begin + size] = rng.randbytes(size)


def _grow(content: bytearray, rng: random.Random) -> None:
    content += rng.randbytes(rng.randrange(1, 100))


def test_a_damaged_ledger_returns_what_was_written_or_nothing(tmp_path: Path):
    """Bits that flip, files that are cut, renamed, doubled or gone."""
    rng, lost = random.Random(0), 0
    sound = Ledger.at(str(tmp_path / "sound"))
    sound.write([entry(1), entry(2), entry(3)])
    sound.write([entry(4)])
    files = {file.name: file.read_bytes() for file in (tmp_path / "sound").iterdir()}
    for number in range(MUTANTS):
        folder = tmp_path / "damaged"
        folder.mkdir(mode=0o700)
        damaged = rng.choice(sorted(files))
        for name, content in files.items():
            made = bytearray(content)
            if name == damaged:
                rng.choice((_flip, _flip, _cut, _fill, _grow))(made, rng)
            (folder / name).write_bytes(made)
            (folder / name).chmod(0o600)
            if number % 10 == 0:
                (folder / f"again-{name}").write_bytes(content)
                (folder / f"again-{name}").chmod(0o600)
        if number % 7 == 0:
            (folder / damaged).unlink()
        ledger = Ledger.at(str(folder))
        for one in (1, 2, 3, 4):
            found = ledger.read(entry(one).key, ["c"])
            if found is not None:
                assert_is(found, one)
            else:
                lost += 1
        verify(ledger)
        prune(ledger)
        assert verify(Ledger.at(str(folder))) == []
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert lost > MUTANTS // 4


def test_a_damaged_entry_is_counted_and_another_of_its_key_is_used(tmp_path: Path):
    ledger = Ledger.at(str(tmp_path))
    ledger.write([entry(9)])
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    ledger.write([entry(9)])
    other = Ledger.at(str(tmp_path))
    assert_is(other.read(entry(9).key, ["c"]), 9)
    assert [one.reason for one in verify(other)] == ["the checksum of an entry differs"]


def test_several_write_at_once(tmp_path: Path):
    def write(number: int) -> None:
        ledger = Ledger.at(str(tmp_path))
        for n in range(10):
            ledger.write([entry(10 * number + n)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(8)))
    ledger = Ledger.at(str(tmp_path))
    for number in range(80):
        assert_is(ledger.read(entry(number).key, ["c"]), number)


def test_many_small_files_are_joined_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(upkeep, "MOST_SEGMENTS", 5)
    ledger = Ledger.at(str(tmp_path))
    for number in range(4):
        ledger.write([entry(number)])
    assert join_segments(ledger) == 0
    ledger.write([entry(3), entry(4)])
    reader = Ledger.at(str(tmp_path))
    assert join_segments(ledger) == 5
    assert len(list(tmp_path.iterdir())) == 1
    assert len(ledger) == 5
    for number in range(5):
        assert_is(ledger.read(entry(number).key, ["c"]), number)
    # Who has opened it before looks for files that are gone among new ones.
    assert_is(reader.read(entry(1).key, ["c"]), 1)
    assert reader.damaged == []


def test_old_files_are_pruned_and_new_ones_stay(tmp_path: Path):
    ledger = Ledger.at(str(tmp_path))
    ledger.write([entry(1)])
    assert prune(ledger, older_than=timedelta(hours=1)) == []
    assert len(prune(ledger, older_than=timedelta(0))) == 1
    assert list(tmp_path.iterdir()) == []


def test_entries_of_a_joined_file_are_as_old_as_they_were(tmp_path: Path):
    ledger, then = Ledger.at(str(tmp_path)), datetime.now(UTC) - timedelta(hours=2)
    for number in range(MOST_SEGMENTS):
        ledger.put([StoredEntry.of(entry(number), then)])
    ledger.write([entry(99)])
    assert join_segments(ledger) == MOST_SEGMENTS + 1
    assert ledger.written(entry(3).key) == then
    assert len(prune(ledger, older_than=timedelta(hours=1))) == 1
    assert [note.key for _, note in Ledger.at(str(tmp_path)).notes()] == [entry(99).key]


def test_what_killed_writers_left_is_pruned_when_nobody_can_still_write_it(tmp_path: Path):
    ledger = Ledger.at(str(tmp_path))
    ledger.write([entry(1)])
    for name, hours in ((".new-old", 2), (".new-now", 0.5), ("other", 2)):
        (tmp_path / name).touch()
        then = time.time() - 3600 * hours
        os.utime(tmp_path / name, (then, then))
    assert ledger.abandoned() == [".new-old"]
    assert prune(ledger) == [".new-old"]
    assert {".new-now", "other"} < {file.name for file in tmp_path.iterdir()}
    assert_is(ledger.read(entry(1).key, ["c"]), 1)


@pytest.mark.parametrize("trusted", [False, True])
def test_the_first_file_makes_the_folder(tmp_path: Path, trusted: bool):
    ledger = Ledger.at(str(tmp_path / "a" / "l"), trusted=trusted)
    ledger.refresh()
    assert list(tmp_path.iterdir()) == []
    ledger.write([entry(1)])
    assert_is(Ledger.at(str(tmp_path / "a" / "l")).read(entry(1).key, ["c"]), 1)


def test_a_place_that_others_made_theirs_meanwhile_is_not_written_to(tmp_path: Path):
    ledger = Ledger.at(str(tmp_path / "l"))
    (tmp_path / "l").mkdir()
    (tmp_path / "l").chmod(0o777)
    with pytest.raises(OSError, match="others may write to"):
        ledger.write([entry(1)])
    assert list((tmp_path / "l").iterdir()) == []


def test_pipes_links_and_others_files_are_not_read(tmp_path: Path):
    Ledger.at(str(tmp_path / "other")).write([entry(1)])
    (file,) = (tmp_path / "other").iterdir()
    folder = tmp_path / "l"
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / f"a{SUFFIX}")
    (folder / f"b{SUFFIX}").symlink_to(file)
    (folder / f"c{SUFFIX}").write_bytes(file.read_bytes())
    (folder / f"c{SUFFIX}").chmod(0o666)
    ledger = Ledger.at(str(folder))
    assert len(ledger) == 0
    assert len(ledger.damaged) == 3


def test_what_cannot_be_read_now_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upkeep, "MOST_SEGMENTS", 2)
    ledger = Ledger.at(str(tmp_path))
    for number in range(3):
        ledger.write([entry(number)])
    with monkeypatch.context() as broken:

        def reset(*_: object) -> bytes:
            raise OSError(104, "Connection reset by peer")

        broken.setattr("chunkfold.ledger.ledger_folders.LocalFolder.read", reset)
        assert prune(ledger) == []
        assert join_segments(ledger) == 0
    assert len(list(tmp_path.iterdir())) == 3
    assert len(verify(Ledger.at(str(tmp_path)))) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"[1,2]", b"[0,1]"),
        (b'"shape": [2, 3]', b'"shape": [0,9]' + b" "),
        (b'\\"format\\":3', b'\\"format\\":4'),
        (b'\\"nbytes\\":72', b'\\"nbytes\\":-2'),
    ],
)
def test_headers_that_lie_are_noticed(tmp_path: Path, before: bytes, after: bytes):
    Ledger.at(str(tmp_path)).write([entry(9)])
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    assert before in content
    assert len(before) == len(after)
    file.write_bytes(content.replace(before, after))
    ledger = Ledger.at(str(tmp_path))
    assert ledger.read(entry(9).key, ["c"]) is None
    assert len(ledger.damaged) == 1
    assert bool(prune(ledger)) == (b"format" not in before)  # another version may read that
