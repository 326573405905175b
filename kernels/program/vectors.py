"""Fields of CHF_LANES states side by side, as OpenCL vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD, literal
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.program.opencl_code import assigned, joined

_MASKS = {"int32": "int", "uint32": "int", "float32": "int"}
"""Type of a mask that selects among values of a field's dtype; long where not named."""


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


def members(dtypes: Mapping[str, str], common: Collection[str] = ()) -> str:
    """Declare fields of lanes, a vector for each; scalars for those that lanes have in common."""
    types = {name: FIELD[dtype] for name, dtype in dtypes.items()}
    return " ".join(
        f"{kind if name in common else f'CHF_VEC({kind})'} {name};" for name, kind in types.items()
    )
