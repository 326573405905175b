/* Rung 2: interleaved addressing by neighbouring work-items; strides hit the same banks. */
#include "tuning.clh"
#include "monoid.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void dense(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const uint lid = get_local_id(0);
    scratch[lid] = rung_lift(CHF_INPUT_NAMES, get_global_id(0), n);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = 1; s < CHF_LOCAL; s *= 2) {
        const uint k = 2 * s * lid;
        if (k + s < CHF_LOCAL)
            scratch[k] = chf_op(scratch[k], scratch[k + s]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    rung_put(scratch[0], n, acc, acc_n, seen);
}
