"""Tracing: what trees a monoid's functions give, and that they are the same each time."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chunkfold.kernels import CATALOGUE, Accumulate, Monoid, MonoidError
from chunkfold.kernels.expressions.infix import infix
from chunkfold.kernels.expressions.library import lookup, real, where, wide
from chunkfold.kernels.expressions.nodes import INDEX, Node, field_node, input_node, walk
from chunkfold.kernels.expressions.symbols import Symbol
from chunkfold.kernels.monoid.tracing import first_kind, traced
from chunkfold.kernels.monoid.trees import Traced, element_symbol, op_tree, value_dtype


def itself(x: Any) -> Any:
    return x


def of(monoid: Monoid, *dtypes: str, fp64: bool = True) -> Traced:
    return traced(monoid, list(map(np.dtype, dtypes)), fp64=fp64)


def one(lift: Any, dtype: str, field: str = "float64", **parts: Any) -> Node:
    """The tree of a single field's lift."""
    given = {"zero": 0, "op": "add", "kinds": "biufmM"} | parts
    return of(Monoid("m", fields={"s": field}, lift=lift, **given), dtype).lift["s"]


def trees(found: Traced) -> list[Node]:
    """Every tree of a monoid, in order."""
    made = [*found.lift.values(), *(op for op in found.op.values() if isinstance(op, Node))]
    for state in found.states:
        for part in (state.step, state.end, state.first, state.carry):
            made += part.values()
    return made


@pytest.mark.parametrize(
    ("lift", "dtype", "field", "says"),
    [
        (itself, "float32", "float64", "float64(x)"),
        (itself, "float64", "float64", "x"),
        (itself, "int8", "sum", "int64(x)"),
        (itself, "uint8", "sum", "uint64(x)"),
        (itself, "float16", "real", "float64(x)"),
        (itself, "M8[s]", "int64", "x"),
        (lambda x: x * x, "int8", "int64", "int64((x * x))"),
        (lambda x: wide(x) * x, "int8", "int64", "int64(x) * int64(x)"),
        (lambda x: x + 1, "float32", "float32", "x + 1.0"),
        (lambda x: x > 3, "float32", "int32", "int32((x > 3.0))"),
        (lambda x: x**2, "float64", "float64", "x * x"),
        (lambda x: 1, "float64", "int64", "1"),
        (1, "float64", "int64", "1"),
        (2.5, "int8", "float64", "2.5"),
        (abs, "float64", "float64", "absolute(x)"),
    ],
)
def test_trees_are_converted_to_their_fields(lift: Any, dtype: str, field: str, says: str):
    tree = one(lift, dtype, field)
    assert infix(tree).replace("x0", "x") == says
    wanted = {"sum": "uint64" if dtype[0] == "u" else "int64", "real": "float64"}
    assert tree.dtype == wanted.get(field, field)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float32", "float64", ">f4", ">i2"])
def test_symbols_have_the_elements_dtype_in_the_machines_order(dtype: str):
    seen = []
    one(lambda x: seen.append(x.dtype) or x, dtype)
    assert seen[-1] == np.dtype(dtype).newbyteorder("=")
    assert seen[-1].isnative


@pytest.mark.parametrize(
    ("dtype", "held"),
    [("float16", "float32"), ("M8[ns]", "int64"), ("m8[D]", "int64"), ("int16", "int16")],
)
def test_values_that_kernels_do_not_have_are_held_in_others(dtype: str, held: str):
    assert value_dtype(np.dtype(dtype)) == held
    assert element_symbol(0, np.dtype(dtype)).dtype == held


def test_complex_elements_have_two_parts():
    both = Monoid(
        "both",
        fields={"re": "float64", "im": "float64"},
        zero={"re": 0, "im": 0},
        lift=lambda x: {"re": x.real, "im": x.imag},
        op="add",
        kinds="c",
    )
    part = np.dtype("float64")
    assert of(both, "complex128").lift == {
        "re": input_node(0, part, "re"),
        "im": input_node(0, part, "im"),
    }


class Squares:
    """A function that is an object."""

    def __call__(self, x: Any) -> Any:
        return x * x


@pytest.mark.parametrize(
    ("lift", "inputs", "leaves"),
    [
        (lambda x: x, 1, {"x0"}),
        (lambda x, i: x + i, 1, {"x0", "i"}),
        (lambda x, i: i, 1, {"i"}),
        (lambda x, scale=2.0: x * scale, 1, {"x0"}),
        (lambda x, *rest: x, 1, {"x0"}),
        (lambda x0, x1: x0 * x1, 2, {"x0", "x1"}),
        (lambda x0, x1, i: where(x0 == x1, i, 0), 2, {"x0", "x1", "i"}),
        (functools.partial(lambda scale, x, i: scale * x + i, 3), 1, {"x0", "i"}),
        (functools.partial(lambda scale, x: scale * x, 3), 1, {"x0"}),
        (Squares(), 1, {"x0"}),
        (np.sqrt, 1, {"x0"}),
        (abs, 1, {"x0"}),
        (lambda *both: both[0] * both[1], 2, {"x0", "x1"}),
        ({"s": lambda x, i: i + x}, 1, {"x0", "i"}),
    ],
)
def test_a_parameter_behind_the_inputs_is_the_index(lift: Any, inputs: int, leaves: set[str]):
    monoid = Monoid("m", zero=0, lift=lift, op="add", inputs=inputs)
    (tree,) = of(monoid, *["float64"] * inputs).lift.values()
    names = {"i" if leaf is INDEX else f"x{leaf.arg[0]}" for leaf in walk([tree]) if _is_leaf(leaf)}
    assert names == leaves


def _is_leaf(node: Node) -> bool:
    return node.op in ("input", "index")


def test_steps_and_first_elements_may_have_the_index_too():
    farthest = Accumulate(
        state={"n": "int64", "begun": "int64"},
        start={"n": 0, "begun": 0},
        first=lambda x, i: {"begun": i},
        step=lambda s, x, i: {"n": s.n + (i - s.begun)},
        end=lambda s: {"s": s.n},
    )
    monoid = Monoid(
        "m", fields={"s": "int64"}, zero=0, lift=lambda x, i: i, op="add", accumulate=farthest
    )
    (state,) = of(monoid, "float64").states
    assert state.first == {"begun": INDEX}
    assert INDEX in walk(state.step.values())


BARE: dict[str, Any] = {"zero": 0, "lift": itself, "op": lambda a, b: a.s * b.s}
FORMS = [
    {"zero": {"s": 0}},
    {"lift": lambda x: {"s": x}},
    {"lift": {"s": itself}},
    {"lift": {"s": lambda x: x}},
    {"op": lambda a, b: {"s": a.s * b.s}},
    {"op": {"s": lambda a, b: a.s * b.s}},
    {"op": lambda a, b: b.s * a.s, "same": False},
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: next(iter(form)))
def test_bare_forms_give_what_mappings_do(form: dict[str, Any]):
    same = form.get("same", True)
    parts = BARE | {name: part for name, part in form.items() if name != "same"}
    found, bare = (of(Monoid("m", **given), "float32") for given in (parts, BARE))
    assert (found == bare) == same
    assert found.lift["s"] is bare.lift["s"]
    assert (found.op["s"] is bare.op["s"]) == same


def test_ops_are_names_or_trees_field_by_field():
    mixed = Monoid(
        "m",
        fields=dict.fromkeys("abc", "int64"),
        zero=dict.fromkeys("abc", 0),
        lift=dict.fromkeys("abc", 0),
        op={"a": "add", "b": lambda a, b: a.b | b.b, "c": "max"},
    )
    op = of(mixed, "int8").op
    assert (op["a"], op["c"]) == ("add", "max")
    assert isinstance(op["b"], Node)
    sides = [field_node(side, "b", np.dtype("int64")) for side in "ab"]
    assert list(op["b"].sources) == sides
    for name in ("min", "max"):
        plain = of(Monoid("m", zero=0, lift=0, op=name), "float64").op["s"]
        assert op_tree("s", "float64", plain).op == f"f{name}"  # named ones drop NaN
        assert op_tree("s", "int64", plain).op == f"{name}imum"


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_same_declaration_gives_the_same_trees(name: str):
    """Node by node the same objects: that is how statistics share, and binaries are found."""
    monoid = CATALOGUE[name]
    dtypes = [first_kind(monoid).str] * monoid.inputs
    found, again = (of(monoid, *dtypes) for _ in range(2))
    assert found == again
    pairs = list(zip(trees(found), trees(again), strict=True))
    assert pairs or monoid.fields
    assert all(tree is other for tree, other in pairs)


def test_equal_functions_of_two_modules_give_one_tree():
    makers = [lambda: lambda x: where(x > 3, x * x, 0), lambda: lambda y: where(y > 3, y * y, 0)]
    first, second = (one(make(), "float32") for make in makers)
    assert first is second
    assert one(makers[0](), "float64") is not first


@pytest.mark.parametrize("name", ["sum", "var", "argmax", "histogram", "first_mismatch"])
def test_trees_pickle_and_are_the_same_where_they_arrive(name: str):
    monoid = CATALOGUE[name]
    found = of(monoid, *[first_kind(monoid).str] * monoid.inputs)
    arrived = pickle.loads(pickle.dumps(found))
    assert arrived == found
    for tree, other in zip(trees(found), trees(arrived), strict=True):
        assert tree is other


def test_trees_arrive_in_another_process(tmp_path: Any):
    tree = one(lambda x, i: where(x > 0.1, lookup([3.0, 1e-300], i, -0.0) * x, i), "float32")
    (tmp_path / "tree").write_bytes(pickle.dumps(tree))
    read = (
        "import pickle, sys; from chunkfold.kernels.expressions.infix import infix; "
        "print(infix(pickle.load(open(sys.argv[1], 'rb'))))"
    )
    command = [sys.executable, "-c", read, str(tmp_path / "tree")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == infix(tree)


def test_without_float64_what_is_wide_is_float32():
    monoid = Monoid("m", fields={"s": "real"}, zero=0, lift=lambda x: wide(x) * real(x), op="add")
    for fp64, held in ((True, "float64"), (False, "float32")):
        found = of(monoid, "float32", fp64=fp64)
        assert found.dtypes == {"s": held}
        assert {node.dtype.name for node in walk(found.lift.values())} == {"float32", held}


def test_tables_are_told_an_int64_and_exact_sums_the_elements_dtype():
    classes = Monoid("classes", fields={"n": "int64[4]"}, zero=0, lift=itself, op="add")
    assert of(classes, "uint8").lift["n"].dtype == np.int64
    exact = Monoid("exact", fields={"s": "exact"}, zero=0, lift=abs, op="add", kinds="f")
    for dtype in ("float32", "float64", "float16"):
        tree = of(exact, dtype).lift["s"]
        assert tree.dtype == value_dtype(np.dtype(dtype))
        assert tree.op == "absolute"


def test_functions_are_called_once_a_trace():
    calls: list[str] = []

    def noted(name: str, value: Callable[..., Any]) -> Callable[..., Any]:
        def function(x: Any) -> Any:
            calls.append(name)
            return value(x)

        return function

    monoid = Monoid(
        "m",
        fields={"a": "float64", "b": "int64"},
        zero={"a": 0, "b": 0},
        lift={"a": noted("a", itself), "b": noted("b", lambda x: x > 0)},
        op="add",
    )
    assert sorted(calls) == ["a", "b"]  # when it is declared
    calls.clear()
    of(monoid, "int8")
    assert sorted(calls) == ["a", "b"]


@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [("biuf", "float64"), ("iu", "int64"), ("u", "uint64"), ("b", "bool"), ("c", "complex128"),
     ("mM", "m8[s]"), ("M", "M8[s]")],
)  # fmt: skip
def test_declarations_are_tried_with_the_likeliest_of_their_kinds(kinds: str, dtype: str):
    seen: list[Any] = []

    def lift(x: Any) -> Any:
        seen.append(x)
        return x.real

    monoid = Monoid("m", zero=0, lift=lift, op="add", kinds=kinds)
    assert first_kind(monoid) == np.dtype(dtype)
    assert seen[0].dtype == (np.dtype(dtype) if kinds == "c" else value_dtype(np.dtype(dtype)))


def test_what_has_no_meaning_for_a_dtype_is_said_of_that_dtype():
    odd = Monoid("odd", zero=0, lift=lambda x: x & 1, op="add", kinds="iu")
    assert of(odd, "uint8").lift["s"].dtype == np.float64
    with pytest.raises(MonoidError, match=r"of float32: lift failed at .*_tracing.*bitwise_and"):
        of(odd, "float32")


@pytest.mark.parametrize("method", ["log", "sqrt", "floor", "isnan"])
def test_a_method_is_told_as_numpys_function(method: str):
    with pytest.raises(MonoidError, match=rf"a symbol has no '{method}': write np.{method}\(x\)"):
        one(lambda x: getattr(x, method)(), "float32")
    with pytest.raises(MonoidError, match=r"a symbol has no 'mean'$"):
        one(lambda x: x.mean(), "float32")


def test_a_symbol_is_what_functions_are_given():
    seen: list[Any] = []
    one(lambda x, i: seen.extend([x, i]) or x, "int16")
    assert all(isinstance(symbol, Symbol) for symbol in seen)
    assert [symbol.dtype for symbol in seen[-2:]] == [np.int16, np.int64]


def test_a_monoid_shows_what_its_functions_made() -> None:
    far = Monoid(
        "far",
        fields={"d": "float64", "n": "int64"},
        zero={"d": "lowest", "n": 0},
        lift=lambda x: {"d": abs(x - 280), "n": 1},
        op={"d": lambda a, b: np.maximum(a.d, b.d), "n": "add"},
    )
    assert str(far).splitlines() == [
        "far of float64:",
        "  d: float64, zero lowest, lift absolute((x - 280.0)), op maximum(a.d, b.d)",
        "  n: int64, zero 0, lift 1, op a.n + b.n",
    ]
