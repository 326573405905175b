/* Fold boxes whose fastest axis is kept: neighbouring elements belong to neighbouring outputs.
 *
 * `fold` rows side by side make one wide row, whose columns are (split, column) pairs: so narrow
 * boxes fill vectors and devices too. A work-item folds a tile of columns, CHF_TILE times
 * CHF_LANES, over a block of rows. Accumulator (split, output) stands at split * outputs + output
 * of `acc`, with split = block * fold + row % fold. Numeric contract: as fold_flat.
 */
#define CHF_AHEAD_BYTES 0 /* chf_fold_rows knows what comes next */
#include "tuning.clh"
#include "monoid.clh"
#undef CHF_POSITIONS
#undef CHF_PLACES
#define CHF_POSITIONS 0 /* lanes are outputs of their own: in most batches one of them changes */
#define CHF_PLACES 0
#include "loads.clh"
#include "trials.clh"
#include "pre_rounding.clh"
#include "run.clh"
#include "place.clh"
#include "column_rows.clh"

#define CHF_COLUMNS (CHF_TILE * CHF_LANES)
/* Rows that are folded of one vector before the next: as many as may be, where there is no other. */
#if CHF_TILE > 1
#define CHF_ROWS ((ulong)CHF_HEIGHT)
#elif CHF_CARRY_AFTER
#define CHF_ROWS ((ulong)CHF_CARRY_AFTER)
#else
#define CHF_ROWS ULONG_MAX
#endif

/* Accumulator of column j, counted from that of the block's first one in the output's row. */
static ulong chf_at(ulong j, ulong columns, ulong outputs, ulong output_stride)
{
    return j / columns * outputs + j % columns * output_stride;
}

/* geo             the box (kernels/cl/place.clh); its innermost reduced dim is a multiple of `fold`.
 *                 If CHF_LANES > 1, columns are neighbours in memory, also across folded rows
 * outputs, reduces  of the box; the latter counts rows of every reduced dim
 * fold, span      rows side by side; wide rows of a block
 * blocks          of wide rows, over all reduced dims
 * offset, index   of the box's first element, in the buffer and in the whole array
 * fresh           1 if these accumulators hold nothing yet
 * tables          CHF_ENTRIES counters per accumulator, if there are any; vectors then do not cross
 *                 from one of the folded rows to the next */
__kernel CHF_SINGLES
void fold_columns(CHF_INPUTS, __global const ulong *geo, ulong outputs, ulong reduces, ulong fold,
                  ulong span, ulong blocks, ulong offset, ulong index, __global uchar *acc, ulong acc_n,
                  uint fresh, __global long *tables, __global ulong *seen)
{
    __global const ulong *column = geo + 2 + 4 * (geo[0] - 1);
    __global const ulong *reduced = geo + 2 + 4 * geo[0];
    __global const ulong *row = reduced + 4 * (geo[1] - 1);
    const ulong columns = column[0], tall = row[0] / fold;
    const ulong width = fold * columns;
    const ulong tiles = (width + CHF_COLUMNS - 1) / CHF_COLUMNS;
    const ulong outer = outputs / columns;
    const ulong job = get_global_id(0);
    if (job >= blocks * outer * tiles)
        return;
    const ulong block = job / (outer * tiles);
    const ulong tile = job % tiles;
    place_t output = chf_place(geo + 2, geo[0] - 1, job / tiles % outer);
    const ulong first = tile * CHF_COLUMNS;
    const ulong split = first / columns, at_column = first % columns;
    output.at += offset + split * row[1] + at_column * column[1];
    output.index += index + split * row[2] + at_column * column[2];
    /* Of each input behind the first: where the tile is, and how much a row's place is off what the
     * first's would make it. */
#define CHF_AT_TILE(n) \
    const ulong row##n = chf_stride(geo, n, geo[0] + geo[1] - 1); \
    s##n = chf_stride(geo, n, geo[0] - 1); \
    const ulong tile##n = o##n + chf_along(geo, n, 0, geo[0] - 1, job / tiles % outer) \
                          + split * row##n + at_column * s##n; \
    const ulong off##n = fold * (row##n - row[1] * s##n);
    CHF_EACH_OTHER(CHF_AT_TILE)

#if CHF_COLUMNS == 1
    const uint vectors = 1, rest = 0;
#else
    const uint here = min(width - first, (ulong)CHF_COLUMNS);
    const uint vectors = here / CHF_LANES, rest = here % CHF_LANES;
#endif
    states_t lanes[CHF_TILE];
    state_t single[CHF_LANES];
    /* Of a narrow box's tile, the few that it has. */
    for (uint n = 0; n < (CHF_TILE > 1 ? vectors : 1); n++)
        chf_begins(&lanes[n]);
    for (uint e = 0; e < CHF_LANES; e++)
        chf_begin(&single[e]);

    const ulong base = block * fold * outputs + output.output;
    /* Lanes are neighbouring accumulators: one by one to add them up takes as long as folding eight
     * rows. */
    const int leaves = CHF_LEAVES && fold == 1 && column[3] == 1 && (fresh || CHF_RESUMES);
#if CHF_RESUMES
    if (leaves && !fresh)
        for (uint n = 0; n < vectors; n++)
            chf_resume(&lanes[n], acc, acc_n, base + first + n * CHF_LANES);
#endif
#if CHF_ENTRIES
    for (uint n = 0; n < vectors; n++) {
        const ulong k = base + chf_at(first + n * CHF_LANES, columns, outputs, column[3]);
        chf_attach_lanes(&lanes[n], tables + k * CHF_ENTRIES, column[3] * CHF_ENTRIES);
    }
    for (uint e = 0; e < rest; e++) {
        const ulong j = first + vectors * CHF_LANES + e;
        const ulong k = base + chf_at(j, columns, outputs, column[3]);
        chf_attach(&single[e], tables + k * CHF_ENTRIES);
    }
#endif

    const ulong stride = fold * row[1], di_row = fold * row[2];
    const ulong stop = min((block + 1) * span, reduces / fold);
    /* Where a row ends a CPU has begun to read on. Rows that follow each other are folded together with
     * others far apart, so that this is what is folded next: side by side it would have been folded before. */
    const int follow = CHF_TILE > 1 && tiles == 1 && stride == width;
    ulong from = min(block * span, stop);
    while (from < stop) {
        const ulong t = geo[1] == 1 ? from : from % tall;
        const ulong run = min(tall - t, stop - from);
        place_t start = chf_place(reduced, geo[1] - 1, geo[1] == 1 ? 0 : from / tall);
        start.at += output.at + t * stride;
        start.index += output.index + t * di_row;
#define CHF_AT_ROWS(n) \
    const ulong rows##n = tile##n + chf_along(geo, n, geo[0], geo[1] - 1, geo[1] == 1 ? 0 : from / tall) \
                          + t * fold * row##n - start.at * s##n;
        CHF_EACH_OTHER(CHF_AT_ROWS)
        const ulong groups = run / CHF_ROWS, few = run % CHF_ROWS; /* of rows folded together */
        for (ulong g = 0; g < groups + (few > 0); g++) {
            const int many = g < groups, apart = many & follow;
            const ulong r = !many ? run - few : apart ? g : g * CHF_ROWS;
            const ulong by = apart ? groups : 1;
#define CHF_AT_ROW(n) o##n = rows##n + r * off##n; d##n = by * off##n;
            CHF_EACH_OTHER(CHF_AT_ROW)
            chf_fold_rows(CHF_INPUT_NAMES, many ? CHF_ROWS : few, start.at + r * stride, by * stride,
                          (apart ? 1 : CHF_ROWS) * stride, start.index + r * di_row, by * di_row,
                          column[2], vectors, rest, lanes, single);
        }
        from += run;
    }

#if CHF_LEAVES
    if (leaves)
        for (uint n = 0; n < vectors; n++)
            chf_leave(&lanes[n], acc, acc_n, base + first + n * CHF_LANES, fresh);
#endif
    for (uint n = leaves ? vectors : 0; n < vectors + (rest > 0); n++) {
        acc_t out[CHF_LANES];
        if (n < vectors)
            chf_ends(&lanes[n], out);
        else
            for (uint e = 0; e < rest; e++)
                out[e] = chf_end(&single[e]);
        const uint count = n < vectors ? CHF_LANES : rest;
        for (uint e = 0; e < count; e++) {
            const ulong k = base + chf_at(first + n * CHF_LANES + e, columns, outputs, column[3]);
            chf_leave_one(acc, acc_n, k, out[e], fresh);
        }
    }
    if (job == 0)
        seen[0] += outputs * reduces;
}
