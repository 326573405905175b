"""Find reductions of the catalogue by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from chunkfold.kernels.catalogue.catalogue import CATALOGUE
from chunkfold.kernels.catalogue.distinct import OfEachValue
from chunkfold.kernels.catalogue.quantiles import Quantiles, named_quantile, quantile
from chunkfold.kernels.catalogue.runs import join_runs, named_run
from chunkfold.kernels.catalogue.sketches import Sketch
from chunkfold.kernels.catalogue.topk import TopK, argbottomk, argtopk, bottomk, topk
from chunkfold.kernels.catalogue.weighted import checking_negative
from chunkfold.kernels.catalogue.weighted_quantiles import WeightedQuantiles
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.monoid.monoid import Monoid

_NO_REDUCTIONS = {
    **dict.fromkeys(("anomaly", "anomalies", "standardize"), "anomalies.md"),
    **dict.fromkeys(("climatology", "seasonal", "monthly"), "by-question.md"),
    **dict.fromkeys(("cumsum", "cumprod", "diff", "regrid", "rolling", "trend"), "not-here.md"),
}
"""Pages about what users ask for by these names."""
_ELSEWHERE = {
    "amax": "max",
    "amin": "min",
    "average": "mean",
    "avg": "mean",
    "mean_absolute_error": "mae",
    "mean_squared_error": "rmse",
    "pearson": "corr",
    "pearson_r": "corr",
    "product": "prod",
    "stddev": "std",
    "stdev": "std",
    "total": "sum",
    "variance": "var",
}
"""Names in other tools, and the reduction of the catalogue that is the same, or nearest."""


_PERCENTILE = re.compile(r"(nan|weighted_)?p(\d{1,3}(?:[._]\d+)?)")
"""Names of percentiles: p95, p99.9, nanp5, weighted_p95."""
_SHARES = tuple(
    name for name, one in CATALOGUE.items()
    if one.weights and name not in ("weighted_sum", "sum_of_weights", "weighted_median")
)  # fmt: skip
"""Reductions that divide by sums of weights."""
_CHECKED = {name: checking_negative(CATALOGUE[name]) for name in _SHARES}
NAMES = (
    f"{', '.join(CATALOGUE)}; p95 and other percentiles; topN, bottomN, argtopN, argbottomN; any "
    "of these with the prefix nan; longest_run(x < 1) with any condition"
)
"""All names that there are, for messages and help."""
_ENDS = MappingProxyType(
    {"top": topk, "bottom": bottomk, "argtop": argtopk, "argbottom": argbottomk}
)
_SORTED = re.compile(rf"(nan)?({'|'.join(_ENDS)})(\d{{1,9}})")
"""Names of the k first elements in order, or of their positions: top5, nanargbottom3."""


def is_known(monoid: Monoid) -> bool:
    """Return True for a monoid of the catalogue, under any name."""
    families = (Quantiles, OfEachValue, Sketch, TopK, WeightedQuantiles)
    if isinstance(monoid.specialised, families) or monoid.op is join_runs:
        return True
    known = (*CATALOGUE.values(), *_CHECKED.values())
    return any(_declared(monoid) == _declared(one) for one in known)


def divides_by_weights(monoid: Monoid) -> bool:
    """Return True for a reduction that divides by its weights, of which none may be negative."""
    return isinstance(monoid.specialised, WeightedQuantiles) or _of_shares(monoid) is not None


def checking_weights(monoid: Monoid) -> Monoid:
    """Return the form that refuses negative weights in the read, of those that divide by them."""
    name = _of_shares(monoid)
    return monoid if name is None else _CHECKED[name].alike(monoid)


def _of_shares(monoid: Monoid) -> str | None:
    own = (monoid.finish, *_declared(monoid))
    each = ((name, CATALOGUE[name]) for name in _SHARES)
    return next((name for name, one in each if own == (one.finish, *_declared(one))), None)


def _declared(monoid: Monoid) -> tuple[object, ...]:
    """Return all parts that a monoid's laws depend on."""
    lift, op = monoid.lift, monoid.op
    zero = dict(monoid.zero) if isinstance(monoid.zero, Mapping) else monoid.zero
    others = (monoid.instead, monoid.specialised, monoid.exact)
    return (dict(monoid.fields), zero, lift, op, monoid.accumulate, *others)


def sketched(op: str, rtol: float) -> Monoid | None:
    """Return the sketch of the quantile that `op` names, under its name; None if it names another.

    Raises
    ------
    MonoidError
        If `rtol` is not between 0 and 1.
    """
    unweighted = not op.startswith("weighted_") and percent_of(op) is not None
    if op.removeprefix("nan") != "median" and not unweighted:
        return None
    exact = as_monoid(op)
    assert isinstance(exact.specialised, Quantiles)
    found = quantile(exact.specialised.q[0], method="sketch", rtol=rtol).called(exact.name)
    return found.skipping() if exact.skipna else found


def percent_of(op: str) -> float | None:
    """Return the number of the percentile that has a name; None if none has.

    >>> percent_of("nanp97_5"), percent_of("median")
    (97.5, None)
    """
    found = _PERCENTILE.fullmatch(op)
    return None if found is None else _percent(found[2])


def _percent(digits: str) -> float:
    return float(digits.replace("_", "."))


def is_sorted(op: str) -> bool:
    """Return True for the name of sorted elements, or of their positions: top5."""
    return _SORTED.fullmatch(op) is not None


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
        raise MonoidError(f"a reduction must be a name or a Monoid, not {op!r}")
    if (known_by := CATALOGUE.get(op) or named_run(op)) is not None:
        return known_by
    if (percentile := _PERCENTILE.fullmatch(op)) is not None:
        how, digits = percentile.groups()
        weighs, percent = how == "weighted_", _percent(digits)
        if percent > 100:
            raise MonoidError(f"{op!r} is not a percentile: percentiles are from p0 to p100")
        if 0 < percent < 1 and "." in digits:
            head = op.removesuffix(digits)
            raise MonoidError(
                f"{op!r} looks like a fraction, but percentiles are from p0 to p100: did you mean "
                f"'{head}{100 * percent:.10g}'? The percentile {digits} itself is "
                f"'{head}{digits.replace('.', '_')}'"
            )
        found = named_quantile(percent / 100, op, weights=weighs)
        if how != "nan":
            return found
        return replace(found.skipping(f"nan{found.name}"), written=found.written)
    if (several := _SORTED.fullmatch(op)) is not None:
        skips, end, k = several.groups()
        found = _ENDS[end](int(k))
        return found.skipping(f"nan{found.name}") if skips else found
    raise _unknown(op)


def _unknown(op: str) -> MonoidError:
    """Return the error about a name that no reduction has."""
    names = re.split(r"[,\s]+", op.strip())
    if len(names) > 1:
        return MonoidError(f"no reduction is called {op!r}; several are a list: {names}")
    if (page := _NO_REDUCTIONS.get(op.lower())) is not None:
        return MonoidError(f"{op!r} is not a reduction: docs/{page} says how to compute it")
    if re.fullmatch("(nan)?(quantile|percentile)s?", op.lower()):
        return MonoidError(
            f"no reduction is called {op!r}: a quantile is 'p95', or cf.quantile(0.95)"
        )
    known = _ELSEWHERE | {name: name for name in CATALOGUE}
    near = difflib.get_close_matches(op.lower(), known, n=1, cutoff=0.6)
    hint = f"; did you mean {known[near[0]]!r}?" if near else "."
    return MonoidError(f"no reduction is called {op!r}{hint} Use one of: {NAMES}")
