"""Graphs of Dask's: a task that fails is told, under whatever keys it goes."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from dask.local import get_sync
from dask.task_spec import Task, TaskRef

import chunkfold as cf
from chunkfold.sources.dask_graph import Failed, guarded


def add(number: int, *others: int) -> int:
    return number + sum(others)


def boom(*_: Any) -> None:
    raise ZeroDivisionError("no")


@pytest.mark.parametrize("keeps", [False, True])
def test_a_task_that_fails_names_the_source_or_leaves_why(keeps: bool):
    graph = {"a": Task("a", boom), "b": Task("b", add, 1, TaskRef("a"))}
    nodes = guarded(graph, "air", keeps=keeps)
    nodes = {key: pickle.loads(pickle.dumps(node)) for key, node in nodes.items()}
    if keeps:
        assert get_sync(nodes, "b") == Failed("task a: ZeroDivisionError: no")
        return
    with pytest.raises(cf.ChunkError, match=r"^air: cannot read task a .*ZeroDivisionError: no$"):
        get_sync(nodes, "b")


def test_what_a_machine_lacks_is_not_left_out():
    def hungry() -> None:
        raise MemoryError

    with pytest.raises(cf.ClusterError, match="MemoryError"):
        get_sync(guarded({"a": Task("a", hungry)}, "air", keeps=True), "a")


def test_tasks_go_by_the_keys_of_a_run():
    graph = {"a": Task("a", add, 1), "b": Task("b", add, 2, TaskRef("a"))}
    nodes = guarded(graph, "air", keeps=False, called=lambda key: f"run-{key}")
    assert {*nodes} == {"run-a", "run-b"}
    assert get_sync(nodes, "run-b") == 3
