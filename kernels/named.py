"""Find a reduction of the catalogue by name, or see that one is of it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from chunkfold.kernels.catalogue import CATALOGUE
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid import Monoid

_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""Those to which declarations are adapted, beside floats, which are as declared."""
_ELSEWHERE = {
    "average": "mean",
    "avg": "mean",
    "median": "histogram",
    "percentile": "histogram",
    "product": "prod",
    "quantile": "histogram",
    "stddev": "std",
    "stdev": "std",
    "total": "sum",
    "variance": "var",
}
"""What other tools call reductions of the catalogue, or what comes nearest, to suggest ours."""


def _declared(monoid: Monoid) -> str:
    """Return all that a monoid's laws depend on: also which accumulators lift can reach."""
    return f"{monoid.fields} {monoid.zero} {monoid.lift} {monoid.op} {monoid.accumulate}"


def _forms(monoid: Monoid) -> Iterator[Monoid]:
    """Yield all that a monoid may be for one dtype or another."""
    yield monoid
    for other in (*monoid.instead.values(), *([monoid.exact] if monoid.exact else [])):
        yield from _forms(other)
    if monoid.adapt is not None:
        yield from (monoid.adapt(np.dtype(name)) for name in _DTYPES)


_KNOWN = {_declared(monoid) for named in CATALOGUE.values() for monoid in _forms(named)}


def is_known(monoid: Monoid, apart: Sequence[np.dtype] = ()) -> bool:
    """Whether a monoid is declared as one that comes with chunkfold.

    `apart` are the dtypes of two inputs, where no dtype holds both.
    """
    declared = _declared(monoid)
    if declared in _KNOWN:
        return True
    pairs = (one.pair for one in CATALOGUE.values() if one.pair is not None) if apart else ()
    return any(_declared(made(apart)) == declared for made in pairs)


def as_monoid(op: str | Monoid) -> Monoid:
    """Return the monoid that `op` names, or `op` itself.

    Raises
    ------
    MonoidError
        If no reduction has that name; the message suggests the nearest.
    """
    if isinstance(op, Monoid):
        return op
    if not isinstance(op, str):
        raise MonoidError(f"a reduction is a name or a Monoid, not {op!r}")
    if op in CATALOGUE:
        return CATALOGUE[op]
    names = re.split(r"[,\s]+", op.strip())
    if len(names) > 1:
        raise MonoidError(f"no reduction is called {op!r}; several are a list: {names}")
    known = _ELSEWHERE | {name: name for name in CATALOGUE}
    near = difflib.get_close_matches(op.lower(), known, n=1, cutoff=0.4)
    hint = f"; did you mean {known[near[0]]!r}?" if near else "."
    raise MonoidError(f"no reduction is called {op!r}{hint} There are: {', '.join(CATALOGUE)}")
