"""Trees on CHF_LANES elements at once, as OpenCL vectors: what they read, and what is absent."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD, STORED, literal
from chunkfold.kernels.expressions.nodes import Node, walk
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.monoid.checks import read_fields
from chunkfold.kernels.program.inputs import lanes_readable
from chunkfold.kernels.program.products import dtypes_of, on_lanes
from chunkfold.kernels.program.texts import assigned, declared, joined

_MASKS = {"int32": "int", "uint32": "int", "float32": "int"}
"""Type of a mask that selects among values of a field's dtype; long where not named."""


def on_vectors(part: Component, accumulator: Accumulator) -> bool:
    """Whether a component's inputs let kernels fold whole vectors."""
    if not lanes_readable(accumulator) or (part.table and not part.limbs):
        return False
    if part.limbs:
        values, skips = dtypes_of(accumulator.value), part.absent is not None
        return on_lanes(part.fields[0], values, skips=skips)
    late = part.absent is not None and part.state is not None and bool(part.state.first)
    return not late or begins_as_nan(part, accumulator)


def in_common(part: Component) -> frozenset[str]:
    """Return the fields of a state that all lanes have in common: what no element changes.

    Lanes step together, but for elements that are absent.
    """
    state = part.state
    if state is None or part.absent is not None:
        return frozenset()
    carried = read_fields(*(tree for _, tree in state.carry))
    common = {name for name, _ in state.step} - dict(state.carry).keys() - carried
    while True:
        own = {
            name
            for name, tree in state.step
            if name in common and (_reads_element(tree) or read_fields(tree) - common)
        }
        if not own:
            return frozenset(common)
        common -= own


def _reads_element(tree: Node) -> bool:
    return any(one.op in ("input", "index") for one in walk([tree]))


def begins_as_nan(part: Component, accumulator: Accumulator) -> bool:
    """Whether NaN in what first elements set tells that there was none: each is that element."""
    state = part.state
    assert state is not None
    return len(accumulator.value) == 1 and all(
        accumulator.value[0].startswith(("float", "bfloat"))
        and state.dtypes[name].startswith("float")
        and _is_element(tree)
        for name, tree in state.first
    )


def _is_element(tree: Node) -> bool:
    """Whether a tree is an element, as a float of one size or another."""
    while tree.op == "cast" and tree.dtype.kind == "f":
        (tree,) = tree.sources
    return tree.op == "input"


def of_two(
    name: str, kind: str, trees: Iterable[tuple[str, Node]], common: Collection[str] = ()
) -> str:
    """Return a function of two of a kind, `a` and `b`, whose fields have a tree each.

    Those that lanes have in common are scalars. What has no tree is as `a` has it.
    """
    pairs = [(f"r.{field}", field, tree) for field, tree in trees]
    shared = assigned([(to, tree) for to, field, tree in pairs if field in common], ONE)
    lanes = assigned(
        [(to, tree) for to, field, tree in pairs if field not in common], LANES, common=common
    )
    return f"""\
static {kind} {name}({kind} a, {kind} b)
{{
    {kind} r = a;
{joined([shared, lanes])}
    return r;
}}"""


def named_lanes(accumulator: Accumulator) -> str:
    """Name the elements of lanes."""
    value = [STORED[name].value for name in accumulator.value]
    return " ".join(f"const CHF_VEC({t}) x{n} = v->x{n};" for n, t in enumerate(value))


def mask(part: Component) -> str:
    """Name the lanes whose elements are absent, if any may be."""
    return "" if part.absent is None else declared("absent", part.absent, LANES)


def mask_of(dtype: str, lanes: str) -> str:
    """Make a mask over values of a field's dtype of one that names lanes."""
    return f"CHF_TO({_MASKS.get(dtype, 'long')}, {lanes})"


def kept(part: Component, dtype: str, target: str, otherwise: str) -> str:
    """Keep a lane as it was where its element is absent."""
    if part.absent is None:
        return ""
    return f"    {target} = select({target}, {otherwise}, {mask_of(dtype, 'absent')});"


def zero_lanes(field: BoundField) -> str:
    """Return a field's zero in each lane."""
    return f"(CHF_VEC({FIELD[field.dtype]}))({literal(field.zero, field.dtype)})"
