"""Extremes by key in kernels: the greatest of unsigned keys.

Where an extreme is first is found in a second look: of indices the greatest complement is kept.
"""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.program.element_code import where_present
from chunkfold.kernels.program.keyed_digits import lifted


def extreme_kept(target: str, field: BoundField) -> str:
    """Keep the greatest of unsigned keys."""
    ctype = FIELD[field.dtype]
    return f"{lifted(ctype, 'n', field)}\n    {target} = max({target}, {_key('n', field)});"


def index_found(part: Component, word: int, index: int) -> str:
    """Keep the least index of elements that have the extreme; `words` are those of their key.

    Of indices the greatest complement is kept: 0 is that of nothing.
    """
    extreme, ctype = part.fields[0], FIELD[part.fields[0].dtype]
    return where_present(
        part,
        f"""\
{lifted(ctype, "n", extreme)}
        volatile __global ulong *at = (volatile __global ulong *)words + {2 * index} * entries;
        if ({_key("n", extreme)} == (ulong)words[{2 * word} * entries] && *at < ~i)
            atom_max(at, ~i);""",
    )


def index_ended(accumulator: Accumulator, number: int, index: int) -> str:
    """Give a position the index that was found, if any was."""
    name = accumulator.components[number].fields[1].name
    return f"    if (words[{index}]) a->c{number}.{name} = (long)~words[{index}];"


def _key(value: str, field: BoundField) -> str:
    """Return the unsigned key whose order is a field's, or of minima that of the complements."""
    kind, flipped = flipped_key(field)
    return f"(as_{kind}({value}){flipped})"


def flipped_key(field: BoundField) -> tuple[str, str]:
    """Return the unsigned type of a field's keys, and what flips the bits that differ in them.

    Compilers do not know of CHF_ALL_BITS that it is all bits, or they make wrong code of minima
    (kernels/cl/vectors.clh).
    """
    kind, sign = ("ulong", "1UL << 63") if "64" in field.dtype else ("uint", "1U << 31")
    flipped = "" if field.dtype.startswith("u") else f" ^ {sign}"
    return kind, f"{flipped} ^ ({kind})CHF_ALL_BITS" if field.op == "min" else flipped
