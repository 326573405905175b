/* Rung 8: each work-item folds a span of four neighbours, then a tree: 1,024 on 256 items. */
#include "tuning.clh"
#include "monoid.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void serial_spans(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const uint lid = get_local_id(0);
    const ulong from = 4 * get_global_id(0);
    state_t s;
    chf_begin(&s);
    for (ulong k = from; k < min(from + 4, n); k++)
        chf_step(&s, chf_value(CHF_INPUT_NAMES, k), k);
    scratch[lid] = chf_end(&s);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = CHF_LOCAL / 2; half_size > 0; half_size /= 2) {
        RUNG_LEVEL(half_size);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    rung_put(scratch[0], n, acc, acc_n, seen);
}
