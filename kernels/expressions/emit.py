"""Emit trees as OpenCL C: one value at a time, or lanes, from the same nodes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from chunkfold.kernels.dtypes import literal
from chunkfold.kernels.expressions.meanings import LEAVES, MEANINGS
from chunkfold.kernels.expressions.nodes import BOOL, Node, constant_value, size_of, walk
from chunkfold.kernels.expressions.style import ONE, Style

_LONGEST = 56
"""Characters of an operation that is written where it is used, if it is used once."""


def emitted(
    roots: Sequence[Node], leaf: Callable[[Node], str], style: Style, prefix: str = "t"
) -> tuple[list[str], list[str]]:
    """Return statements, and for each root the expression of its value behind them.

    Parameters
    ----------
    leaf
        What an input, the index or a field is called, an expression of the node's type; of truths
        one that is 0 or not 0, as integers of 1 byte.
    prefix
        What names of values begin with.
    """
    uses: Counter[Node] = Counter()
    for one in walk(roots):
        repeats = one.op in MEANINGS and MEANINGS[one.op].repeats
        uses.update(dict.fromkeys(one.sources, 1 + repeats))
    lines: list[str] = []
    texts: dict[Node, str] = {}
    for one in walk(roots):
        if one.op in LEAVES:
            texts[one] = _leaf(one, leaf, style)
            continue
        given = [texts[source] for source in one.sources]
        if one.op in _BY_LANES:
            name = f"{prefix}{len(lines)}"
            lines.append(_BY_LANES[one.op](one, given, style, name))
            texts[one] = name
            continue
        made = _held_truth(one, leaf, style) or MEANINGS[one.op].text(style, one, *given)
        if uses[one] < 2 and len(made) <= _LONGEST:
            texts[one] = made if _is_atom(made) else f"({made})"
            if one.dtype != BOOL and one.dtype.itemsize < 4:  # C makes an int of it
                texts[one] = style.to(one.dtype, made)
            continue
        name = f"{prefix}{len(lines)}"
        lines.append(f"const {_type(one, style)} {name} = {made};")
        texts[one] = name
    return lines, [texts[root] for root in roots]


def _type(one: Node, style: Style) -> str:
    return style.truth_type(size_of(one)) if one.dtype == BOOL else style.type(one.dtype)


def _held_truth(one: Node, leaf: Callable[[Node], str], style: Style) -> str:
    """Return a truth of an input as a number: kernels have it as 0 or 1."""
    source = one.sources[0]
    if one.op != "cast" or source.dtype != BOOL or source.op != "input":
        return ""
    return style.to(one.dtype, leaf(source))


def _leaf(one: Node, leaf: Callable[[Node], str], style: Style) -> str:
    if one.op != "constant":
        named = leaf(one)
        zero = style.number("0", np.dtype(np.uint8))
        return style.compared(1, named, "!=", zero) if one.dtype == BOOL else named
    value = constant_value(one)
    if one.dtype == BOOL:
        return f"({style.truth_type(1)})({-int(value)})"
    text = number(value)
    if style.lanes or one.dtype.itemsize < 4 or not np.isfinite(value):
        return f"({style.type(one.dtype)})({text})"
    return f"({text})" if text.startswith("-") else text


def number(value: np.generic) -> str:
    """Write a scalar of NumPy's as OpenCL C, bit for bit but for those of NaN."""
    dtype = value.dtype
    wide = dtype.name if dtype.itemsize >= 4 else "int32"
    return literal(value.item(), wide)


def _is_atom(text: str) -> bool:
    """Return True for a text that is one name, or one call."""
    if not text.endswith(")"):
        return text.isidentifier()
    head, _, rest = text.partition("(")
    depth = 1
    for at, character in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return at == len(rest) - 1 and (head == "" or head.isidentifier())
    return False


def _lookup(one: Node, given: Sequence[str], style: Style, name: str) -> str:
    """Look numbers up in a table, or use the default."""
    raw, default = one.arg
    count = len(raw) // one.dtype.itemsize
    otherwise = number(np.frombuffer(default, one.dtype)[0])
    held = np.dtype(np.int64)
    pick = f"({{0}} >= 0 && {{0}} < {count} ? {table_name(one)}[{{0}}] : {otherwise})"
    return _each(one, [(held, f"{style.to(held, given[0])}")], pick, style, name)


def _search(one: Node, given: Sequence[str], style: Style, name: str) -> str:
    """Search a key among ascending ones, or look near a guess of where it is."""
    (source, *_), (raw, slack) = one.sources, one.arg
    count = len(raw) // source.dtype.itemsize
    table = table_name(one)
    if slack is None:
        call = f"{table}_of({{0}}, {count})"
        return _each(one, [(source.dtype, given[0])], call, style, name)
    number_of = number(np.float32(slack))
    call = f"{table}_near({{0}}, {{1}}, {number_of}, {count})"
    pairs = [(source.dtype, given[0]), (one.sources[1].dtype, given[1])]
    return _each(one, pairs, call, style, name)


def _each(
    one: Node,
    given: Sequence[tuple[np.dtype, str]],
    text: str,
    style: Style,
    name: str,
) -> str:
    """Do for lanes, one by one, what OpenCL C has no vectors for."""
    if not style.lanes:
        named = [f"{name}_{number}" for number in range(len(given))]
        holds = " ".join(
            f"const {ONE.type(dtype)} {other} = {value};"
            for other, (dtype, value) in zip(named, given, strict=True)
        )
        return f"{holds} const {ONE.type(one.dtype)} {name} = {text.format(*named)};"
    spreads = " ".join(
        f"{ONE.type(dtype)} {name}_{number}[CHF_LANES]; CHF_SPREAD({value}, {name}_{number});"
        for number, (dtype, value) in enumerate(given)
    )
    made = text.format(*(f"{name}_{number}[j]" for number in range(len(given))))
    ctype = ONE.type(one.dtype)
    return (
        f"{spreads} {ctype} {name}_made[CHF_LANES]; "
        f"for (int j = 0; j < CHF_LANES; j++) {name}_made[j] = {made}; "
        f"const {style.type(one.dtype)} {name} = CHF_GATHER(0, {name}_made);"
    )


def _called(one: Node, given: Sequence[str], style: Style, name: str) -> str:
    """Call a function of OpenCL's for each lane: some runtimes have it wrong for vectors."""
    function = MEANINGS[one.op].text(ONE, one, *(f"{{{n}}}" for n in range(len(given))))
    pairs = [(source.dtype, text) for source, text in zip(one.sources, given, strict=True)]
    return _each(one, pairs, function, style, name)


_SEARCHED = ("lookup", "search")
"""Operations that read a table."""
_BY_LANES: Mapping[str, Callable[[Node, Sequence[str], Style, str], str]] = {
    "lookup": _lookup,
    "search": _search,
    "fmod": _called,
    "power": _called,
}
"""Operations that are done lane by lane."""


def table_name(one: Node) -> str:
    """Return what kernels call the table of a lookup or a search."""
    raw, other = one.arg
    digest = hashlib.sha256(repr((one.op, one.dtype.str, raw, other)).encode()).hexdigest()
    return f"table_{digest[:12]}"


def tables(roots: Sequence[Node]) -> str:
    """Return the tables that some trees look things up in, and the functions that search them."""
    made: dict[str, str] = {}
    for one in walk(roots):
        if one.op not in _SEARCHED:
            continue
        dtype = one.dtype if one.op == "lookup" else one.sources[0].dtype
        numbers = ", ".join(number(value) for value in np.frombuffer(one.arg[0], dtype))
        name, ctype = table_name(one), ONE.type(dtype)
        text = f"__constant const {ctype} {name}[] = {{ {numbers} }};"
        if one.op == "search":
            text += _SEARCHES.format(name=name, key=ctype, result=ONE.type(one.dtype))
        made[name] = text
    return "\n".join(made.values())


_SEARCHES = """
static {result} {name}_of({key} key, int n)
{{
    if (!(key >= {name}[0]))
        return -1;
    int at = 0;
    for (int left = n; left > 1;) {{
        const int half_left = left / 2;
        at += {name}[at + half_left] <= key ? half_left : 0;
        left -= half_left;
    }}
    return at;
}}
static {result} {name}_near({key} key, float guess, float slack, int n)
{{
    const float within = guess - floor(guess);
    if (guess >= 0 && guess < n && within > slack && within < 1 - slack)
        return ({result})guess;
    if (!(key >= {name}[0]))
        return -1;
    int at = (int)fmin(fmax(guess, 0.0f), (float)(n - 1));
    while (at > 0 && {name}[at] > key)
        at--;
    while (at + 1 < n && {name}[at + 1] <= key)
        at++;
    return at;
}}"""
