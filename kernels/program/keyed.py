"""Write what an element is in tables by key: the header that keyed kernels include."""

from __future__ import annotations

from collections.abc import Callable

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.expressions.style import ONE
from chunkfold.kernels.program.components import names
from chunkfold.kernels.program.keyed_shared import WINDOWS, Place, Shared, digits_of
from chunkfold.kernels.program.texts import assigned, declared, joined


def parts(accumulator: Accumulator) -> str:
    """Return kernels/cl/keyed/parts.clh for an accumulator of what work-items share."""
    shared = Shared(accumulator)
    digits = WINDOWS * len(shared.exact)
    limbs = _limbs_at(accumulator)

    def each(places: tuple[Place, ...], text: Callable[[int, BoundField], str]) -> list[str]:
        found = []
        for n, (number, at) in enumerate(places):
            part = accumulator.components[number]
            found.append(_guarded(part, text(n, part.fields[at])))
        return found

    exact = [(f, accumulator.components[number]) for f, number in enumerate(shared.exact)]
    adds = [
        *(_guarded(part, _digits_of(f, part)) for f, part in exact),
        *each(shared.sums, lambda n, field: _sum(digits + n, field)),
        *each(shared.peaks, lambda n, field: _extreme(f"p->peaks[{n}]", field)),
        *each(shared.counts, lambda n, _: f"    p->counts[{n}] += 1;"),
        *each(shared.tops, lambda n, field: _extreme(f"p->tops[{n}]", field)),
    ]  # fmt: skip
    rests = [
        _guarded(part, _rest_of(f, part, limbs[n]))
        for (f, part), n in zip(exact, shared.exact, strict=True)
    ]
    looks = [_guarded(part, _look(f, part.fields[0])) for f, part in exact]
    settles = [
        f"if (w / CHF_WINDOWS == {f}) {{ {_settled(f, part.fields[0], limbs[n])} return; }}"
        for (f, part), n in zip(exact, shared.exact, strict=True)
    ]
    places = [*shared.sums, *shared.peaks, *shared.counts, *shared.tops]
    ends = [
        _end(digits + word, number, accumulator.components[number].fields[at])
        for word, (number, at) in enumerate(places)
    ]
    scales = [f"d->scale[{f}] = chf_power_of_two((int)bits - chf_top_of(tops[{f}]));"
              for f in range(len(exact))]  # fmt: skip
    real, base = ("double", "chf_power_of_two(bits)") if exact else ("float", "0")
    return f"""\
#line 1 "generated"
#define CHF_EXACTS {len(exact)}
#define CHF_DIGITS {digits}
#define CHF_LONG_SUMS {digits + len(shared.sums)}
#define CHF_PEAKS {len(shared.peaks)}
#define CHF_COUNTS {len(shared.counts)}
#define CHF_TOPS {len(shared.tops)}
typedef struct {{
    long sums[CHF_LONG_SUMS + 1];
    ulong peaks[CHF_PEAKS + 1];
    uint counts[CHF_COUNTS + 1], tops[CHF_TOPS + 1];
}} parts_t;
typedef struct {{ {real} scale[CHF_EXACTS + 1], base; uint windows; }} digits_t;
static int chf_top_of(int seen) {{ return min(seen + 1, CHF_MOST_TOP); }}
static void chf_begin_digits(__global const int *tops, uint bits, uint windows, digits_t *d)
{{
    {" ".join(scales)}
    d->base = {base};
    d->windows = windows;
}}
/* Take an element into the parts of its key; return whether something of it is left to chf_rest. */
static int chf_parts(value_t v, ulong i, const digits_t *digits, parts_t *p)
{{
    int left = 0;
{names(accumulator)}
{joined(adds)}
    return left;
}}
static void chf_rest(value_t v, ulong i, const digits_t *digits, __global long *limbs, parts_t *p)
{{
{names(accumulator)}
{joined(rests)}
}}
static void chf_look(value_t v, ulong i, int *tops)
{{
{names(accumulator)}
{joined(looks)}
}}
static void chf_settle_digit(uint w, long low, long high, uint bits, __global const int *tops,
                             __global long *limbs)
{{
    {joined(settles)}
}}
/* Make fields of words; `some` is true. */
static void chf_words_of(const long *words, int some, acc_t *a)
{{
{joined(ends)}
}}
"""


def _limbs_at(accumulator: Accumulator) -> dict[int, int]:
    """Return for each exact sum's component where its limbs begin in an entry's."""
    places, offset = {}, 0
    for slot in accumulator.tables:
        places[slot.component] = offset
        offset += slot.entries
    return places


def _guarded(part: Component, body: str) -> str:
    """Pass over an element that is absent."""
    if part.absent is None:
        return f"    {{\n{body}\n    }}"
    return f"""\
    {{
{declared("absent", part.absent, ONE)}
    if (!absent) {{
{body}
    }}
    }}"""


def _lifted(ctype: str, name: str, field: BoundField) -> str:
    return f"    {ctype} {name};\n{assigned([(name, field.lift)], ONE)}"


def _sum(word: int, field: BoundField) -> str:
    return f"{_lifted('long', 'n', field)}\n    p->sums[{word}] += n;"


def _extreme(target: str, field: BoundField) -> str:
    """Take a value for the greatest of keys."""
    ctype = FIELD[field.dtype]
    return f"{_lifted(ctype, 'n', field)}\n    {target} = max({target}, {_key('n', field)});"


def _key(value: str, field: BoundField) -> str:
    """Return the unsigned key whose order is a field's, or of minima that of the complements."""
    kind, sign = _unsigned(field)
    if field.dtype.startswith("u"):
        return _complement(f"as_{kind}({value})", field, "digits->windows > 0")
    key = f"(as_{kind}({value}) ^ {sign})"
    return f"~{key}" if field.op == "min" else key


def _unsigned(field: BoundField) -> tuple[str, str]:
    """Return the unsigned type of a field's keys, and their most significant bit."""
    return ("ulong", "1UL << 63") if "64" in field.dtype else ("uint", "1U << 31")


def _complement(key: str, field: BoundField, always: str) -> str:
    """Return the complement of a key, if it is a minimum's.

    Of max(~a, ~b) Intel's compiler (2025) makes min(a, b), and drops the complement, where a and b
    are unsigned. It cannot where it does not know that all bits change: `always` is true, which
    kernels' arguments tell alone.
    """
    return f"({key} ^ (0 - ({_unsigned(field)[0]})({always})))" if field.op == "min" else key


def _end(word: int, number: int, field: BoundField) -> str:
    """Give a field what its words hold."""
    member, ctype = f"a->c{number}.{field.name}", FIELD[field.dtype]
    if field.op == "add":
        return f"    {member} = ({ctype})words[{word}];"
    kind, sign = _unsigned(field)
    key = f"({kind})words[{word}]"
    if field.dtype.startswith("u"):
        value = f"as_{ctype}({_complement(key, field, 'some')})"
    else:
        key = f"~{key}" if field.op == "min" else key
        value = f"as_{ctype}(({key}) ^ {sign})"
    return f"    {member} = {field.op}({member}, {value});"


def _look(f: int, field: BoundField) -> str:
    assert field.limbs is not None
    power = "y * y" if field.limbs.power == 2 else "y"
    return f"{_lifted('double', 'y', field)}\n    tops[{f}] = max(tops[{f}], chf_top({power}));"


def _doubles(f: int, part: Component) -> tuple[str, list[str]]:
    """Return how an element is made doubles with an exact sum, and digits; and the doubles' names.

    `fits` says whether the windows hold all digits. Mostly one digit is all there is of a value.
    """
    field = part.fields[0]
    of = field.limbs
    assert of is not None
    value = _lifted("double", "y", field)
    place = f"digits->scale[{f}], digits->base"
    if not of.paired:
        power = "y" if of.power == 1 else "y * y"
        first = f"chf_first_digit(z0, {place}, d)"
        fits = first if digits_of(part) == 1 else f"chf_digits(z0, {place}, digits->windows, d)"
        made = (
            f"    const double z0 = {power};\n    long d[{WINDOWS}];\n    const int fits = {fits};"
        )
        return f"{value}\n{made}", ["z0"]
    both = " & ".join(
        f"chf_digits(z{n}, {place}, digits->windows, d + {WINDOWS * n})" for n in range(2)
    )
    return (
        f"""\
{value}
    const double size = fabs(y), z0 = y * y, z1 = fma(y, y, -z0);
    const int paired = size == 0 || (size > CHF_LEAST_SQUARED && size < CHF_MOST_SQUARED);
    long d[{2 * WINDOWS}];
    const int fits = paired && ({both});""",
        ["z0", "z1"],
    )


def _added(f: int, digits: int) -> str:
    return " ".join(f"p->sums[{WINDOWS * f + n % WINDOWS}] += d[{n}];" for n in range(digits))


def _digits_of(f: int, part: Component) -> str:
    """Add the digits of what is summed exactly, if they fit."""
    made, doubles = _doubles(f, part)
    digits = 1 if digits_of(part) == 1 else WINDOWS * len(doubles)
    return f"""\
{made}
    if (fits) {{
        {_added(f, digits)}
    }} else {{
        left = 1;
    }}"""


def _rest_of(f: int, part: Component, at: int) -> str:
    """Add what did not fit: more digits, or else to limbs."""
    of = part.fields[0].limbs
    assert of is not None
    made, doubles = _doubles(f, part)
    limbs, place = f"limbs + {at}, {of.count}, {of.low}", f"digits->scale[{f}], digits->base"
    each = "\n".join(
        f"""\
        if (chf_digits({double}, {place}, digits->windows, d)) {{
            {_added(f, WINDOWS)}
        }} else {{
            chf_deposit({limbs}, {double});
        }}"""
        for double in doubles
    )
    square = f"    if (!fits && !paired)\n        chf_deposit_square({limbs}, y);\n    else"
    return f"""\
{made}
{square if of.paired else ""}
    if (!fits) {{
{each}
    }}"""


def _settled(f: int, field: BoundField, at: int) -> str:
    assert field.limbs is not None
    limbs, low = f"limbs + {at}", field.limbs.low
    unit = f"chf_top_of(tops[{f}]) - (int)bits * (int)(w % CHF_WINDOWS + 1)"
    return (
        f"chf_deposit_sum({limbs}, {low}, low, {unit}); "
        f"chf_deposit_sum({limbs}, {low}, high, {unit} + 32);"
    )
