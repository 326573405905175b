/* Rung 8: each work-item folds a span of four neighbours, then a tree: 1,024 on 256 items. */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void serial_spans(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const ulong from = 4 * get_global_id(0);
    state_t s;
    chf_begin(&s);
    for (ulong k = from; k < min(from + 4, n); k++)
        chf_step(&s, chf_value(CHF_INPUT_NAMES, k), k);
    const acc_t a = chf_end(&s);
    rung_put(chf_group_reduce(a, scratch), n, acc, acc_n, seen);
}
