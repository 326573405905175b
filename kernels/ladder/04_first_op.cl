/* Rung 4: the first op while loading: no work-item starts idle. */
#include "tuning.clh"
#include "monoid.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void first_op(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const uint lid = get_local_id(0);
    const ulong k = get_group_id(0) * (2UL * CHF_LOCAL) + lid;
    scratch[lid] = chf_op(rung_lift(CHF_INPUT_NAMES, k, n),
                          rung_lift(CHF_INPUT_NAMES, k + CHF_LOCAL, n));
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = CHF_LOCAL / 2; half_size > 0; half_size /= 2) {
        RUNG_LEVEL(half_size);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    rung_put(scratch[0], n, acc, acc_n, seen);
}
