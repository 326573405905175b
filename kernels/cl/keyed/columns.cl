/* Fold by key boxes whose fastest axis is kept, where neighbours have the same key: labels along time,
 * say, and a map of outputs.
 *
 * A work-item folds a tile of neighbouring outputs, CHF_KEYED_TILE vectors, or a span of their rows, in
 * order. It keeps the states of the key at hand, and goes on with others where the key changes.
 * Accumulators stand as in kernels/cl/keyed/private.cl. Rows whose key is not in [0, keys) are left out.
 */
#define CHF_AHEAD_BYTES 0
#include "tuning.clh"
#include "monoid.clh"
#include "place.clh"

#define CHF_KEYED_CPU_TILE 4
#if CHF_CPU
#define CHF_KEYED_TILE CHF_KEYED_CPU_TILE
#else
#define CHF_KEYED_TILE 1
#endif
#define CHF_KEYED_COLUMNS (CHF_KEYED_TILE * CHF_LANES)

typedef struct { states_t vectors[CHF_KEYED_TILE]; state_t singles[CHF_LANES]; } tile_t;

/* Begin with the first row of a key, whose accumulators are `at` and behind. */
static void chf_begin_tile(tile_t *s, uint vectors, uint rest, __global uchar *acc, ulong acc_n,
                           __global long *tables, ulong at)
{
    for (uint n = 0; n < vectors; n++) {
        chf_begins(&s->vectors[n]);
#if CHF_RESUMES
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

/* Add what was folded of a key to its accumulators. */
static void chf_leave_tile(tile_t *s, uint vectors, uint rest, __global uchar *acc, ulong acc_n, ulong at)
{
    for (uint n = 0; n < vectors; n++) {
        chf_carries(&s->vectors[n]);
#if CHF_RESUMES
        chf_leave(&s->vectors[n], acc, acc_n, at + n * CHF_LANES, 0);
#else
        acc_t out[CHF_LANES];
        chf_ends(&s->vectors[n], out);
        for (uint j = 0; j < CHF_LANES; j++)
            chf_leave_one(acc, acc_n, at + n * CHF_LANES + j, out[j], 0);
#endif
    }
    for (uint e = 0; e < rest; e++)
        chf_leave_one(acc, acc_n, at + vectors * CHF_LANES + e, chf_end(&s->singles[e]), 0);
}

/* As fold_private (kernels/cl/keyed/private.cl). */
__kernel CHF_SINGLES
void fold_private_columns(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                          __global const ulong *key_geo, ulong outputs, ulong reduces, ulong keys,
                          ulong span, ulong splits, ulong offset, ulong index, __global uchar *acc,
                          ulong acc_n, __global long *tables, __global ulong *seen)
{
    __global const ulong *column = geo + 2 + 4 * (geo[0] - 1);
    __global const ulong *reduced = geo + 2 + 4 * geo[0], *key_reduced = key_geo + 2 + 4 * geo[0];
    const ulong width = column[0], outer = outputs / width, di = column[2];
    const ulong tiles = (width + CHF_KEYED_COLUMNS - 1) / CHF_KEYED_COLUMNS;
    for (ulong job = get_global_id(0); job < splits * outer * tiles; job += get_global_size(0)) {
        const ulong tile = job % tiles, row_of = job / tiles % outer, split = job / (tiles * outer);
        const place_t output = chf_place(geo + 2, geo[0] - 1, row_of);
        const ulong key_at = chf_place(key_geo + 2, geo[0] - 1, row_of).at;
        const ulong first = tile * CHF_KEYED_COLUMNS;
        const uint some = min(width - first, (ulong)CHF_KEYED_COLUMNS);
        const uint vectors = some / CHF_LANES, rest = some % CHF_LANES;
        const ulong base = split * keys * outputs + output.output + first;
        const ulong from = min(split * span, reduces), to = min(from + span, reduces);
        long now = -1;
        uint taken = 0;
        tile_t s;
        for (ulong r = from; r < to; r++) {
            const long one = key[key_at + chf_place(key_reduced, geo[1], r).at];
            if (one < 0 || one >= (long)keys)
                continue;
            if (one != now) {
                if (now >= 0)
                    chf_leave_tile(&s, vectors, rest, acc, acc_n, base + now * outputs);
                now = one;
                taken = 0;
                chf_begin_tile(&s, vectors, rest, acc, acc_n, tables, base + now * outputs);
            }
            const place_t row = chf_place(reduced, geo[1], r);
            const ulong at = offset + output.at + row.at + first;
            const ulong i = index + output.index + row.index + first * di;
            for (uint n = 0; n < vectors; n++) {
                values_t v;
                chf_load(CHF_INPUT_NAMES, at + n * CHF_LANES, &v);
#if CHF_FIRSTS
                if (!s.vectors[n].begun)
                    chf_firsts(&s.vectors[n], &v, i + n * CHF_LANES * di, di);
#endif
                chf_steps(&s.vectors[n], &v, i + n * CHF_LANES * di, di);
            }
            for (uint e = vectors * CHF_LANES; e < some; e++)
                chf_step(&s.singles[e - vectors * CHF_LANES], chf_value(CHF_INPUT_NAMES, at + e),
                         i + e * di);
#if CHF_CARRY_AFTER
            if (++taken == CHF_CARRY_AFTER) {
                for (uint n = 0; n < vectors; n++)
                    chf_carries(&s.vectors[n]);
                taken = 0;
            }
#endif
        }
        if (now >= 0)
            chf_leave_tile(&s, vectors, rest, acc, acc_n, base + now * outputs);
    }
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
