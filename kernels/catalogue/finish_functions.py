"""From the root's fields to results: the finishes of the catalogue, with NumPy's dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chunkfold.kernels.catalogue.initial import begun, initial_of
from chunkfold.kernels.dtypes import from_order, kind_of
from chunkfold.kernels.errors import RangeError
from chunkfold.kernels.exact.limbs import floats_of
from chunkfold.kernels.monoid.finish_context import Context, Fields


def summed(fields: Fields, context: Context) -> np.ndarray:
    """Give the one field NumPy's result dtype: floats keep theirs, integers widen."""
    (field,) = fields.values()
    with np.errstate(over="ignore"):  # a sum beyond the dtype is infinite, as in NumPy
        return field.astype(context.dtype) if kind_of(context.dtype) == "f" else field


def added(fields: Fields, context: Context) -> np.ndarray:
    """Add `initial` to the one field, and give it NumPy's result dtype."""
    return summed(_with_initial(np.add, fields, context), context)


def multiplied(fields: Fields, context: Context) -> np.ndarray:
    """Multiply the one field by `initial`, and give it NumPy's result dtype."""
    return summed(_with_initial(np.multiply, fields, context), context)


def _with_initial(op: np.ufunc, fields: Fields, context: Context) -> Fields:
    first = initial_of(context, context.dtype)
    if first is None:
        return fields
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: op(field, field.dtype.type(first)) for name, field in fields.items()}


def complex_added(fields: Fields, context: Context) -> np.ndarray:
    """Join the parts of a sum, and add `initial`."""
    first = initial_of(context, context.dtype)
    if first is not None:
        fields = {"re": fields["re"] + first.real, "im": fields["im"] + first.imag}
    return complex_parts(fields, context)


def complex_multiplied(fields: Fields, context: Context) -> np.ndarray:
    """Join the parts of a product, and multiply by `initial`."""
    first, re, im = initial_of(context, context.dtype), fields["re"], fields["im"]
    if first is not None:
        a, b = np.float64(first.real), np.float64(first.imag)
        with np.errstate(over="ignore", invalid="ignore"):
            fields = {"re": re * a - im * b, "im": re * b + im * a}
    return complex_parts(fields, context)


def complex_parts(fields: Fields, context: Context) -> np.ndarray:
    """Join real and imaginary parts. Not by arithmetic: inf * 1j has a part that is NaN."""
    out = np.empty(fields["re"].shape, np.complex128)
    out.real, out.imag = fields["re"], fields["im"]
    with np.errstate(over="ignore"):
        return out.astype(context.dtype)


def complex_mean(fields: Fields, context: Context) -> np.ndarray:
    """Join the means of real and imaginary parts."""
    with np.errstate(invalid="ignore"):
        parts = {name: fields[name] / fields["n"] for name in ("re", "im")}
    return complex_parts(parts, context)


def mean(fields: Fields, context: Context) -> np.ndarray:
    """Divide the sum by the count; 0 / 0, the mean of nothing, is NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        return (fields["s"] / fields["n"]).astype(floats_of(context.dtype))


def time_mean(fields: Mapping[str, Any], context: Context) -> np.ndarray:
    """Divide in Python's integers, rounded to the nearest unit; any NaT, or nothing, is NaT."""
    rows = zip(
        fields["s"].sums.numbers(), fields["n"].tolist(), fields["nat"].tolist(), strict=True
    )
    nat = int(np.iinfo(np.int64).min)
    means = [nat if missing or not n else (2 * s + n) // (2 * n) for s, n, missing in rows]
    return np.array(means, np.int64).view(context.dtype)


def time_sum(fields: Mapping[str, Any], context: Context) -> np.ndarray:
    """Add up in Python's integers; any NaT makes the sum NaT."""
    first = initial_of(context, context.dtype)
    begins = 0 if first is None else int(first.view(np.int64))
    values = [begins + value for value in fields["s"].sums.numbers()]
    missing = (fields["nat"] != 0) | (begins == np.iinfo(np.int64).min)
    return timedeltas(values, missing, context.dtype, "sum")


def timedeltas(
    values: Sequence[int], missing: np.ndarray, dtype: np.dtype, what: str
) -> np.ndarray:
    """Give numbers of a time dtype's unit NumPy's dtype of differences, NaT where one is missing.

    Raises
    ------
    RangeError
        If it does not hold one; `what` they are, for the message.
    """
    most = int(np.iinfo(np.int64).max)
    there = [0 if lacks else value for value, lacks in zip(values, missing, strict=True)]
    beyond = [value for value in there if abs(value) > most]
    if beyond:
        raise RangeError(
            f"the {what} of {dtype} is {beyond[0]}, beyond the {most} that 64 bits hold: "
            "cast to a coarser unit first"
        )
    done = np.array(there, np.int64).view(dtype.str.replace("M8", "m8"))
    done[missing] = "NaT"
    return done


def lowest(fields: Fields, context: Context) -> np.ndarray:
    """Turn keys back into values."""
    values = from_order(fields["lo"], context.dtype, high=False)
    return _or_initial(values, fields, "lo", context, np.minimum)


def highest(fields: Fields, context: Context) -> np.ndarray:
    """Turn keys back into values."""
    values = from_order(fields["hi"], context.dtype, high=True)
    return _or_initial(values, fields, "hi", context, np.maximum)


def _or_initial(
    values: np.ndarray, fields: Fields, end: str, context: Context, op: np.ufunc
) -> np.ndarray:
    """Give results of no elements `initial`, or NaT for times.

    Times have a count. The key of no elements is NaN for floats, and a limit of integers.
    """
    if "n" in fields:
        nothing = fields["n"] == 0
        values[nothing] = "NaT"
    else:
        ends = np.iinfo(fields[end].dtype)
        nothing = fields[end] == (ends.max if op is np.minimum else ends.min)
    return begun(values, nothing, context, op)


def lowest_and_highest(fields: Fields, context: Context) -> np.ndarray:
    """Turn keys back into pairs of values, along a last axis."""
    return np.stack([lowest(fields, context), highest(fields, context)], axis=-1)


_NOWHERE = np.iinfo(np.int64).max
"""The index of an element that was not found: the zero element's."""


def position(fields: Fields, context: Context) -> np.ndarray:
    """Turn global indices into positions among the reduced axes; -1 for no index."""
    index = fields["i"]
    found = index != _NOWHERE
    out = np.full(index.shape, -1, np.int64)
    out[found] = context.position(index[found])
    return out


def variance(fields: Fields, context: Context) -> np.ndarray:
    """Divide the sum of squared deviations by count - ddof, as NumPy does below 1."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        degrees = np.maximum(fields["n"] - context.ddof, 0)
        # Rounding may leave less than nothing; NaN stays.
        return (np.maximum(fields["q"], 0) / degrees).astype(floats_of(context.dtype))


def deviation(fields: Fields, context: Context) -> np.ndarray:
    """Take the root of the variance, before it is rounded to the result's dtype."""
    wide = replace(context, dtype=np.dtype(np.float64))
    with np.errstate(over="ignore"):
        done: np.ndarray = np.sqrt(variance(fields, wide))
        return done.astype(floats_of(context.dtype))


def root_of_sum(fields: Fields, context: Context) -> np.ndarray:
    """Take the root of the one field."""
    (field,) = fields.values()
    with np.errstate(over="ignore"):
        done: np.ndarray = np.sqrt(field.astype(np.float64))
        return done.astype(floats_of(context.dtype))


def as_float(fields: Fields, context: Context) -> np.ndarray:
    """Give the one field a float dtype."""
    (field,) = fields.values()
    with np.errstate(over="ignore"):
        return field.astype(floats_of(context.dtype))


def log_of_sum(fields: Fields, context: Context) -> np.ndarray:
    """Add the logarithm of the scaled sum to the maximum."""
    with np.errstate(divide="ignore"):
        return (fields["m"] + np.log(fields["s"])).astype(floats_of(context.dtype))


def as_bool(fields: Fields, _context: Context) -> np.ndarray:
    """Read a flag."""
    return fields["t"].astype(np.bool_)


def narrow_bits(fields: Fields, context: Context) -> np.ndarray:
    """Drop the bits that the values do not have."""
    return fields["bits"].astype(context.dtype)


def complement(fields: Fields, context: Context) -> np.ndarray:
    """Turn the "or" of complements into the "and"."""
    return (~fields["bits"]).astype(context.dtype)


BIN = np.dtype([("left", np.float64), ("right", np.float64), ("count", np.int64)])
"""A bin of a histogram."""


def _bins(left: np.ndarray, right: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return records of bins: their ends, and counts of shape (outputs, bins)."""
    records = np.empty(counts.shape, BIN)
    records["left"], records["right"], records["count"] = left, right, counts
    return records


Ends = tuple[np.ndarray, np.ndarray, "slice | np.ndarray"]
"""The edges of bins, left and right, and which bins they are of."""


def all_ends(edges: np.ndarray, _held: np.ndarray) -> Ends:
    """Return the ends of all bins between edges."""
    return edges[:-1], edges[1:], slice(None)


def with_shares(left: np.ndarray, right: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Return records of bins: their ends, and their shares of all sums divided by their width."""
    records = np.empty(sums.shape, [("left", "f8"), ("right", "f8"), ("density", "f8")])
    wide = sums.astype(np.float64)
    records["left"], records["right"] = left, right
    with np.errstate(invalid="ignore", divide="ignore"):
        records["density"] = wide / (right - left) / wide.sum(axis=1, keepdims=True)
    return records


def bin_counts(
    ends: Callable[[np.ndarray], Ends], fields: Fields, _context: Context, *, density: bool
) -> np.ndarray:
    """Return records of bins with their counts, or densities."""
    left, right, held = ends(np.asarray(fields["counts"].any(axis=0)))
    counts = fields["counts"][:, held]
    return (with_shares if density else _bins)(left, right, counts)


def _sixteenth_bins() -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the bins of `histograms.sixteenths`, from -infinity to infinity."""
    steps = np.arange(16, 4081, dtype=np.uint32) << np.uint32(19)
    ends = steps.view(np.float32).astype(np.float64)
    left, right = ends, np.append(ends[1:], np.inf)
    return (
        np.concatenate([-right[::-1], -ends[:1], left]),
        np.concatenate([-left[::-1], ends[:1], right]),
    )


def sixteenth_ends(held: np.ndarray) -> Ends:
    """Return the ends of the bins with elements in any output."""
    left, right = _sixteenth_bins()
    at = np.flatnonzero(held)
    return left[at], right[at], at
