"""Graphs shared out to blocks: each task runs once, and results are there for as long as needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from dask.local import get_sync
from dask.task_spec import Alias, DataNode, Task, TaskRef
from dask.typing import Key
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.sources.dask_division import CONSTANT_BYTES, Division
from chunkfold.sources.dask_graph import computed

ran = Counter[int]()


def add(number: int, *others: int) -> int:
    ran[number] += 1
    return number + sum(others)


def run(division: Division, given: Mapping[Key, Any]) -> list[dict[Key, Any]]:
    """Run block after block as a backend does; return what is wanted of each."""
    results = dict[Key, Any](given)
    left = {key: set(blocks) for key, blocks in division.takers.items()}
    made = []
    for block, wanted in enumerate(division.wanted):
        before, own = division.before(range(block, block + 1)), division.own(block)
        kept = [key for key in before.graph if key in left]
        for tasks, keys in ((before, kept), (own, wanted)):
            inputs = {key: results[key] for key in tasks.inputs}
            found = computed(tasks.graph, inputs, keys, "x", get_sync, lambda: None, keeps=False)
            results |= found if tasks is before else {}
        made.append(found)
        for key in [key for key, blocks in left.items() if block in blocks]:
            left[key].discard(block)
            if not left[key]:
                del left[key], results[key]
    assert results == given  # all else was let go
    return made


@given(data=st.data())
def test_each_task_runs_once_and_results_are_kept_as_long_as_blocks_take_them(data: st.DataObject):
    count = data.draw(st.integers(1, 14))
    numbers = st.integers(0, count - 1)
    needs: list[list[int]] = [
        data.draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True)) if n else []
        for n in range(count)
    ]
    graph = {n: Task(n, add, n, *map(TaskRef, needs[n]), TaskRef("future")) for n in range(count)}
    wanted = data.draw(st.lists(st.lists(numbers, min_size=1, max_size=3, unique=True), max_size=5))
    values: list[int] = []
    for n in range(count):
        values.append(n + sum(values[need] for need in needs[n]) + 100)
    reached, waiting = set[int](), [n for keys in wanted for n in keys]
    while waiting:
        reached.add(n := waiting.pop())
        waiting += needs[n]
    ran.clear()
    made = run(Division(graph, wanted), {"future": 100})
    assert made == [{n: values[n] for n in keys} for keys in wanted]
    assert ran == dict.fromkeys(reached, 1)


def test_small_values_go_with_each_block_and_large_ones_are_shared():
    large = np.zeros(CONSTANT_BYTES // 8 + 1)
    graph = {
        "small": DataNode("small", 1),
        "large": DataNode("large", large),
        "a": Task("a", add, 1, TaskRef("small"), TaskRef("large")),
        "b": Task("b", add, 2, TaskRef("small"), TaskRef("large")),
        "alias": Alias("alias", "b"),
    }
    division = Division(graph, [["a"], ["alias"]])
    assert division.batches == {0: ["large"]}
    assert division.takers == {"large": {0, 1}}
    assert {*division.own(0).graph} == {"a", "small"}
    assert {*division.own(1).graph} == {"b", "alias", "small"}
    assert division.own(1).inputs == ("large",)


def test_what_was_let_go_of_is_made_again_of_what_is_there():
    graph = {
        "a": Task("a", add, 1, TaskRef("future")),
        "b": Task("b", add, 2, TaskRef("a")),
        "c": Task("c", add, 3, TaskRef("b"), TaskRef("a")),
    }
    division = Division(graph, [["c"], ["c"]])
    whole = division.again(["c"], {})
    assert ({*whole.graph}, whole.inputs) == ({"a", "b", "c"}, ("future",))
    part = division.again(["c"], {"b": 0})
    assert ({*part.graph}, {*part.inputs}) == ({"a", "c"}, {"b", "future"})
