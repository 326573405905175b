/* Fold a contiguous run of elements into one accumulator per work-group.
 *
 * Phases: each work-item folds a strip of its own into CHF_LANES states (Harris, "Optimizing
 * Parallel Reduction in CUDA", 2007: algorithm cascading); the work-group reduces its items; item 0
 * folds the outcome into accumulator `group` of `acc`, which stays on the device between buffers.
 * Numeric contract: elements enter in no defined order; nothing is dropped or counted twice.
 */
#include "tuning.clh"
#include "monoid.clh"
#include "loads.clh"
#include "trials.clh"
#include "pre_rounding.clh"
#include "positions.clh"
#include "run.clh"
#include "group.clh"

/* begin, end   the run, in elements from the start of each buffer
 * strip        elements per work-item, a multiple of CHF_WIDTH (unused if CHF_STRIP is 0)
 * index        global C-order index of element `begin`
 * acc, acc_n   a partial of acc_n accumulators, acc_n >= number of groups
 * fresh        1 if `acc` holds nothing yet
 * tables       CHF_ENTRIES counters per accumulator, if there are any
 * seen         counts elements, so that the host can tell that the launch ran */
__kernel CHF_GROUPS
void fold_flat(CHF_INPUTS, ulong begin, ulong end, ulong strip, ulong index,
               __global uchar *acc, ulong acc_n, uint fresh, __global long *tables,
               __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const ulong item = get_global_id(0);
    states_t lanes;
    state_t rest;
    chf_begins(&lanes);
    chf_begin(&rest);
#if CHF_ENTRIES
    __global long *kept = tables + get_group_id(0) * CHF_ENTRIES;
#if CHF_TABLE_LOCAL
    __local chf_counter_t table[CHF_ENTRIES];
    for (uint e = get_local_id(0); e < CHF_ENTRIES; e += CHF_LOCAL)
        table[e] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    CHF_TABLE table = kept;
#endif
    chf_attach_lanes(&lanes, table, 0);
    chf_attach(&rest, table);
#endif
#if CHF_STRIP
    const ulong from = begin + min(item * strip, end - begin);
    const ulong to = min(from + strip, end);
    chf_fold_run(CHF_INPUT_NAMES, from, to, index + (from - begin), 1, 0, 1, &lanes, &rest);
#else
    chf_fold_run(CHF_INPUT_NAMES, begin, end, index, 1, item, get_global_size(0), &lanes, &rest);
#endif
    acc_t a = chf_group_reduce(chf_gathered(&lanes, &rest), scratch);
    if (get_local_id(0) == 0)
        chf_leave_one(acc, acc_n, get_group_id(0), a, fresh);
#if CHF_ENTRIES && CHF_TABLE_LOCAL
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = get_local_id(0); e < CHF_ENTRIES; e += CHF_LOCAL)
        kept[e] += table[e];
#endif
    if (item == 0)
        seen[0] += end - begin;
}
