"""The pure parts of the device layer: dtypes, geometry, tables, bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.kernels import Device, DeviceError, as_monoid, bind, box
from chunkfold.kernels.dtypes import FIELD, from_order, literal, order_field, stored_name
from chunkfold.kernels.exact.rounding import sum_bound
from chunkfold.kernels.fold.profile import LaunchTimes, merged, pass_times
from chunkfold.kernels.program.build_options import language_options
from chunkfold.kernels.tuning.variant import forced, tiers, why_not
from chunkfold.kernels.tuning.work_groups import work_group_size
from tests.conftest import DEVICES

SUM = bind([as_monoid("sum")], [np.dtype("float32")]).accumulator


@given(st.floats())
def test_float_literals_are_exact(value: float):
    text = literal(value, "float64")
    if math.isnan(value) or math.isinf(value):
        assert text in ("NAN", "INFINITY", "-INFINITY")
    else:
        assert float.fromhex(text) == value


@pytest.mark.parametrize("dtype", FIELD)
def test_lowest_and_highest_are_the_dtype_s_own(dtype: str):
    kind = np.dtype(dtype)
    if kind.kind == "f":
        assert literal("highest", dtype) == "INFINITY"
    else:
        assert str(np.iinfo(kind).max) in literal("highest", dtype)


@given(st.lists(st.floats(width=32), min_size=2))
def test_order_keys_sort_like_floats_and_come_back(values: list[float]):
    array = np.array(values, "f4")
    bits = array.view("i4")
    keys = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    back = from_order(keys, array.dtype, high=True)
    assert back.tobytes() == array.tobytes()
    plain = array[~np.isnan(array)]
    order = np.argsort(keys[~np.isnan(array)], kind="stable")
    assert (plain[order][:-1] <= plain[order][1:]).all()
    assert np.isnan(from_order(np.array([np.iinfo("i4").min], "i4"), array.dtype, high=True))[0]
    assert order_field(array.dtype, fp64=True) == "int32"


@pytest.mark.parametrize("dtype", ["object", "U5", "S3", "V6"])
def test_other_dtypes_are_refused_by_name(dtype: str):
    with pytest.raises(DeviceError, match="cannot be reduced; supported are bool"):
        stored_name(np.dtype(dtype))


@given(st.lists(st.integers(1, 5), max_size=5), st.data())
def test_a_box_covers_every_element_and_output_once(shape: list[int], data: st.DataObject):
    axes = [n for n in range(len(shape)) if data.draw(st.booleans())]
    # Any order of the axes in memory: C, F and what lies between.
    order = data.draw(st.permutations(range(len(shape))))
    strides = [0] * len(shape)
    for place, axis in enumerate(order):
        strides[axis] = math.prod(shape[n] for n in order[place + 1 :])
    one = box(shape, axes, strides=strides)
    assert one.elements == math.prod(shape)
    words = one.words().tolist()
    kept, reduced = words[0], words[1]
    dims = [words[2 + 4 * n : 6 + 4 * n] for n in range(kept + reduced)]
    offsets, outputs = [0], [0]
    for number, (size, stride, _, output_stride) in enumerate(dims):
        offsets = [o + k * stride for o in offsets for k in range(size)]
        if number < kept:
            outputs = [o + k * output_stride for o in outputs for k in range(size)]
    assert sorted(offsets) == list(range(math.prod(shape)))
    assert sorted(outputs) == list(range(one.outputs))


def _device(**changes) -> Device:
    return replace(DEVICES[0], **changes)


@pytest.mark.parametrize(
    ("variant", "limits", "size"),
    [
        ("tree", {}, 512),
        ("tree", {"max_work_group_size": 300}, 256),
        ("tree", {"max_work_item_size": 100}, 64),
        ("tree", {"local_bytes": 8 * 40}, 32),
        ("work_group", {"max_work_group_size": 300, "preferred_multiple": 32}, 288),
        ("sub_group", {"max_work_group_size": 20, "preferred_multiple": 32}, 20),
        ("tree", {"local_bytes": 1}, 1),
    ],
)
def test_work_group_size_follows_the_rule(variant: str, limits: dict, size: int):
    roomy = {
        "max_work_group_size": 1024,
        "max_work_item_size": 1024,
        "local_bytes": 1 << 16,
        "preferred_multiple": 32,
    }
    assert work_group_size(_device(**roomy | limits), SUM, variant, 512) == size
    assert work_group_size(_device(**roomy), SUM, variant, 512, kernel_limit=96) <= 96


COLLECTIVES = "__opencl_c_work_group_collective_functions"


@pytest.mark.parametrize(
    ("claims", "work_group", "sub_group"),
    [
        ({"version": (1, 2)}, False, False),
        ({"version": (1, 2), "extensions": {"cl_intel_subgroups"}}, False, True),
        ({"version": (2, 0)}, True, False),
        ({"version": (2, 1), "extensions": {"cl_khr_subgroups"}}, True, True),
        ({"version": (3, 0)}, False, False),
        ({"version": (3, 0), "features": {COLLECTIVES}}, True, False),
        ({"version": (3, 0), "features": {"__opencl_c_subgroups"}}, False, False),
        (
            {"version": (3, 0), "features": {"__opencl_c_subgroups"}, "max_sub_groups": 8},
            False,
            True,
        ),
        ({"version": (3, 0), "extensions": {"cl_khr_subgroups"}}, False, True),
    ],
)
def test_variants_follow_what_a_device_claims(claims: dict, work_group: bool, sub_group: bool):
    base = {"extensions": frozenset(), "features": frozenset(), "max_sub_groups": 0}
    device = _device(**base | claims)
    assert (why_not(device, SUM, "work_group") is None) == work_group
    assert (why_not(device, SUM, "sub_group") is None) == sub_group
    assert why_not(device, SUM, "tree") is None
    tried = [tier[0].variant for tier in tiers(replace(device, kind="gpu"), SUM)]
    assert tried[0] == ("sub_group" if sub_group else "work_group" if work_group else "tree")
    assert tried[-1] == "tree"


def test_other_ops_use_the_tree():
    prod = bind([as_monoid("prod")], [np.dtype("int32")]).accumulator
    for device in DEVICES:
        assert {tuning.variant for tier in tiers(device, prod) for tuning in tier} == {"tree"}
    able = _device(version=(2, 0), extensions=frozenset({"cl_khr_subgroups"}), features=frozenset())
    for variant in ("work_group", "sub_group"):
        with pytest.raises(DeviceError, match="add, min and max, and positions of extremes"):
            forced(able, prod, variant)


def test_what_a_device_lacks_is_said_before_what_a_mode_could_mend():
    exact = bind([as_monoid("sum")], [np.dtype("float32")], exact=True).accumulator
    able = _device(version=(2, 0), extensions=frozenset(), features=frozenset())
    with pytest.raises(DeviceError, match="use mode 'fast'"):
        forced(able, exact, "work_group")
    with pytest.raises(DeviceError, match=r"it lacks .*cl_khr_subgroups"):
        forced(able, exact, "sub_group")


def test_a_forced_variant_says_what_is_missing():
    device = _device(version=(1, 2), extensions=frozenset(), features=frozenset())
    with pytest.raises(DeviceError, match=r"'work_group' cannot be used on .*OpenCL 1\.2 without"):
        forced(device, SUM, "work_group")
    with pytest.raises(DeviceError, match="no variant is called 'warp'; use one of: tree"):
        forced(device, SUM, "warp")


@pytest.mark.parametrize(
    ("version", "c_versions", "options"),
    [
        ((1, 2), ((1, 2),), ()),
        ((2, 1), ((1, 2), (2, 0)), ("-cl-std=CL2.0",)),
        ((3, 0), ((1, 2), (3, 0)), ("-cl-std=CL3.0",)),
        ((3, 0), ((1, 2),), ()),
    ],
)
def test_the_language_is_chosen_from_all_listed(version, c_versions, options):
    assert language_options(_device(version=version, c_versions=c_versions)) == options


def test_profiles_add_up_and_keep_the_first_launch_apart():
    first = pass_times(LaunchTimes(0, 5, 10, 30), first=True)
    later = pass_times(LaunchTimes(0, 1, 2, 5), first=False)
    total = merged([{("k", 0): first}, {("k", 0): later, ("k", 1): later}])
    assert (total["k", 0].launches, total["k", 0].wait_ns, total["k", 0].run_ns) == (2, 12, 23)
    assert (total["k", 0].first_wait_ns, total["k", 0].first_run_ns) == (10, 20)
    assert total["k", 1].launches == 1


@given(st.lists(st.floats(-1e6, 1e6, width=32), max_size=200))
def test_the_sum_bound_holds_for_the_worst_order_tried(values: list[float]):
    exact = sum(map(Fraction, values), Fraction(0))
    bound = sum_bound(len(values), sum(map(abs, values)), float(exact), np.dtype("float32"))
    for order in (sorted(values), sorted(values, reverse=True), sorted(values, key=abs)):
        total = 0.0
        for value in order:
            total += value
        assert (
            abs(Fraction(float(np.float32(total))) - exact) <= Fraction(bound) + Fraction(2) ** -149
        )
