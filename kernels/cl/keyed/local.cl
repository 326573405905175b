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

/* Add elements whose keys are `least` and up to `some` more to `table`, which has chf_key_words words of
 * 32 bits for each of them, and that to `words`. All else as in add_global. */
static void chf_add_table(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                          __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys,
                          ulong span, ulong work_groups, ulong offset, ulong index, uint digits,
                          uint bits, __global const int *exponents, __global long *words,
                          __global long *tables, uint least, uint some, __local long *table)
{
    const ulong output = get_group_id(0) % outputs, part = get_group_id(0) / outputs;
    for (uint n = get_local_id(0); n < chf_key_words(digits) * some; n += CHF_LOCAL)
        ((__local uint *)table)[n] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong from = min(part * span, reduces);
    chf_add_span(CHF_INPUT_NAMES, key, geo, key_geo, output, outputs, from, min(from + span, reduces),
                 least, some, offset, index, digits, bits, exponents, tables, table, get_local_id(0),
                 CHF_LOCAL);
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong to = chf_place(geo + 2, geo[0], output).output;
    chf_put_table(table, some, digits, words + least * outputs, (ulong)keys * outputs, outputs, to);
}

__kernel CHF_GROUPS
void add_local(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
               __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys, ulong span,
               ulong work_groups, ulong offset, ulong index, uint digits, uint bits,
               __global const int *exponents, __global long *words, __global long *tables,
               __global ulong *seen, __local long *table)
{
    chf_add_table(CHF_INPUT_NAMES, key, geo, key_geo, outputs, reduces, keys, span, work_groups, offset,
                  index, digits, bits, exponents, words, tables, 0, keys, table);
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}

#if CHF_LOCAL > 1
/* The same for some of the keys: a kernel of its own, as to subtract `least` takes its time. */
__kernel CHF_GROUPS
void add_local_part(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                    __global const ulong *key_geo, ulong outputs, ulong reduces, uint keys, ulong span,
                    ulong work_groups, ulong offset, ulong index, uint digits, uint bits,
                    __global const int *exponents, __global long *words, __global long *tables,
                    __global ulong *seen, uint least, uint some, __local long *table)
{
    chf_add_table(CHF_INPUT_NAMES, key, geo, key_geo, outputs, reduces, keys, span, work_groups, offset,
                  index, digits, bits, exponents, words, tables, least, some, table);
    if (get_global_id(0) == 0 && least == 0)
        seen[0] += outputs * reduces;
}
#endif
