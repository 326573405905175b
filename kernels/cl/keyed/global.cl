/* Fold by key in global memory, where a table does not fit local memory; sample exponents; settle. */
#define CHF_AHEAD_BYTES 0
#define CHF_KEYED_GLOBAL 1
#include "tuning.clh"
#include "monoid.clh"
#include "place.clh"
#include "keyed/digits.clh"
#include "keyed/generated.clh"
#include "keyed/shared.clh"
#include "keyed/span.clh"

/* Elements whose key is not in [0, keys) are left out.
 *
 * geo, key_geo    where elements are, and their keys (kernels/cl/place.clh)
 * outputs, reduces  of the box
 * span, work_groups  elements of an output that a work-group takes; work-groups of an output
 * offset, index   of the box's first element, in the buffer and in the whole array
 * digits, bits    digits of an exact sum, and bits of each (kernels/cl/keyed/digits.clh)
 * exponents       of what is summed exactly, from sample_exponents
 * words           of keys * outputs entries (kernels/cl/keyed/shared.clh)
 * tables          limbs of exact sums, and counters, of each entry */
__kernel CHF_GROUPS
void add_global(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys, ulong span,
                ulong work_groups, ulong offset, ulong index, uint digits, uint bits,
                __global const int *exponents, __global long *words, __global long *tables,
                __global ulong *seen)
{
    const ulong output = get_group_id(0) % outputs, part = get_group_id(0) / outputs;
    const ulong from = min(part * span, reduces);
    chf_add_span(CHF_INPUT_NAMES, key, geo, key_geo, output, outputs, from, min(from + span, reduces),
                 0, keys, offset, index, digits, bits, exponents, tables, words, get_local_id(0),
                 CHF_LOCAL);
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}

#if CHF_INDICES
/* Find where extremes that `words` have are first, in a second look at the elements. */
__kernel CHF_GROUPS
void find_indices(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                  __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys, ulong span,
                  ulong offset, ulong index, __global long *words, __global ulong *seen)
{
    const ulong output = get_group_id(0) % outputs, part = get_group_id(0) / outputs;
    const ulong from = min(part * span, reduces), to = min(from + span, reduces);
    const place_t place = chf_place(geo + 2, geo[0], output);
    const ulong key_at = chf_place(key_geo + 2, geo[0], output).at;
    const ulong entries = (ulong)keys * outputs;
#define CHF_FIRST_OF(n) const ulong first##n = o##n + chf_along(geo, n, 0, geo[0], output);
    CHF_EACH_OTHER(CHF_FIRST_OF)
    for (ulong r = from + get_local_id(0); r < to; r += CHF_LOCAL) {
        const ulong at_key = key_at + chf_place(key_geo + 2 + 4 * geo[0], geo[1], r).at;
        const uint now = (uint)key[at_key];
        if (now >= keys)
            continue;
        const place_t at = chf_place(geo + 2 + 4 * geo[0], geo[1], r);
#define CHF_AT_FOUND(n) \
    o##n = first##n + chf_along(geo, n, geo[0], geo[1], r); \
    s##n = d##n = 0;
        CHF_EACH_OTHER(CHF_AT_FOUND)
        chf_find(chf_value(CHF_INPUT_NAMES, offset + place.at + at.at),
                 index + place.index + at.index, words + now * outputs + place.output, entries);
    }
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
#endif

/* Find the greatest exponent of some elements, `every` apart. `exponents` holds the least there is. */
__kernel CHF_GROUPS
void sample_exponents(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong reduces,
                      ulong every, ulong offset, ulong index, __global int *exponents)
{
    __local int most[CHF_EXACTS + 1];
    int own[CHF_EXACTS + 1];
    for (uint f = 0; f < CHF_EXACTS; f++)
        own[f] = CHF_LEAST_EXPONENT;
    for (uint f = get_local_id(0); f < CHF_EXACTS; f += CHF_LOCAL)
        most[f] = CHF_LEAST_EXPONENT;
    barrier(CLK_LOCAL_MEM_FENCE);
#define CHF_FIRST(n) const ulong first##n = o##n;
    CHF_EACH_OTHER(CHF_FIRST)
    for (ulong k = get_global_id(0) * every; k < outputs * reduces; k += get_global_size(0) * every) {
        const place_t at = chf_place(geo + 2, geo[0], k / reduces);
        const place_t row = chf_place(geo + 2 + 4 * geo[0], geo[1], k % reduces);
#define CHF_AT_SAMPLE(n) \
    o##n = first##n + chf_along(geo, n, 0, geo[0], k / reduces) + chf_along(geo, n, geo[0], geo[1], k % reduces); \
    s##n = d##n = 0;
        CHF_EACH_OTHER(CHF_AT_SAMPLE)
        chf_sample(chf_value(CHF_INPUT_NAMES, offset + at.at + row.at), index + at.index + row.index,
                 own);
    }
    for (uint f = 0; f < CHF_EXACTS; f++)
        atomic_max(most + f, own[f]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint f = get_local_id(0); f < CHF_EXACTS; f += CHF_LOCAL)
        atomic_max(exponents + f, most[f]);
}

/* Empty the words: digits into limbs, all else into accumulators. */
__kernel CHF_SINGLES
void settle_keyed(ulong entries, uint bits, __global const int *exponents, __global long *words,
                  __global long *tables, __global uchar *acc, ulong acc_n, uint fresh)
{
    for (ulong k = get_global_id(0); k < entries; k += get_global_size(0)) {
        long values[CHF_WORDS + 1];
        for (uint w = 0; w < CHF_WORDS; w++) {
            const ulong at = 2 * w * entries + k;
            const long low = words[at], high = words[at + entries];
            words[at] = words[at + entries] = 0;
            values[w] = (long)((ulong)low + ((ulong)high << 32));
            if (w < CHF_DIGIT_WORDS)
                chf_settle_digit(w, low, high, bits, exponents, tables + k * CHF_ENTRIES);
        }
        acc_t a = chf_zero();
        chf_words_of(values, &a);
        chf_leave_one(acc, acc_n, k, a, fresh);
#if CHF_ENTRIES
        chf_settle(tables + k * CHF_ENTRIES);
#endif
    }
}
