/* Rung 10: the sub-group built-in, one element a work-item; local memory between sub-groups. */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void sub_group(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const acc_t a = rung_lift(CHF_INPUT_NAMES, get_global_id(0), n);
    rung_put(chf_group_reduce(a, scratch), n, acc, acc_n, seen);
}
