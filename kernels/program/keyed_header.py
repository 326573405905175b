"""The header of kernels that fold by key in shared tables: what one element adds to its key."""

from __future__ import annotations

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.accumulator.traits import Deposit
from chunkfold.kernels.kinds import kinds_of
from chunkfold.kernels.kinds.exact_digits import MOST_DIGITS
from chunkfold.kernels.kinds.kind import KeyedCode
from chunkfold.kernels.opencl.element_code import names
from chunkfold.kernels.opencl.opencl_code import joined
from chunkfold.kernels.program.shared_layout import SharedLayout


def keyed_header(accumulator: Accumulator) -> str:
    """Return kernels/cl/keyed/generated.clh for an accumulator of what work-items share."""
    shared = SharedLayout(accumulator)
    digits = MOST_DIGITS * len(shared.exact)
    codes = [kind.by_key(shared.place_of(kind.number)) for kind in kinds_of(accumulator)]
    code = KeyedCode(*map(joined, zip(*codes, strict=True)))
    scales = [f"d->scale[{f}] = chf_power_of_two((int)bits - chf_exponent_above(exponents[{f}]));"
              for f in range(len(shared.exact))]  # fmt: skip
    real, base = ("double", "chf_power_of_two(bits)") if shared.exact else ("float", "0")
    vector = "long4" if shared.exact else "int4"
    return f"""\
#line 1 "generated"
#define CHF_EXACTS {len(shared.exact)}
#define CHF_DIGIT_WORDS {digits}
#define CHF_LONG_SUMS {digits + len(shared.sums)}
#define CHF_EXTREMES64 {len(shared.places[Deposit.EXTREME64])}
#define CHF_COUNTS {len(shared.places[Deposit.COUNT])}
#define CHF_EXTREMES32 {len(shared.places[Deposit.EXTREME32])}
#define CHF_INDICES {len(shared.places[Deposit.INDEX])}
#define CHF_COUNTERS {len(shared.places[Deposit.COUNTER])}
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
{code.doubles}
static void chf_take_firsts(const value_t *v, ulong i, ulong di, const scales_t *scales,
                            firsts_t *of)
{{
{code.firsts}
}}
/* Add what is quickly added of an element, number j of four; return whether the rest is left to
 * chf_take_rest. */
static int chf_take(value_t v, ulong i, const scales_t *scales, const firsts_t *of, uint j,
                    contribution_t *p)
{{
    int left = 0;
{names(accumulator)}
{code.take}
    return left;
}}
static void chf_take_rest(value_t v, ulong i, const scales_t *scales, __global long *limbs,
                          contribution_t *p)
{{
{names(accumulator)}
{code.take_rest}
}}
static void chf_count_one(value_t v, ulong i, __global long *tables, counted_t *runs)
{{
{names(accumulator)}
{code.counted}
}}
static void chf_find(value_t v, ulong i, __global long *words, ulong entries)
{{
{names(accumulator)}
{code.find}
}}
static void chf_sample(value_t v, ulong i, int *exponents)
{{
{names(accumulator)}
{code.sample}
}}
static void chf_settle_digit(uint w, long low, long high, uint bits, __global const int *exponents,
                             __global long *limbs)
{{
    {code.settle}
}}
static void chf_words_of(const long *words, acc_t *a)
{{
{code.end}
}}
"""
