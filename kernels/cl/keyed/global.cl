/* Add elements up by key in global memory, where a table does not fit local memory; and settle sums. */
#define CHF_AHEAD_BYTES 0
#define CHF_KEYED_GLOBAL 1
#include "tuning.clh"
#include "monoid.clh"
#include "place.clh"
#include "keyed/digits.clh"
#include "keyed/parts.clh"
#include "keyed/tables.clh"

/* Elements whose key is not in [0, keys) are left out.
 *
 * geo, key_geo    where elements are, and their keys (kernels/cl/place.clh)
 * outputs, reduces  of the box
 * span, parts     elements of an output that a work-group adds up; work-groups of an output
 * offset, index   of the box's first element, in the buffer and in the whole array
 * windows, bits   of digits, and bits of each (kernels/cl/keyed/digits.clh)
 * tops            exponents of what is added up exactly, from look_keyed
 * sums            tables of keys * outputs entries (kernels/cl/keyed/tables.clh)
 * tables          limbs of each entry */
__kernel CHF_GROUPS
void add_global(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys, ulong span,
                ulong parts, ulong offset, ulong index, uint windows, uint bits,
                __global const int *tops, __global long *sums, __global long *tables,
                __global ulong *seen)
{
    const ulong output = get_group_id(0) % outputs, part = get_group_id(0) / outputs;
    const ulong from = min(part * span, reduces);
    chf_add_span(CHF_INPUT_NAMES, key, geo, key_geo, output, outputs, from, min(from + span, reduces),
                 keys, offset, index, windows, bits, tops, tables, sums, get_local_id(0), CHF_LOCAL);
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}

/* Find the exponents that digits begin below, from those of some elements, `every` apart; `tops` holds
 * the least there is. */
__kernel CHF_GROUPS
void look_keyed(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong reduces, ulong every,
                ulong offset, ulong index, __global int *tops)
{
    __local int most[CHF_EXACTS + 1];
    int own[CHF_EXACTS + 1];
    for (uint f = 0; f < CHF_EXACTS; f++)
        own[f] = CHF_LEAST_TOP;
    for (uint f = get_local_id(0); f < CHF_EXACTS; f += CHF_LOCAL)
        most[f] = CHF_LEAST_TOP;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (ulong k = get_global_id(0) * every; k < outputs * reduces; k += get_global_size(0) * every) {
        const place_t at = chf_place(geo + 2, geo[0], k / reduces);
        const place_t row = chf_place(geo + 2 + 4 * geo[0], geo[1], k % reduces);
        chf_look(chf_value(CHF_INPUT_NAMES, offset + at.at + row.at), index + at.index + row.index,
                 own);
    }
    for (uint f = 0; f < CHF_EXACTS; f++)
        atomic_max(most + f, own[f]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint f = get_local_id(0); f < CHF_EXACTS; f += CHF_LOCAL)
        atomic_max(tops + f, most[f]);
}

/* Take tables into what stays: digits into limbs, all else into accumulators. */
__kernel CHF_SINGLES
void settle_keyed(ulong entries, uint bits, __global const int *tops, __global long *sums,
                  __global long *tables, __global uchar *acc, ulong acc_n, uint fresh)
{
    for (ulong k = get_global_id(0); k < entries; k += get_global_size(0)) {
        long words[CHF_WORDS + 1];
        for (uint w = 0; w < CHF_WORDS; w++) {
            const ulong at = 2 * w * entries + k;
            const long low = sums[at], high = sums[at + entries];
            sums[at] = sums[at + entries] = 0;
            words[w] = (long)((ulong)low + ((ulong)high << 32));
            if (w < CHF_DIGITS)
                chf_settle_digit(w, low, high, bits, tops, tables + k * CHF_ENTRIES);
        }
        acc_t a = chf_zero();
        chf_words_of(words, acc_n > 0, &a);
        chf_leave_one(acc, acc_n, k, a, fresh);
#if CHF_ENTRIES
        chf_settle(tables + k * CHF_ENTRIES);
#endif
    }
}
