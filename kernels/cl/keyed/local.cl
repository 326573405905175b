/* Add elements up by key, each work-group in a table of its own in local memory.
 *
 * Numeric contract: sums of integers, and of floats as integers (kernels/cl/keyed/digits.clh): in any
 * order they are the same bits.
 */
#define CHF_AHEAD_BYTES 0
#include "tuning.clh"
#include "monoid.clh"
#include "place.clh"
#include "keyed/digits.clh"
#include "keyed/parts.clh"
#include "keyed/tables.clh"

/* As add_global, and `parts` work-groups share an output, each of which takes `span` elements of it.
 * `table` has chf_key_words words of 32 bits for each key. */
__kernel CHF_GROUPS
void add_local(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
               __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys, ulong span,
               ulong parts, ulong offset, ulong index, uint windows, uint bits,
               __global const int *tops, __global long *sums, __global long *tables,
               __global ulong *seen, __local long *table)
{
    const ulong output = get_group_id(0) % outputs, part = get_group_id(0) / outputs;
    for (uint n = get_local_id(0); n < chf_key_words(windows) * keys; n += CHF_LOCAL)
        ((__local uint *)table)[n] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong from = min(part * span, reduces);
    chf_add_span(CHF_INPUT_NAMES, key, geo, key_geo, output, outputs, from, min(from + span, reduces),
                 keys, offset, index, windows, bits, tops, tables, table, get_local_id(0), CHF_LOCAL);
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong to = chf_place(geo + 2, geo[0], output).output;
    chf_put_table(table, keys, windows, sums, (ulong)keys * outputs, outputs, to);
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
