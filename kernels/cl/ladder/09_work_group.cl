/* Rung 9: the work-group built-in, one element a work-item. */
#include "tuning.clh"
#include "monoid.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void work_group(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    const acc_t a = rung_lift(CHF_INPUT_NAMES, get_global_id(0), n);
    rung_put(chf_work_group_reduce(a), n, acc, acc_n, seen);
}
