/* Fold by key boxes whose fastest axis is kept, where neighbours have the same key: labels along time,
 * say, and a map of outputs.
 *
 * A work-item folds a tile of neighbouring outputs, CHF_TILE vectors, or a span of their rows. It takes
 * rows as they are, or in an order that brings those of a key together. Rows of one key that follow each
 * other there, all as far apart, are folded together, as without keys. Where the key changes it leaves
 * the accumulators, and goes on with those of the next key: it adds to what they hold, unless the key is
 * fresh. Of a fresh key nothing was folded before, and all its rows follow each other: what memory held
 * before is neither cleared nor read.
 * Accumulators stand as in kernels/cl/keyed/private.cl. Rows whose key is not in [0, keys) are left out.
 */
#define CHF_AHEAD_BYTES 0
#include "tuning.clh"
#include "monoid.clh"
#undef CHF_POSITIONS
#undef CHF_PLACES
#define CHF_POSITIONS 0 /* lanes are outputs of their own, as in kernels/cl/columns.cl */
#define CHF_PLACES 0
#include "loads.clh"
#include "trials.clh"
#include "pre_rounding.clh"
#include "run.clh"
#include "place.clh"
#include "column_rows.clh"

#define CHF_COLUMNS (CHF_TILE * CHF_LANES)

/* Most rows of a key that are folded together: as many as carries have room for. */
#if CHF_CARRY_AFTER
#define CHF_KEYED_ROWS ((ulong)CHF_CARRY_AFTER)
#else
#define CHF_KEYED_ROWS ULONG_MAX
#endif

typedef struct { states_t vectors[CHF_TILE]; state_t singles[CHF_LANES]; } tile_t;

/* Begin with the first row of a key, whose accumulators are `at` and behind. */
static void chf_begin_tile(tile_t *s, uint vectors, uint rest, __global uchar *acc, ulong acc_n,
                           __global long *tables, ulong at, uint fresh)
{
    for (uint n = 0; n < vectors; n++) {
        chf_begins(&s->vectors[n]);
#if CHF_RESUMES
        if (!fresh)
            chf_resume(&s->vectors[n], acc, acc_n, at + n * CHF_LANES);
#endif
#if CHF_ENTRIES
        chf_attach_lanes(&s->vectors[n], tables + (at + n * CHF_LANES) * CHF_ENTRIES, CHF_ENTRIES);
#endif
    }
    for (uint e = 0; e < rest; e++) {
        chf_begin(&s->singles[e]);
#if CHF_ENTRIES
        chf_attach(&s->singles[e], tables + (at + vectors * CHF_LANES + e) * CHF_ENTRIES);
#endif
    }
}

/* Add what was folded of a key to its accumulators, or store it. */
static void chf_leave_tile(tile_t *s, uint vectors, uint rest, __global uchar *acc, ulong acc_n, ulong at,
                           uint fresh)
{
    for (uint n = 0; n < vectors; n++) {
#if CHF_CARRY_AFTER
        chf_carries(&s->vectors[n]);
#endif
#if CHF_RESUMES
        chf_leave(&s->vectors[n], acc, acc_n, at + n * CHF_LANES, fresh);
#else
        acc_t out[CHF_LANES];
        chf_ends(&s->vectors[n], out);
        for (uint j = 0; j < CHF_LANES; j++)
            chf_leave_one(acc, acc_n, at + n * CHF_LANES + j, out[j], fresh);
#endif
    }
    for (uint e = 0; e < rest; e++)
        chf_leave_one(acc, acc_n, at + vectors * CHF_LANES + e, chf_end(&s->singles[e]), fresh);
}

/* The row that is taken after n others. */
#define CHF_ROW(n) (ordered ? (ulong)order[n] : (n))

/* As fold_private (kernels/cl/keyed/private.cl). `fresh` says of each key whether it is; `order` holds
 * the rows as they are taken, if they are `ordered`. */
__kernel CHF_SINGLES
void fold_private_columns(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                          __global const ulong *key_geo, ulong outputs, ulong reduces, ulong keys,
                          ulong span, ulong splits, ulong offset, ulong index, __global uchar *acc,
                          ulong acc_n, __global const uchar *fresh, __global const uint *order,
                          uint ordered, __global long *tables, __global ulong *seen)
{
    __global const ulong *column = geo + 2 + 4 * (geo[0] - 1);
    __global const ulong *reduced = geo + 2 + 4 * geo[0], *key_reduced = key_geo + 2 + 4 * geo[0];
    __global const ulong *row = reduced + 4 * (geo[1] - 1);
    const ulong tall = row[0], key_row = key_reduced[4 * (geo[1] - 1) + 1];
    const ulong width = column[0], outer = outputs / width, di = column[2];
    const ulong tiles = (width + CHF_COLUMNS - 1) / CHF_COLUMNS;
#define CHF_FIRST(n) \
    const ulong first##n = o##n; \
    s##n = chf_stride(geo, n, geo[0] - 1);
    CHF_EACH_OTHER(CHF_FIRST)
    for (ulong job = get_global_id(0); job < splits * outer * tiles; job += get_global_size(0)) {
        const ulong tile = job % tiles, row_of = job / tiles % outer, split = job / (tiles * outer);
        const place_t output = chf_place(geo + 2, geo[0] - 1, row_of);
        const ulong key_at = chf_place(key_geo + 2, geo[0] - 1, row_of).at;
        const ulong first = tile * CHF_COLUMNS;
        const uint some = min(width - first, (ulong)CHF_COLUMNS);
        const uint vectors = some / CHF_LANES, rest = some % CHF_LANES;
        const ulong base = split * keys * outputs + output.output + first;
        const ulong from = min(split * span, reduces), to = min(from + span, reduces);
        long now = -1;
        tile_t s;
        for (ulong n = from, run; n < to; n += run) {
            const ulong r = CHF_ROW(n), t = r % tall, most = min(to - n, CHF_KEYED_ROWS);
            const ulong row_keys = key_at + chf_place(key_reduced, geo[1] - 1, r / tall).at;
            const long one = key[row_keys + t * key_row];
            const ulong apart = most > 1 ? CHF_ROW(n + 1) - r : 1;
            for (run = 1; run < most; run++) {
                const ulong after = run * apart; /* of an earlier row it wraps around */
                if (CHF_ROW(n + run) != r + after || t + after >= tall
                    || key[row_keys + (t + after) * key_row] != one)
                    break;
            }
            if (one < 0 || one >= (long)keys)
                continue;
            if (one != now) {
                if (now >= 0)
                    chf_leave_tile(&s, vectors, rest, acc, acc_n, base + now * outputs, fresh[now]);
                now = one;
                chf_begin_tile(&s, vectors, rest, acc, acc_n, tables, base + now * outputs, fresh[now]);
            }
            const place_t start = chf_place(reduced, geo[1], r);
            const ulong at = offset + output.at + start.at + first, step = apart * row[1];
            const ulong next = n + run < to ? CHF_ROW(n + run) : r + run;
#define CHF_AT_ROW(n) \
    o##n = first##n + chf_along(geo, n, 0, geo[0] - 1, row_of) + chf_along(geo, n, geo[0], geo[1], r) \
           + (first - at) * s##n; \
    d##n = apart * chf_stride(geo, n, geo[0] + geo[1] - 1) - step * s##n;
            CHF_EACH_OTHER(CHF_AT_ROW)
            chf_fold_rows(CHF_INPUT_NAMES, run, at, step, (next - r) * row[1],
                          index + output.index + start.index + first * di, apart * row[2], di, vectors,
                          rest, s.vectors, s.singles);
        }
        if (now >= 0)
            chf_leave_tile(&s, vectors, rest, acc, acc_n, base + now * outputs, fresh[now]);
    }
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
