/* Fold a contiguous run of elements into one accumulator per work-group.
 *
 * Phases: each work-item folds a strip of its own into CHF_LANES states (Harris, "Optimizing
 * Parallel Reduction in CUDA", 2007: algorithm cascading); the work-group reduces its items; item 0
 * folds the outcome into accumulator `group` of `acc`, which stays on the device between buffers.
 * Numeric contract: elements enter in no defined order; nothing is dropped or counted twice.
 */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"

/* begin, end   the run, in elements from the start of each buffer
 * strip        elements per work-item, a multiple of CHF_WIDTH (unused if CHF_STRIP is 0)
 * index        global C-order index of element `begin`
 * acc, acc_n   a partial of acc_n accumulators, acc_n >= number of groups
 * seen         counts elements, so that the host can tell that the launch ran */
__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void fold_flat(CHF_INPUTS, ulong begin, ulong end, ulong strip, ulong index,
               __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const ulong item = get_global_id(0);

    /* Vector loads must be aligned: what stands before and after them is folded one by one. */
    const ulong head = min((CHF_WIDTH - begin % CHF_WIDTH) % CHF_WIDTH, end - begin);
    const ulong first = begin + head;
    const ulong last = first + (end - first) / CHF_WIDTH * CHF_WIDTH;
#if CHF_STRIP
    const ulong from = first + min(item * strip, last - first);
    const ulong to = min(from + strip, last);
    const ulong step = CHF_WIDTH;
#else
    const ulong from = first + item * CHF_WIDTH;
    const ulong to = last;
    const ulong step = get_global_size(0) * CHF_WIDTH;
#endif
    state_t lane[CHF_LANES];
    values_t v[CHF_UNROLL][CHF_WIDTH];
    for (int j = 0; j < CHF_LANES; j++)
        lane[j] = chf_begin();

    ulong k = from;
#if CHF_UNROLL > 1
    for (; k + (CHF_UNROLL - 1) * step < to; k += CHF_UNROLL * step) {
        #pragma unroll
        for (int u = 0; u < CHF_UNROLL; u++)
            chf_load(CHF_INPUT_NAMES, k + u * step, v[u]);
        #pragma unroll
        for (int u = 0; u < CHF_UNROLL; u++) {
            #pragma unroll
            for (int j = 0; j < CHF_WIDTH; j++)
                lane[j % CHF_LANES] =
                    chf_step(lane[j % CHF_LANES], v[u][j], index + (k + u * step - begin) + j);
        }
    }
#endif
    for (; k < to; k += step) {
        chf_load(CHF_INPUT_NAMES, k, v[0]);
        #pragma unroll
        for (int j = 0; j < CHF_WIDTH; j++)
            lane[j % CHF_LANES] = chf_step(lane[j % CHF_LANES], v[0][j], index + (k - begin) + j);
    }
    for (ulong e = item; e < head + (end - last); e += get_global_size(0)) {
        const ulong at = e < head ? begin + e : last + (e - head);
        lane[0] = chf_step(lane[0], chf_load1(CHF_INPUT_NAMES, at), index + (at - begin));
    }

    acc_t a = chf_end(lane[0]);
    for (int j = 1; j < CHF_LANES; j++)
        a = chf_op(a, chf_end(lane[j]));
    a = chf_group_reduce(a, scratch);
    if (get_local_id(0) == 0) {
        const ulong group = get_group_id(0);
        chf_put(acc, acc_n, group, chf_op(chf_get(acc, acc_n, group), a));
    }
    if (item == 0)
        seen[0] += end - begin;
}
