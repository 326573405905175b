"""Texts on CHF_LANES elements at once, as OpenCL vectors: what they read, and what is absent."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_inputs import lanes_readable
from chunkfold.kernels.bake_texts import absent, assign, op_text
from chunkfold.kernels.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD, NARROW, STORED, literal
from chunkfold.kernels.texts import STATE_FIELD, fits_lanes, for_lanes, is_number

_ELEMENT = re.compile(r"\b(x\d*|i)\b")
_MASKS = {"int32": "int", "uint32": "int", "float32": "int"}
"""Type of a mask that selects among values of a field's dtype; long where not named."""


def on_vectors(part: Component, accumulator: Accumulator) -> bool:
    """Whether a component's texts and inputs let kernels fold whole vectors."""
    if not lanes_readable(accumulator) or (part.table and not part.limbs):
        return False
    if part.state is not None:
        # Statements may do anything; the end runs once, element by element.
        if part.skipna and part.state.first and not begins_as_nan(part, accumulator):
            return False
        return not isinstance(part.state.step, str) and all(map(fits_lanes, part.state.texts))
    return all(fits_lanes(text) for f in part.fields for text in (f.lift, op_text(f)))


def in_common(part: Component) -> frozenset[str]:
    """Return the fields of a state that all lanes have in common: what no element changes.

    Lanes step together, but for elements that are absent.
    """
    state = part.state
    if state is None or isinstance(state.step, str) or part.skipna:
        return frozenset()
    carried = {read for _, text in state.carry for read in STATE_FIELD.findall(text)}
    common = {name for name, _ in state.step} - dict(state.carry).keys() - carried
    while True:
        own = {
            name
            for name, text in state.step
            if name in common and (_ELEMENT.search(text) or set(STATE_FIELD.findall(text)) - common)
        }
        if not own:
            return frozenset(common)
        common -= own


def begins_as_nan(part: Component, accumulator: Accumulator) -> bool:
    """Whether NaN in what first elements set tells that there was none: each is that element."""
    state = part.state
    assert state is not None
    return len(accumulator.value) == 1 and all(
        accumulator.value[0].startswith(("float", "bfloat"))
        and state.dtypes[name].startswith("float")
        and text in ("x", "wide(x)")
        for name, text in state.first
    )


def assign_lanes(part: Component, target: str, dtype: str, what: str, text: str) -> str:
    """Assign a monoid's text to lanes, with line numbers that are the text's own."""
    if is_number(text):
        return f"    {target} = (CHF_VEC({FIELD[dtype]}))({text});"
    return f"""\
    {target} = CHF_TO({FIELD[dtype]},
#line 1 "{part.origin}: {what}"
{for_lanes(text)}
#line 1 "generated"
    );"""


def of_two(
    part: Component,
    name: str,
    kind: str,
    what: str,
    texts: Mapping[str, tuple[str, str]],
    common: Collection[str] = (),
) -> str:
    """Return a function of two of a kind, `a` and `b`; its fields have a dtype and a text each.

    Those that lanes have in common are scalars. What has no text is as `a` has it.
    """
    fields = "\n".join(
        (assign if field in common else assign_lanes)(
            part, f"r.{field}", dtype, f"{what} of {field}", text
        )
        for field, (dtype, text) in texts.items()
    )
    return f"""\
static {kind} {name}({kind} a, {kind} b)
{{
    {kind} r = a;
{fields}
    return r;
}}"""


def promoted(accumulator: Accumulator) -> str:
    """Widen narrow integers as C does for one element, so that a text means the same on lanes."""
    lines = []
    for n, name in enumerate(accumulator.value):
        ctype = STORED[name].value
        narrow = ctype in NARROW
        wide = "int" if narrow else ctype
        read = f"CHF_TO(int, v->x{n})" if narrow else f"v->x{n}"
        lines.append(f"const CHF_VEC({wide}) x{n} = {read};")
        if n == 0:
            lines.append(f"const CHF_VEC({wide}) x = x0;")
    return " ".join(lines)


def mask(part: Component, accumulator: Accumulator) -> str:
    """Name the lanes whose elements are absent, if any may be."""
    if not part.skipna:
        return ""
    lane = "long" if accumulator.value[0] in ("float64", "time") else "int"
    return f"const CHF_VEC({lane}) absent = {absent(accumulator, lanes=True)};"


def mask_of(dtype: str, lanes: str) -> str:
    """Make a mask over values of a field's dtype of one that names lanes."""
    return f"CHF_TO({_MASKS.get(dtype, 'long')}, {lanes})"


def kept(part: Component, dtype: str, target: str, otherwise: str) -> str:
    """Keep a lane as it was where its element is absent."""
    if not part.skipna:
        return ""
    return f"    {target} = select({target}, {otherwise}, {mask_of(dtype, 'absent')});"


def zero_lanes(field: BoundField) -> str:
    """Return a field's zero in each lane."""
    return f"(CHF_VEC({FIELD[field.dtype]}))({literal(field.zero, field.dtype)})"
