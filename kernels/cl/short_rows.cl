/* Fold boxes whose outputs have short runs of neighbouring elements, a bundle of outputs at once.
 *
 * What items or lanes have of one output is put together in the end, which takes as long as folding
 * dozens of elements. Here each has an output of its own (kernels/cl/transposed.clh on CPUs, staged.clh on
 * GPUs). Accumulator (split, output) stands at split * outputs + output of `acc`. Numeric contract: as
 * fold_flat.
 */
#define CHF_AHEAD_BYTES 0 /* what comes next is asked for bundle by bundle */
#ifndef CHF_LANES
#define CHF_LANES 8
#define CHF_WIDTH 8
#define CHF_UNROLL 4 /* elements that a block has of each run */
#endif
#include "tuning.clh"
#if CHF_LANES > 1
#include "blocks.clh"
#endif
#include "monoid.clh"
#undef CHF_POSITIONS
#undef CHF_PLACES
#define CHF_POSITIONS 0 /* lanes are outputs of their own: in most batches one of them changes */
#define CHF_PLACES 0
#include "loads.clh"
#include "pre_rounding.clh"
#include "place.clh"
#if CHF_LANES > 1
#include "transposed.clh"
#else
#include "tiling.clh"
#endif

/* geo             the box (kernels/cl/place.clh); its innermost reduced dim is of neighbours
 * outputs, reduces  of the box
 * span, blocks    runs of a block of them; blocks of an output's runs
 * offset, index   of the box's first element, in the buffer and in the whole array
 * fresh           1 if these accumulators hold nothing yet
 * tables          of no use: what has any is folded by fold_rows */
__kernel CHF_GROUPS
void fold_short_rows(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong reduces, ulong span,
                     ulong blocks, ulong offset, ulong index, __global uchar *acc, ulong acc_n,
                     uint fresh, __global long *tables, __global ulong *seen)
{
    __local chf_bits_t stage[CHF_STAGE_ITEMS];
    __global const ulong *row = geo + 2 + 4 * (geo[0] - 1);
    __global const ulong *reduced = geo + 2 + 4 * geo[0];
    __global const ulong *inner = reduced + 4 * (geo[1] - 1);
    const ulong run = inner[0], runs = reduces / run;
    const ulong bundles = (row[0] + CHF_BUNDLE - 1) / CHF_BUNDLE, outer = outputs / row[0];
    const ulong jobs = blocks * outer * bundles;
    const ulong rounds = (jobs + get_num_groups(0) - 1) / get_num_groups(0);
    const ulong last = min((get_group_id(0) + 1) * rounds, jobs);
#if CHF_GRID
    int top = CHF_NO_GRID; /* of the bundle before: mostly it suits */
#endif
    for (ulong job = get_group_id(0) * rounds; job < last; job++) {
        const ulong first = job % bundles * CHF_BUNDLE;
        const uint count = min(row[0] - first, (ulong)CHF_BUNDLE);
        const ulong block = job / bundles / outer;
        const ulong from = block * span, stop = min(from + span, runs);
        place_t output = chf_place(geo + 2, geo[0] - 1, job / bundles % outer);
        output.at += offset + first * row[1];
        output.index += index + first * row[2];
        const ulong k = block * outputs + output.output + first * row[3];

        states_t states;
        chf_begin_bundle(&states, count, acc, acc_n, k, row[3], fresh);
#if CHF_GRID
        if (top != CHF_NO_GRID)
            chf_begin_grid(&states, top);
#endif
        for (ulong n = from; n < stop; n++) {
            const place_t start = chf_place(reduced, geo[1] - 1, n);
            const ulong at = output.at + start.at;
            const ulong next = at + (n + 1 < stop ? (inner - 4)[1] : CHF_BUNDLE * row[1]);
            chf_fold_runs(CHF_INPUT_NAMES, at, row[1], count, run, next, output.index + start.index,
                          row[2], inner[2], stage, &states);
        }
#if CHF_GRID
        if (states.grid.count)
            top = states.grid.top;
#endif
        chf_leave_bundle(&states, count, acc, acc_n, k, row[3], fresh);
    }
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
