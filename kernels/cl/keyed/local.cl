/* Fold by key in local memory: each work-group has a table of its own.
 *
 * Numeric contract: sums of integers, and of floats as integers (kernels/cl/keyed/digits.clh): in any
 * order they are the same bits.
 */
#define CHF_AHEAD_BYTES 0
#include "tuning.clh"
#include "monoid.clh"
#include "place.clh"
#include "keyed/digits.clh"
#include "keyed/generated.clh"
#include "keyed/shared.clh"
#include "keyed/span.clh"

/* As add_global, but each work-group adds to `table` first, which has chf_key_words words of 32 bits for
 * each key. */
__kernel CHF_GROUPS
void add_local(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
               __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys, ulong span,
               ulong work_groups, ulong offset, ulong index, uint digits, uint bits,
               __global const int *exponents, __global long *words, __global long *limbs,
               __global ulong *seen, __local long *table)
{
    const ulong output = get_group_id(0) % outputs, part = get_group_id(0) / outputs;
    for (uint n = get_local_id(0); n < chf_key_words(digits) * keys; n += CHF_LOCAL)
        ((__local uint *)table)[n] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong from = min(part * span, reduces);
    chf_add_span(CHF_INPUT_NAMES, key, geo, key_geo, output, outputs, from, min(from + span, reduces),
                 keys, offset, index, digits, bits, exponents, limbs, table, get_local_id(0), CHF_LOCAL);
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong to = chf_place(geo + 2, geo[0], output).output;
    chf_put_table(table, keys, digits, words, (ulong)keys * outputs, outputs, to);
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
