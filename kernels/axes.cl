/* Fold some axes of a box of elements: one accumulator per output and split.
 *
 * `geo` describes the box after adjacent axes of a kind were merged (kernels/geometry.py):
 *   geo[0], geo[1]   number of kept and of reduced dims, each at least 1
 *   then per dim, kept ones first, slowest first: size, stride in elements, stride of the index
 * Accumulator (split, output) stands at split * outputs + output of `acc`.
 * `seen` counts elements, as in fold_flat. Numeric contract: as fold_flat.
 */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"

typedef struct { ulong at; ulong index; } place_t;

/* Where flat position k of `count` dims lies. */
static place_t chf_place(__global const ulong *dims, ulong count, ulong k)
{
    place_t place = { 0, 0 };
    for (ulong d = count; d-- > 0;) {
        const ulong size = dims[3 * d];
        const ulong here = k % size;
        k /= size;
        place.at += here * dims[3 * d + 1];
        place.index += here * dims[3 * d + 2];
    }
    return place;
}

/* Fold reduced positions [from, to) of one output; this item takes those of the innermost run
 * that are `lid` modulo `items`. Runs of the innermost dim need no division. */
static acc_t chf_fold_span(CHF_INPUTS, __global const ulong *geo, place_t output,
                           ulong from, ulong to, uint lid, uint items)
{
    const ulong reduced = geo[1];
    __global const ulong *dims = geo + 2 + 3 * geo[0];
    __global const ulong *inner = dims + 3 * (reduced - 1);
    state_t s = chf_begin();
    while (from < to) {
        const ulong run = min(inner[0] - from % inner[0], to - from);
        const place_t start = chf_place(dims, reduced, from);
        for (ulong t = lid; t < run; t += items) {
            const ulong at = output.at + start.at + t * inner[1];
            const ulong index = output.index + start.index + t * inner[2];
            s = chf_step(s, chf_load1(CHF_INPUT_NAMES, at), index);
        }
        from += run;
    }
    return chf_end(s);
}

/* A work-group per output and split; its items share a run. For few outputs or long runs. */
__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void fold_rows(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong reduces, ulong span,
               ulong offset, ulong index, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const ulong k = get_group_id(0);
    const ulong from = min(k / outputs * span, reduces);
    place_t output = chf_place(geo + 2, geo[0], k % outputs);
    output.at += offset;
    output.index += index;
    acc_t a = chf_fold_span(CHF_INPUT_NAMES, geo, output, from, min(from + span, reduces),
                            get_local_id(0), CHF_LOCAL);
    a = chf_group_reduce(a, scratch);
    if (get_local_id(0) == 0)
        chf_put(acc, acc_n, k, chf_op(chf_get(acc, acc_n, k), a));
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}

/* A work-item per output: neighbours read neighbours. For many outputs. */
__kernel
void fold_columns(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong reduces,
                  ulong offset, ulong index, __global uchar *acc, ulong acc_n,
                  __global ulong *seen)
{
    const ulong k = get_global_id(0);
    if (k >= outputs)
        return;
    place_t output = chf_place(geo + 2, geo[0], k);
    output.at += offset;
    output.index += index;
    const acc_t a = chf_fold_span(CHF_INPUT_NAMES, geo, output, 0, reduces, 0, 1);
    chf_put(acc, acc_n, k, chf_op(chf_get(acc, acc_n, k), a));
    if (k == 0)
        seen[0] += outputs * reduces;
}
