"""Write what an element is in tables by key: the header that keyed kernels include."""

from __future__ import annotations

from collections.abc import Callable

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_components import names
from chunkfold.kernels.bake_texts import assigned, declared, joined
from chunkfold.kernels.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.expressions.style import ONE
from chunkfold.kernels.keyed.shared import WINDOWS, Place, Shared


def parts(accumulator: Accumulator) -> str:
    """Return kernels/keyed/parts.clh for an accumulator of what work-items share."""
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
        *(_guarded(part, _digits_of(f, part.fields[0], limbs[n]))
          for (f, part), n in zip(exact, shared.exact, strict=True)),
        *each(shared.sums, lambda n, field: _sum(digits + n, field)),
        *each(shared.peaks, lambda n, field: _extreme(f"p->peaks[{n}]", field)),
        *each(shared.counts, lambda n, _: f"    p->counts[{n}] += 1;"),
        *each(shared.tops, lambda n, field: _extreme(f"p->tops[{n}]", field)),
    ]  # fmt: skip
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
#define CHF_WIDE {digits + len(shared.sums)}
#define CHF_PEAKS {len(shared.peaks)}
#define CHF_COUNTS {len(shared.counts)}
#define CHF_TOPS {len(shared.tops)}
typedef struct {{
    long sums[CHF_WIDE + 1];
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
static void chf_parts(value_t v, ulong i, const digits_t *digits, __global long *tables, ulong entry,
                      parts_t *p)
{{
{names(accumulator)}
{joined(adds)}
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
static void chf_words_of(const long *words, acc_t *a)
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
    wide = "64" in field.dtype
    kind, sign = ("ulong", "1UL << 63") if wide else ("uint", "1U << 31")
    key = f"as_{kind}({value})" if field.dtype.startswith("u") else f"(as_{kind}({value}) ^ {sign})"
    return f"~{key}" if field.op == "min" else key


def _end(word: int, number: int, field: BoundField) -> str:
    """Give a field what its words hold."""
    member, ctype = f"a->c{number}.{field.name}", FIELD[field.dtype]
    if field.op == "add":
        return f"    {member} = ({ctype})words[{word}];"
    wide = "64" in field.dtype
    kind, sign = ("ulong", "1UL << 63") if wide else ("uint", "1U << 31")
    key = f"({kind})words[{word}]"
    key = f"~{key}" if field.op == "min" else key
    value = f"as_{ctype}({key})" if field.dtype.startswith("u") else f"as_{ctype}(({key}) ^ {sign})"
    return f"    {member} = {field.op}({member}, {value});"


def _look(f: int, field: BoundField) -> str:
    assert field.limbs is not None
    power = "y * y" if field.limbs.degree == 2 else "y"
    return f"{_lifted('double', 'y', field)}\n    tops[{f}] = max(tops[{f}], chf_top({power}));"


def _digits_of(f: int, field: BoundField, at: int) -> str:
    """Add what is summed exactly of an element: doubles, as digits, or else to limbs."""
    of, first = field.limbs, WINDOWS * f
    assert of is not None
    limbs = f"tables + entry * CHF_ENTRIES + {at}"

    def add(double: str) -> str:
        return f"""\
    {{
        long d[CHF_WINDOWS];
        const uint many = chf_digits({double}, digits->scale[{f}], digits->base, digits->windows, d);
        if (many)
            p->sums[{first}] += d[0];
        if (many > 1) {{
            p->sums[{first + 1}] += d[1];
            p->sums[{first + 2}] += d[2];
        }}
        if (!many)
            chf_deposit({limbs}, {of.count}, {of.low}, {double});
    }}"""

    value = _lifted("double", "y", field)
    if not of.paired:
        squared = "    y = y * y;\n" if of.degree == 2 else ""
        return f"{value}\n{squared}{add('y')}"
    return f"""\
{value}
    const double size = fabs(y), z = y * y, e = fma(y, y, -z);
    if (size > CHF_LEAST_SQUARED && size < CHF_MOST_SQUARED) {{
{add("z")}
{add("e")}
    }} else if (size != 0) {{
        chf_deposit_square({limbs}, {of.count}, {of.low}, y);
    }}"""


def _settled(f: int, field: BoundField, at: int) -> str:
    assert field.limbs is not None
    limbs, low = f"limbs + {at}", field.limbs.low
    unit = f"chf_top_of(tops[{f}]) - (int)bits * (int)(w % CHF_WINDOWS + 1)"
    return (
        f"chf_deposit_sum({limbs}, {low}, low, {unit}); "
        f"chf_deposit_sum({limbs}, {low}, high, {unit} + 32);"
    )
