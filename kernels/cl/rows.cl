/* Fold boxes whose fastest axis is reduced: each output has runs of neighbouring elements.
 *
 * A team of work-items, a work-group or a part of one, shares the runs of an output and split;
 * it takes several outputs in turn. Accumulator (split, output) stands at split * outputs + output
 * of `acc`. Numeric contract: as fold_flat.
 */
#include "tuning.clh"
#include "monoid.clh"
#include "loads.clh"
#include "trials.clh"
#include "pre_rounding.clh"
#include "positions.clh"
#include "run.clh"
#include "group.clh"
#include "place.clh"

/* Reduced positions [from, to) of the output whose first element is at `output`; it has `table`. The
 * grid that sums begin on, and then the one that they end on, is `top`'s: what the output before had
 * mostly suits. */
static acc_t chf_fold_span(CHF_INPUTS, __global const ulong *geo, place_t output, ulong from,
                           ulong to, uint item, uint items, __global long *table, int *top)
{
    const ulong reduced = geo[1];
    __global const ulong *dims = geo + 2 + 4 * geo[0];
    __global const ulong *inner = dims + 4 * (reduced - 1);
    /* Runs of a few elements, or of elements apart, are folded one by one. */
    const int single = inner[0] < CHF_WIDTH || inner[1] != 1;
    states_t lanes;
    state_t rest;
    chf_begin(&rest);
    if (!single)
        chf_begins(&lanes);
#if CHF_GRID
    if (!single && *top != CHF_NO_GRID)
        chf_begin_grid(&lanes, *top);
#endif
#if CHF_ENTRIES
    chf_attach(&rest, table);
    if (!single)
        chf_attach_lanes(&lanes, table, 0);
#endif
#define CHF_BASE(n) const ulong base##n = o##n;
    CHF_EACH_OTHER(CHF_BASE)
    while (from < to) {
        const place_t start = chf_place(dims, reduced, from);
        const ulong run = reduced == 1 ? to - from : min(inner[0] - from % inner[0], to - from);
        const ulong at = output.at + start.at, index = output.index + start.index;
        /* Elements that are folded one by one are so many loads. */
#define CHF_AT_RUN(n) \
    s##n = chf_stride(geo, n, geo[0] + reduced - 1); \
    o##n = base##n + chf_along(geo, n, geo[0], reduced, from) - (single ? 0 : at * s##n); \
    d##n = single ? s##n : 0; \
    s##n = single ? 0 : s##n;
        CHF_EACH_OTHER(CHF_AT_RUN)
        if (single)
            for (ulong t = item; t < run; t += items)
                chf_step(&rest, chf_value(CHF_INPUTS_AT(t), at + t * inner[1]),
                         index + t * inner[2]);
        else
            chf_fold_run(CHF_INPUT_NAMES, at, at + run, index, inner[2], item, items, &lanes,
                         &rest);
        from += run;
    }
#if CHF_GRID
    if (!single && lanes.grid.count)
        *top = lanes.grid.top;
#endif
#if CHF_JOINS && CHF_CPU /* a GPU has few lanes, if any */
    return single ? chf_end(&rest) : chf_joined(&lanes, &rest);
#else
    return single ? chf_end(&rest) : chf_gathered(&lanes, &rest);
#endif
}

/* geo              the box (kernels/cl/place.clh)
 * outputs, splits  accumulators of `acc`; a split of an output is `span` of its `reduces` positions
 * team             work-items of a team: CHF_LOCAL, or a power of two that divides it
 * offset, index    of the box's first element, in the buffer and in the whole array
 * fresh            1 if these accumulators hold nothing yet
 * tables           CHF_ENTRIES counters per accumulator, if there are any */
__kernel CHF_GROUPS
void fold_rows(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong splits, ulong reduces,
               ulong span, uint team, ulong offset, ulong index, __global uchar *acc,
               ulong acc_n, uint fresh, __global long *tables, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const uint lid = get_local_id(0);
#if CHF_LOCAL == 1
    team = 1; /* a barrier that might be reached has Intel's compiler keep everything in memory */
#endif
    const ulong teams = get_num_groups(0) * (CHF_LOCAL / team);
    const ulong number = get_group_id(0) * (CHF_LOCAL / team) + lid / team;
    const ulong jobs = outputs * splits;
    const ulong rounds = (jobs + teams - 1) / teams;
    int top = CHF_NO_GRID;
#define CHF_FIRST(n) const ulong first##n = o##n;
    CHF_EACH_OTHER(CHF_FIRST)
    /* Every item makes every round: there are barriers in it. */
    for (ulong round = 0; round < rounds; round++) {
#if CHF_STRIP
        const ulong job = number * rounds + round;
#else
        const ulong job = round * teams + number;
#endif
        acc_t a = chf_zero();
        ulong k = 0;
        if (job < jobs) {
            const ulong from = splits == 1 ? 0 : min(job / outputs * span, reduces);
            place_t output = chf_place(geo + 2, geo[0], splits == 1 ? job : job % outputs);
            k = (splits == 1 ? 0 : job / outputs * outputs) + output.output;
            output.at += offset;
            output.index += index;
#define CHF_AT_OUTPUT(n) o##n = first##n + chf_along(geo, n, 0, geo[0], splits == 1 ? job : job % outputs);
            CHF_EACH_OTHER(CHF_AT_OUTPUT)
            a = chf_fold_span(CHF_INPUT_NAMES, geo, output, from, min(from + span, reduces),
                              lid % team, team, tables + k * CHF_ENTRIES, &top);
        }
        a = chf_team_reduce(a, scratch, team);
        if (lid % team == 0 && job < jobs)
            chf_leave_one(acc, acc_n, k, a, fresh);
    }
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
