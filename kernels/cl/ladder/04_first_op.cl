/* Rung 4: the first op while loading: no work-item starts idle. */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void first_op(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const acc_t a = rung_pair(CHF_INPUT_NAMES, n);
    rung_put(chf_group_reduce(a, scratch), n, acc, acc_n, seen);
}
