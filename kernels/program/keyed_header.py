"""The header of kernels that fold by key in shared tables: what one element adds to its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.component import BoundField
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.program.element_code import names, where_present
from chunkfold.kernels.program.keyed_digits import (
    digits_added,
    double_of,
    first_digits,
    lifted,
    rest_added,
    sampled,
    settled,
)
from chunkfold.kernels.program.keyed_extremes import (
    extreme_kept,
    flipped_key,
    index_ended,
    index_found,
)
from chunkfold.kernels.program.kind import Kind
from chunkfold.kernels.program.kinds import kinds_of
from chunkfold.kernels.program.opencl_code import joined
from chunkfold.kernels.program.shared_layout import (
    MOST_DIGITS,
    FieldAt,
    SharedLayout,
    ordinary_digits,
)


def keyed_header(accumulator: Accumulator) -> str:
    """Return kernels/cl/keyed/generated.clh for an accumulator of what work-items share."""
    shared = SharedLayout(accumulator)
    digits = MOST_DIGITS * len(shared.exact)
    sums = digits + len(shared.sums)
    behind = sums + len(shared.states)
    tables, states, kinds = _tables_at(accumulator), _states_of(shared, sums), kinds_of(accumulator)

    def each(places: tuple[FieldAt, ...], text: Callable[[int, BoundField], str]) -> list[str]:
        found = []
        for n, (number, at) in enumerate(places):
            part = accumulator.components[number]
            found.append(where_present(part, text(n, part.fields[at])))
        return found

    exact = [(f, accumulator.components[number]) for f, number in enumerate(shared.exact)]
    adds = [
        *(where_present(part, digits_added(f, part)) for f, part in exact),
        *each(shared.sums, lambda n, field: _sum(digits + n, field)),
        *(_state_added(kinds[n], words) for n, words in states.items()),
        *each(shared.extremes64, lambda n, field: extreme_kept(f"p->extremes64[{n}]", field)),
        *each(shared.counts, lambda n, _: f"    p->counts[{n}] += 1;"),
        *each(shared.extremes32, lambda n, field: extreme_kept(f"p->extremes32[{n}]", field)),
    ]  # fmt: skip
    slow = [
        where_present(part, rest_added(f, part, tables[n]))
        for (f, part), n in zip(exact, shared.exact, strict=True)
    ]
    counts = [
        _counted(kinds[number], f"&runs[{n}]", tables[number])
        for n, number in enumerate(shared.counters)
    ]
    samples = [where_present(part, sampled(f, part.fields[0])) for f, part in exact]
    settles = [
        f"if (w / CHF_MOST_DIGITS == {f}) {{ {settled(f, part.fields[0], tables[n])} return; }}"
        for (f, part), n in zip(exact, shared.exact, strict=True)
    ]
    extremes = (*shared.extremes64, *shared.counts, *shared.extremes32)
    places = [*enumerate(shared.sums, digits), *enumerate(extremes, behind)]
    ends = [
        _end(word, number, accumulator.components[number].fields[at])
        for word, (number, at) in places
    ]
    ends += [_state_ended(kinds[n], words) for n, words in states.items()]
    positions = [
        (number, behind + extremes.index((number, 0)), index)
        for index, number in enumerate(shared.indices, behind + len(extremes))
    ]
    ends += [index_ended(accumulator, number, index) for number, _, index in positions]
    finds = [index_found(accumulator.components[n], word, index) for n, word, index in positions]
    scales = [f"d->scale[{f}] = chf_power_of_two((int)bits - chf_exponent_above(exponents[{f}]));"
              for f in range(len(exact))]  # fmt: skip
    real, base = ("double", "chf_power_of_two(bits)") if exact else ("float", "0")
    quick = [(f, part) for f, part in exact if ordinary_digits(part) == 1]
    firsts = "\n".join(first_digits(f) for f, _ in quick)
    lifts = "\n".join(double_of(f, part, names(accumulator)) for f, part in quick)
    vector = "long4" if exact else "int4"
    return f"""\
#line 1 "generated"
#define CHF_EXACTS {len(exact)}
#define CHF_DIGIT_WORDS {digits}
#define CHF_LONG_SUMS {behind}
#define CHF_EXTREMES64 {len(shared.extremes64)}
#define CHF_COUNTS {len(shared.counts)}
#define CHF_EXTREMES32 {len(shared.extremes32)}
#define CHF_INDICES {len(finds)}
#define CHF_COUNTERS {len(counts)}
/* How often a work-item has met the counter that it met last, and has not told. */
typedef struct {{ __global long *counter; uint times; }} counted_t;
static void chf_tell_counter(counted_t *run)
{{
#if CHF_COUNTERS
    if (run->times)
        chf_add_to(run->counter, run->times);
    run->times = 0;
#endif
}}
static void chf_count_on(counted_t *run, __global long *counter)
{{
    if (run->counter != counter)
        chf_tell_counter(run);
    run->counter = counter;
    run->times++;
}}
typedef struct {{
    long sums[CHF_LONG_SUMS + 1];
    ulong extremes64[CHF_EXTREMES64 + 1];
    uint counts[CHF_COUNTS + 1], extremes32[CHF_EXTREMES32 + 1];
}} contribution_t;
typedef struct {{ {real} scale[CHF_EXACTS + 1], base; uint digits; }} scales_t;
static int chf_exponent_above(int exponent) {{ return min(exponent + 1, CHF_MOST_EXPONENT); }}
static void chf_begin_scales(__global const int *exponents, uint bits, uint digits, scales_t *d)
{{
    {" ".join(scales)}
    d->base = {base};
    d->digits = digits;
}}
/* First digits of four elements, where they are mostly all of a value. */
typedef struct {{ {vector} digits[CHF_EXACTS + 1], fits[CHF_EXACTS + 1]; }} firsts_t;
{lifts}
static void chf_take_firsts(const value_t *v, ulong i, ulong di, const scales_t *scales,
                            firsts_t *of)
{{
{firsts}
}}
/* Add what is quickly added of an element, number j of four; return whether the rest is left to
 * chf_take_rest. */
static int chf_take(value_t v, ulong i, const scales_t *scales, const firsts_t *of, uint j,
                    contribution_t *p)
{{
    int left = 0;
{names(accumulator)}
{joined(adds)}
    return left;
}}
static void chf_take_rest(value_t v, ulong i, const scales_t *scales, __global long *limbs,
                          contribution_t *p)
{{
{names(accumulator)}
{joined(slow)}
}}
static void chf_count_one(value_t v, ulong i, __global long *tables, counted_t *runs)
{{
{names(accumulator)}
{joined(counts)}
}}
static void chf_find(value_t v, ulong i, __global long *words, ulong entries)
{{
{names(accumulator)}
{joined(finds)}
}}
static void chf_sample(value_t v, ulong i, int *exponents)
{{
{names(accumulator)}
{joined(samples)}
}}
static void chf_settle_digit(uint w, long low, long high, uint bits, __global const int *exponents,
                             __global long *limbs)
{{
    {joined(settles)}
}}
static void chf_words_of(const long *words, acc_t *a)
{{
{joined(ends)}
}}
"""


def _tables_at(accumulator: Accumulator) -> dict[int, int]:
    """Return for each component with a table where that begins in an entry's."""
    places, offset = {}, 0
    for slot in accumulator.tables:
        places[slot.component] = offset
        offset += slot.entries
    return places


def _sum(word: int, field: BoundField) -> str:
    return f"{lifted('long', 'n', field)}\n    p->sums[{word}] += n;"


def _states_of(shared: SharedLayout, word: int) -> dict[int, dict[str, int]]:
    """Return for each component whose state is shared the words of its fields, `word` and on."""
    found: dict[int, dict[str, int]] = {}
    for at, (number, name) in enumerate(shared.states, word):
        found.setdefault(number, {})[name] = at
    return found


def _state_added(of: Kind, words: Mapping[str, int]) -> str:
    """Add the state that one element leaves; of one that is absent it is of nothing."""
    adds = " ".join(f"p->sums[{at}] += s.{name};" for name, at in words.items())
    return f"""\
    {{
        {of.holder}_state s;
        {of.holder}_begin(&s);
        {of.holder}_step(&s, v, i);
        {adds}
    }}"""


def _state_ended(of: Kind, words: Mapping[str, int]) -> str:
    """Give a component what the sum of states ends as."""
    sets = " ".join(f"s.{name} = words[{at}];" for name, at in words.items())
    return f"""\
    {{
        {of.holder}_state s;
        {of.holder}_begin(&s);
        {sets}
        a->{of.name} = {of.name}_end(s);
    }}"""


def _counted(of: Kind, run: str, offset: int) -> str:
    """Count an element in the counters that stand so far behind an entry's first."""
    (field,) = of.part.fields
    if field.adds:
        return f"""\
    {{
        {of.holder}_state s;
        s.table = tables + {offset};
        {of.name}_step(&s, v, i);
    }}"""
    return where_present(
        of.part,
        f"""\
{lifted("long", "counter", field)}
        if (counter >= 0 && counter < {field.entries})
            chf_count_on({run}, tables + {offset} + counter);""",
    )


def _end(word: int, number: int, field: BoundField) -> str:
    """Give a field what its words hold."""
    member, ctype = f"a->c{number}.{field.name}", FIELD[field.dtype]
    if field.op == "add":
        return f"    {member} = ({ctype})words[{word}];"
    kind, flipped = flipped_key(field)
    value = f"as_{ctype}(({kind})words[{word}]{flipped})"
    return f"    {member} = {field.op}({member}, {value});"
