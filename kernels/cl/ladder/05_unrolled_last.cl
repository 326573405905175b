/* Rung 5: the last sub-group's levels unrolled, with its own barrier. */
#include "tuning.clh"
#include "monoid.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void unrolled_last(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const uint lid = get_local_id(0);
    scratch[lid] = rung_pair(CHF_INPUT_NAMES, n);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint last = RUNG_LAST;
    for (uint half_size = CHF_LOCAL / 2; 2 * half_size > last || half_size > 64; half_size /= 2) {
        RUNG_LEVEL(half_size);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    RUNG_LAST_LEVELS
    rung_put(scratch[0], n, acc, acc_n, seen);
}
