/* Rung 7: each work-item folds many elements, striding over the grid, before the tree. */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void cascaded(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    state_t s;
    chf_begin(&s);
    for (ulong k = get_global_id(0); k < n; k += get_global_size(0))
        chf_step(&s, chf_value(CHF_INPUT_NAMES, k), k);
    const acc_t a = chf_end(&s);
    rung_put(chf_group_reduce(a, scratch), n, acc, acc_n, seen);
}
