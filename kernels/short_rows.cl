/* Fold boxes whose outputs have short runs of neighbouring elements: CHF_LANES outputs at once.
 *
 * Lanes that share an output are put together in the end, which takes as long as folding dozens of
 * elements. Here each lane has an output of its own, whose run is turned into it block by block.
 * Accumulator (split, output) stands at split * outputs + output of `acc`. Numeric contract: as
 * fold_flat. For CPUs alone: the work-items of a GPU share runs.
 */
#define CHF_AHEAD_BYTES 0 /* what comes next is asked for run by run */
#ifndef CHF_LANES
#define CHF_LANES 8
#define CHF_WIDTH 8
#define CHF_UNROLL 4 /* elements that a block has of each run */
#endif
#include "tuning.clh"
#include "blocks.clh"
#include "monoid.clh"
#undef CHF_POSITIONS
#define CHF_POSITIONS 0 /* lanes are outputs of their own: in most batches one of them changes */
#include "loads.clh"
#include "grids.clh"
#include "place.clh"

/* Elements of a run that share a line of memory. */
#define CHF_LINE (64 / sizeof(chf_raw_t))

/* The first `count` elements that a block has of each run, the first of which has `index`. */
static void chf_fold_block(int count, ulong index, ulong di_run, ulong di, values_t v[CHF_UNROLL][1],
                           states_t *lanes)
{
#if CHF_GRID
    chf_fold_batch(count, index, di, di_run, v, lanes);
#else
    #pragma unroll
    for (int u = 0; u < count; u++)
        chf_steps(lanes, &v[u][0], index + u * di, di_run);
#endif
}

/* Runs of `run` elements that begin at `at`, whose first elements have `index`, + di_run, ...; the
 * runs that are folded next begin at `next`, + pitch, ... They are asked for in memory's order: of a
 * bundle's lines in the order that they are folded in, a CPU saw no stream, and read half as fast. */
static void chf_fold_runs(CHF_INPUTS, const ulong *at, ulong run, ulong next, ulong pitch,
                          ulong index, ulong di_run, ulong di, states_t *lanes)
{
    values_t v[CHF_UNROLL][1];
    ulong asked = 0; /* of the run at `next` */
#if CHF_FIRSTS
    if (!lanes->begun) {
        chf_load_one_each(CHF_INPUT_NAMES, at, 0, v[0]);
        chf_firsts(lanes, v[0], index, di_run);
    }
#endif
    ulong t = 0;
    for (; t + 4 <= run; t += 4) {
        if (t % CHF_LINE == 0) {
            #pragma unroll
            for (int r = 0; r < CHF_LANES; r++) {
                chf_ask(CHF_INPUT_NAMES, next + asked);
                asked += CHF_LINE;
                next += asked < run ? 0 : pitch;
                asked = asked < run ? asked : 0;
            }
        }
        chf_load_block(CHF_INPUT_NAMES, at, t, v[0]);
        chf_fold_block(4, index + t * di, di_run, di, v, lanes);
    }
    for (; t < run; t++) {
        chf_load_one_each(CHF_INPUT_NAMES, at, t, v[0]);
        chf_fold_block(1, index + t * di, di_run, di, v, lanes);
    }
    chf_carries(lanes);
}

/* geo             the box (kernels/place.clh); its innermost reduced dim is of neighbours
 * outputs, reduces  of the box
 * span, blocks    runs of a block of them; blocks of an output's runs
 * offset, index   of the box's first element, in the buffer and in the whole array
 * fresh           1 if these accumulators hold nothing yet
 * tables          of no use: what has any is folded by fold_rows */
__kernel CHF_SINGLES
void fold_short_rows(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong reduces, ulong span,
                     ulong blocks, ulong offset, ulong index, __global uchar *acc, ulong acc_n,
                     uint fresh, __global long *tables, __global ulong *seen)
{
    __global const ulong *row = geo + 2 + 4 * (geo[0] - 1);
    __global const ulong *reduced = geo + 2 + 4 * geo[0];
    __global const ulong *inner = reduced + 4 * (geo[1] - 1);
    const ulong run = inner[0], runs = reduces / run;
    const ulong bundles = (row[0] + CHF_LANES - 1) / CHF_LANES, outer = outputs / row[0];
    const ulong jobs = blocks * outer * bundles;
    const ulong rounds = (jobs + get_num_groups(0) - 1) / get_num_groups(0);
    const ulong last = min((get_group_id(0) + 1) * rounds, jobs);
#if CHF_GRID
    int top = CHF_NO_GRID; /* of the bundle before: mostly it suits */
#endif
    for (ulong job = get_group_id(0) * rounds; job < last; job++) {
        const ulong first = job % bundles * CHF_LANES;
        const uint count = min(row[0] - first, (ulong)CHF_LANES);
        const ulong block = job / bundles / outer;
        const ulong from = block * span, stop = min(from + span, runs);
        place_t output = chf_place(geo + 2, geo[0] - 1, job / bundles % outer);
        output.at += offset + first * row[1];
        output.index += index + first * row[2];
        const ulong k = block * outputs + output.output + first * row[3];
        /* Then lanes are neighbouring accumulators. */
        const int beside = count == CHF_LANES && row[3] == 1;

        states_t lanes;
        chf_begins(&lanes);
#if CHF_RESUMES
        if (beside && !fresh)
            chf_resume(&lanes, acc, acc_n, k);
#endif
#if CHF_GRID
        if (top != CHF_NO_GRID)
            chf_begin_grid(&lanes, top);
#endif
        for (ulong n = from; n < stop; n++) {
            const place_t start = chf_place(reduced, geo[1] - 1, n);
            ulong at[CHF_LANES];
            for (uint r = 0; r < CHF_LANES; r++) /* lanes that are too many repeat the last */
                at[r] = output.at + start.at + min(r, count - 1) * row[1];
            const ulong next = at[0] + (n + 1 < stop ? (inner - 4)[1] : CHF_LANES * row[1]);
            chf_fold_runs(CHF_INPUT_NAMES, at, run, next, row[1], output.index + start.index,
                          row[2], inner[2], &lanes);
        }
#if CHF_GRID
        if (lanes.grid.count)
            top = lanes.grid.top;
#endif
#if CHF_LEAVES
        if (beside && (fresh || CHF_RESUMES)) {
            chf_leave(&lanes, acc, acc_n, k);
            continue;
        }
#endif
        acc_t out[CHF_LANES];
        chf_ends(&lanes, out);
        for (uint e = 0; e < count; e++) {
            chf_keep(&out[e]);
            const ulong a = k + e * row[3];
            chf_store(acc, acc_n, a, fresh ? out[e] : chf_op(chf_get(acc, acc_n, a), out[e]));
        }
    }
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
