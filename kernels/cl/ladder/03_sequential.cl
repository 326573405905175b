/* Rung 3: sequential addressing, free of bank conflicts. */
#include "tuning.clh"
#include "monoid.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void sequential(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const uint lid = get_local_id(0);
    scratch[lid] = rung_lift(CHF_INPUT_NAMES, get_global_id(0), n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_size = CHF_LOCAL / 2; half_size > 0; half_size /= 2) {
        RUNG_LEVEL(half_size);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    rung_put(scratch[0], n, acc, acc_n, seen);
}
