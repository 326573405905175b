"""The short form of the suite has something of all that is quick, and says what it leaves out."""

from __future__ import annotations

from pathlib import Path

from tests.collected import (
    SHARE_S,
    SLOW_S,
    Time,
    function_of,
    left_to_all,
    longest_first,
    read_times,
    write_times,
)

ROOT = Path(__file__).parent.parent


class _Mark:
    pass


class _Item:
    """What `collected` asks of a test that pytest collected."""

    def __init__(self, name: str, marks: tuple[str, ...] = (), **params: object) -> None:
        values = "-".join(map(str, params.values()))
        self.nodeid = f"tests/{name}[{values}]" if params else f"tests/{name}"
        self._marks = marks
        if params:
            self.callspec = type("Spec", (), {"params": params})()

    def get_closest_marker(self, name: str) -> _Mark | None:
        return _Mark() if name in self._marks else None


def left(items: list[_Item], **times: Time) -> set[str]:
    known = {(f"tests/a.py::{name}", ""): time for name, time in times.items()}
    return {item.nodeid for item in left_to_all(items, known)}  # type: ignore[arg-type]


def test_what_takes_no_time_is_kept_whole():
    items = [_Item("a.py::quick", n=n) for n in range(50)]
    assert not left(items, other=Time(100, 1))


def test_what_takes_long_is_left_out_unless_it_is_marked():
    long = [_Item("a.py::long", n=n) for n in range(3)]
    assert len(left(long, long=Time(12, 3))) == 3
    marked = [_Item("a.py::long", ("short",), n=n) for n in range(3)]
    assert not left(marked, long=Time(12, 3))
    assert left([_Item("a.py::counts", ("whole",))]) == {"tests/a.py::counts"}


def test_of_many_combinations_those_stay_that_have_each_value():
    items = [_Item("a.py::many", a=a, b=b) for a in "xyz" for b in "uvw"]
    gone = left(items, many=Time(9 * SHARE_S / 4, 9))
    kept = [item.callspec.params for item in items if item.nodeid not in gone]
    assert {one["a"] for one in kept} == set("xyz")
    assert {one["b"] for one in kept} == set("uvw")
    assert len(kept) == 3
    assert len(items) - len(left(items, many=Time(9 * (SHARE_S + SLOW_S) / 2, 9))) == 1


def test_files_that_take_long_begin_first():
    items = [_Item("a.py::x"), _Item("b.py::y"), _Item("c.py::z")]
    times = {("tests/c.py::z", ""): Time(5, 1), ("tests/b.py::y", ""): Time(9, 1)}
    longest_first(items, times)  # type: ignore[arg-type]
    assert [item.nodeid[6] for item in items] == ["b", "c", "a"]


def test_what_is_written_is_read(tmp_path: Path):
    seconds = {
        "tests/a.py::x[intel:0:cpu-1]": 2.0,
        "tests/a.py::x[intel:0:cpu-2]": 1.0,
        "tests/a.py::x[1-pocl:0:cpu]": 5.0,
        "tests/a.py::quick": 0.1,
    }
    write_times(seconds, tmp_path / "times.csv")
    assert read_times(tmp_path / "times.csv") == {
        ("tests/a.py::x", "intel:0:cpu"): Time(3.0, 2),
        ("tests/a.py::x", "pocl:0:cpu"): Time(5.0, 1),
    }


def test_the_times_are_of_tests_that_there_are():
    texts: dict[str, str] = {}
    for name, _ in read_times():
        path, _, function = name.partition("::")
        text = texts.setdefault(path, (ROOT / path).read_text())
        assert f"def {function.rpartition('::')[2]}(" in text, f"{name}: make test-all"
    assert function_of("tests/a.py::x")[1] == ""
