"""The texts of monoids: which can run on lanes, and what their helpers are called there.

A text is written for one element. Where it uses nothing but what means the same on OpenCL's
vectors, lane by lane, the kernels fold whole vectors with it.
"""

from __future__ import annotations

import re

COLLECTIVES = ("add", "min", "max")
"""Ops that may be named instead of written out; devices may have built-ins for them."""
HELPERS = (
    "order_low",
    "order_high",
    "rank_low",
    "rank_high",
    "order_lowest",
    "order_highest",
    "bits",
    "signed_bits",
    "wide",
    "uint64",
    "nonzero",
    "magnitude",
    "first",
    "when",
    "gap",
    "ratio",
    "re",
    "im",
    "upper",
    "lower",
    "bin",
    "bin_near",
    "sixteenths",
    "apart_low",
    "apart_high",
    "days",
)
"""Functions that texts may call beside OpenCL's own (kernels/lanes.clh, kernels/order.clh)."""
_HELPER = re.compile(rf"(?<![\w.])({'|'.join(HELPERS)})(?=\s*\()")
_X_NONZERO = re.compile(r"(?<![\w.])nonzero\(x\)")
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d[\w.]*|&&|\|\||\S")
_SINGLE = {"re", "im", "bin", "bin_near", "sixteenths", "apart_low", "apart_high", "days"}
"""Helpers that have no form for lanes."""
_VECTOR_NAMES = {"x", "i", "min", "max", "fmin", "fmax", "fabs", "exp", "fma", *HELPERS} - _SINGLE
_VECTOR_SIGNS = set("+-*&|^~(),")
_MEMBER = re.compile(r"[abs]\.\w+|x\d")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_NUMBER = re.compile(r"-?\d+")
STATE_FIELD = re.compile(r"\bs\.(\w+)")
"""What a text reads of a state."""
OPERAND_FIELD = re.compile(r"\b[ab]\.(\w+)")
"""What it reads of two."""


def is_number(text: str) -> bool:
    """Whether a text is nothing but an integer.

    >>> is_number("1"), is_number("x")
    (True, False)
    """
    return _NUMBER.fullmatch(text.strip()) is not None


def fits_lanes(text: str) -> bool:
    """Whether a text means the same on vectors: no comparison, logic, cast, division or shift.

    >>> fits_lanes("wide(x) * wide(x)"), fits_lanes("x > 0 ? x : 0"), fits_lanes("x && 1")
    (True, False, False)
    """
    return all(
        token in _VECTOR_NAMES
        or token in _VECTOR_SIGNS
        or _MEMBER.fullmatch(token)
        or _NUMBER.fullmatch(token)
        for token in _TOKEN.findall(text)
    )


def for_one(text: str) -> str:
    """Return a text with its helpers named for one element.

    >>> for_one("wide(x) + a.first")
    'chf_wide(x) + a.first'
    """
    return _HELPER.sub(r"chf_\1", text)


def for_lanes(text: str) -> str:
    """Return a text with its helpers named for lanes.

    >>> for_lanes("wide(x) * nonzero(x)")
    'chfv_wide(x) * chfv_x_nonzero()'
    """
    return _HELPER.sub(r"chfv_\1", _X_NONZERO.sub("chfv_x_nonzero()", text))


def refused(text: str) -> str | None:
    """Say why a source text is refused, or None if it is not.

    >>> refused("a.s + b.s")
    >>> refused("1) } __kernel void f() {")
    'has unbalanced brackets'
    """
    if not isinstance(text, str) or not text.strip():
        return "is no text"
    if not text.isascii():
        return "has characters beyond ASCII"
    for token in ("#", "%:", "??", "//", "/*", "\\", '"', "'", "__asm", "asm("):
        if token in text:
            return f"contains {token!r}, which is not allowed"
    open_brackets: list[str] = []
    for character in text:
        if character in "([{":
            open_brackets.append(character)
        elif character in _PAIRS and (
            not open_brackets or open_brackets.pop() != _PAIRS[character]
        ):
            return "has unbalanced brackets"
    return "has unbalanced brackets" if open_brackets else None
