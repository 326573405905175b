"""Every choice has a reason, of what decided it: another decision has another one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from chunkfold.kernels import Device, Tuning, as_monoid, bind, box, histogram, keyed_box
from chunkfold.kernels.binding.binding import Bound
from chunkfold.kernels.device.capabilities import VARIABLE
from chunkfold.kernels.geometry import FOLDS, Box
from chunkfold.kernels.tuning import tuning_choice
from chunkfold.kernels.tuning.reasons import Reason, explained, explained_by_key
from chunkfold.kernels.tuning.trial import Verdict
from chunkfold.kernels.tuning.tuning_choice import TuningChoice, chosen
from chunkfold.kernels.tuning.variant import forced, tiers
from tests.conftest import as_gpu, shaped

BOXES = {
    "flat": box((1000,), (0,)),
    "rows": box((40, 900), (1,)),
    "columns": box((900, 40), (0,)),
    "short_rows": box((40, 20), (1,)),
}


def of(*ops: str, dtype: str = "f4", exact: bool = False) -> Bound:
    return bind(list(map(as_monoid, ops)), [np.dtype(dtype)], exact=exact)


def reasons(tuning: Tuning, bound: Bound, *boxes: Box) -> dict[str, Reason]:
    found = explained(TuningChoice(tuning, (), "it is a test"), bound.accumulator, boxes)
    return {reason.what: reason for reason in found}


CASES = [
    *itertools.product(("sum", "std,mean", "argmax", "histogram"), ("u1", "f2", "f4", "f8", "i8")),
    ("sum", "c8"),
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("ops", "dtype"), CASES)
def test_every_choice_has_a_reason(device: Device, ops: str, dtype: str, exact: bool):
    bound = of(*ops.split(","), dtype=dtype, exact=exact)
    for one in (device, as_gpu(device)):
        for tier in tiers(one, bound.accumulator):
            for tuning in tier:
                found = reasons(tuning, bound, *BOXES.values())
                assert {"variant", "tuning", "kernel", "work-groups", "order"} <= found.keys()
                assert all(reason.why for reason in found.values()), found


@pytest.mark.parametrize("seen", [replace, as_gpu])
@pytest.mark.parametrize("dtype", ["f4", "i1"])
def test_what_is_told_is_what_is_launched(
    device: Device, dtype: str, seen: Callable[[Device], Device]
):
    bound = of("sum", dtype=dtype)
    for tuning in next(iter(tiers(seen(device), bound.accumulator))):
        found = reasons(tuning, bound, BOXES["columns"])
        loads = tuning.columns
        assert found["columns: vectors"].choice.startswith(f"{loads.lanes} element")
        assert found["columns: in flight"].choice == f"{loads.unroll} at a time"
        apart = box((900, 40), (0,), strides=(80, 2))
        narrow = reasons(tuning, bound, apart)["columns: vectors"]
        assert narrow.choice.startswith("1 element,")
        # Columns apart are why there are no vectors, unless there were none to begin with.
        assert ("not neighbours" in narrow.why) == (loads.lanes > 1)
        assert (narrow == found["columns: vectors"]) == (loads.lanes == 1)


@pytest.mark.parametrize("kernel", FOLDS)
def test_boxes_say_why_they_are_folded_so(kernel: str):
    name, why = BOXES[kernel].kernel_because
    assert name == kernel == BOXES[kernel].kernel
    assert why not in [other.kernel_because[1] for k, other in BOXES.items() if k != kernel]


@pytest.mark.parametrize(
    ("boxed", "says"),
    [
        (box((1,), (0,)), "one element at most"),
        (box((5, 7), (0, 1), strides=(9, 1)), "several runs"),
        (box((5,), ()), "each output has one element"),
        (box((40, 20), (1,)), "runs of 20 neighbours in memory, 64 at most"),
    ],
)
def test_boxes_out_of_the_ordinary_say_it(boxed: Box, says: str):
    assert says in boxed.kernel_because[1]


def test_a_variant_that_was_asked_for_is_told_as_such(device: Device):
    bound = of("sum")
    (first, *_) = forced(device, bound.accumulator, "tree")
    assert reasons(first, bound)["variant"].why == "it was requested"


def test_variants_that_stood_before_say_why_not(device: Device):
    lacking = as_gpu(device, "sub_groups", "work_group_functions")
    first = next(iter(tiers(lacking, of("min").accumulator)))[0]
    why = reasons(first, of("min"))["variant"].why
    assert f"not sub_group: {VARIABLE} disables sub_groups" in why
    assert f"not work_group: {VARIABLE} disables work_group_functions" in why
    first = next(iter(tiers(as_gpu(device), of("sum", exact=True).accumulator)))[0]
    assert first.variant == "tree"
    assert "not work_group: " in reasons(first, of("sum"))["variant"].why


def test_smaller_work_groups_and_plain_shapes_say_so(device: Device):
    bound = of("var")
    tuning = next(iter(tiers(as_gpu(device), bound.accumulator)))[0]
    assert tuning.flat.local_size > 16
    found = reasons(tuning.at_most(16), bound, BOXES["flat"])
    assert found["flat: work-group"] == Reason(
        "flat: work-group", "16 work-items", "built kernels allow 16 at most"
    )
    plain = reasons(tuning.plain(), bound, BOXES["flat"], BOXES["short_rows"])
    assert "compilers" in plain["flat: vectors"].why
    assert plain["short_rows"].choice == "as rows"
    assert "compilers" in plain["short_rows"].why


def test_the_same_shape_with_other_reasons_is_the_same(device: Device):
    """Reasons are in no key of a cache, and tell no kernels apart."""
    tuning = next(iter(tiers(device, of("sum").accumulator)))[0]
    other = replace(tuning.because(groups="none"), flat=tuning.flat.because(lanes="none"))
    assert (other, repr(other), hash(other)) == (tuning, repr(tuning), hash(tuning))


@pytest.mark.parametrize(
    ("ties", "verdicts", "says", "passed_over"),
    [
        ("", [Verdict(True, rates=(2e9, 3e9), chosen=1)], "measured on the device", 0),
        ("", [Verdict(False, "it hung"), Verdict(True)], "by itself", 1),
        ("table", [Verdict(True)], "CHUNKFOLD_TIES=table measures none", 0),
        (
            "table",
            [Verdict(False, "it is wrong"), Verdict(True)],
            "the table's first that works",
            1,
        ),
    ],
)
def test_a_choice_says_what_settled_it(
    device: Device, ties: str, verdicts: list[Verdict], says: str, passed_over: int, monkeypatch
):
    monkeypatch.setenv("CHUNKFOLD_TIES", ties)
    answers = iter(verdicts)
    monkeypatch.setattr(tuning_choice, "verdict_of", lambda _: next(answers))
    made = chosen(device, of("sum").accumulator, kernels=("flat",))
    assert says in made.why
    assert [reason for _, reason in made.passed_over] == [v.reason for v in verdicts[:passed_over]]
    told = explained(made, of("sum").accumulator, [])
    assert [reason.why for reason in told if reason.what == "passed over"] == [
        v.reason for v in verdicts[:passed_over]
    ]


@pytest.mark.parametrize("shape", ["tree", "tree-64"])
def test_each_field_by_label_is_where_it_is_said_to_be(device: Device, shape: str):
    monoids = [as_monoid("sum"), as_monoid("logsumexp"), histogram([0, 1, 2])]
    accumulator = bind(monoids, [np.dtype("f4")], exact=True, keyed=True).accumulator
    tuning = shaped(device, accumulator, shape)
    assert tuning is not None
    layout = keyed_box((1000,), (0,))
    choice = TuningChoice(tuning, (), "it is a test")
    told = list(explained_by_key(device, accumulator, choice, layout, 50))
    where = {one.what.removeprefix("by label: "): one.choice for one in told}
    assert where["s"] == "a table in local memory"
    own = "work-items at most, each with its own accumulators"
    if tuning.sharing == 1:
        assert own in next(choice for what, choice in where.items() if "counts" in what)
    else:
        assert any(own in choice for what, choice in where.items() if what != "counts")
        assert where["counts"] == "counters that are shared"
