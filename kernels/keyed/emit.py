"""Write how one element is added to a key's sums: the header that keyed kernels include."""

from __future__ import annotations

from chunkfold.kernels.accumulator import Accumulator
from chunkfold.kernels.bake_components import names
from chunkfold.kernels.bake_texts import assigned, declared, joined
from chunkfold.kernels.component import BoundField, Component
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.expressions.style import ONE
from chunkfold.kernels.keyed.sums import WINDOWS, Sums


def parts(accumulator: Accumulator) -> str:
    """Return kernels/keyed/parts.clh for an accumulator of sums (`kernels.keyed.sums.Sums`)."""
    sums = Sums(accumulator)
    exact, wide, narrow = sums.exact, sums.wide, sums.narrow
    components = accumulator.components
    tables = {slot.component: slot for slot in accumulator.tables}
    offsets, offset = {}, 0
    for slot in accumulator.tables:
        offsets[slot.component] = offset
        offset += slot.entries
    adds, looks, settles = [], [], []
    for f, number in enumerate(exact):
        part = components[number]
        limbs = tables[number].field.limbs
        assert limbs is not None
        place = f"limbs + {offsets[number]}"
        adds.append(_guarded(part, _deposit(f, part.fields[0], place, adding=True)))
        looks.append(_guarded(part, _deposit(f, part.fields[0], place, adding=False)))
        settles.append(
            f"if (w / CHF_WINDOWS == {f}) {{ {_settled(f, place, limbs.low)} return; }}"
        )
    for word, (number, at) in enumerate(wide):
        part = components[number]
        text = f"    long n;\n{assigned([('n', part.fields[at].lift)], ONE)}\n"
        adds.append(_guarded(part, f"{text}    p->wide[{WINDOWS * len(exact) + word}] += n;"))
    for word, (number, _) in enumerate(narrow):
        adds.append(_guarded(components[number], f"    p->narrow[{word}] += 1;"))
    first = WINDOWS * len(exact)
    results = [
        f"a->c{number}.{components[number].fields[at].name} = "
        f"({FIELD[components[number].fields[at].dtype]})all[{first + word}];"
        for word, (number, at) in enumerate([*wide, *narrow])
    ]
    scales = [f"s[{f}] = chf_power_of_two((int)bits - tops[{f}]);" for f in range(len(exact))]
    return f"""\
#line 1 "generated"
#define CHF_EXACTS {len(exact)}
#define CHF_DIGITS {WINDOWS * len(exact)}
#define CHF_WIDE {WINDOWS * len(exact) + len(wide)}
#define CHF_NARROW {len(narrow)}
typedef {"double" if exact else "float"} scale_t;
typedef struct {{ long wide[CHF_WIDE + 1]; uint narrow[CHF_NARROW + 1]; }} parts_t;
static void chf_scales(__global const int *tops, uint bits, scale_t *s) {{ {" ".join(scales)} }}
static void chf_parts(value_t v, ulong i, const scale_t *scales, uint windows, uint bits,
                      __global long *limbs, parts_t *p)
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
static void chf_sums_of(const long *all, acc_t *a) {{ {" ".join(results)} }}
"""


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


def _deposit(f: int, field: BoundField, limbs: str, *, adding: bool) -> str:
    """Add what is summed exactly of an element, as doubles; or look at the first of them."""
    of = field.limbs
    assert of is not None
    value = f"    double y;\n{assigned([('y', field.lift)], ONE)}\n"
    if not adding:
        power = "y * y" if of.degree == 2 else "y"
        return f"{value}    tops[{f}] = max(tops[{f}], chf_top({power}));"

    def add(double: str) -> str:
        return (
            f"if (!chf_add_digits({double}, scales[{f}], windows, bits, "
            f"p->wide + {WINDOWS * f}))\n"
            f"        chf_deposit({limbs}, {of.count}, {of.low}, {double});"
        )

    if not of.paired:
        squared = "    y = y * y;\n" if of.degree == 2 else ""
        return f"{value}{squared}    {add('y')}"
    return f"""\
{value}    const double size = fabs(y), z = y * y, e = fma(y, y, -z);
    if (size > CHF_LEAST_SQUARED && size < CHF_MOST_SQUARED) {{
    {add("z")}
    {add("e")}
    }} else if (size != 0) {{
        chf_deposit_square({limbs}, {of.count}, {of.low}, y);
    }}"""


def _settled(f: int, limbs: str, low: int) -> str:
    at = f"tops[{f}] - (int)bits * (int)(w % CHF_WINDOWS + 1)"
    return (
        f"chf_deposit_sum({limbs}, {low}, low, {at}); "
        f"chf_deposit_sum({limbs}, {low}, high, {at} + 32);"
    )
