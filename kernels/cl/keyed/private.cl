/* Fold elements by key, each work-item a stream of its own: any reduction, without atomics.
 *
 * A work-item folds the elements of one output, or a span of them, in order. It keeps the state of the
 * key at hand, and goes on with another where the key changes. Accumulator (split, key, output) stands
 * at (split * keys + key) * outputs + output of `acc`: neighbours write neighbouring accumulators.
 * Elements whose key is not in [0, keys) are left out.
 */
#define CHF_AHEAD_BYTES 0
#include "tuning.clh"
#include "monoid.clh"
#include "place.clh"

/* Begin with the first element of a key. */
static void chf_begin_key(state_t *s, __global long *tables, ulong k)
{
    chf_begin(s);
#if CHF_ENTRIES
    chf_attach(s, tables + k * CHF_ENTRIES);
#endif
}

/* geo, key_geo    where elements are, and their keys (kernels/cl/place.clh)
 * outputs, reduces  of the box
 * keys            how many there are
 * span, splits    elements of an output that a work-item folds; work-items of an output
 * offset, index   of the box's first element, in the buffer and in the whole array */
__kernel CHF_SINGLES
void fold_private(CHF_INPUTS, __global const int *restrict key, __global const ulong *geo,
                  __global const ulong *key_geo, ulong outputs, ulong reduces, ulong keys, ulong span,
                  ulong splits, ulong offset, ulong index, __global uchar *acc, ulong acc_n,
                  __global long *tables, __global ulong *seen)
{
    __global const ulong *reduced = geo + 2 + 4 * geo[0], *key_reduced = key_geo + 2 + 4 * geo[0];
    const ulong outer = geo[1] - 1, run = reduced[4 * outer];
    const ulong stride = reduced[4 * outer + 1], di = reduced[4 * outer + 2];
    const ulong key_stride = key_reduced[4 * outer + 1];
#define CHF_FIRST(n) \
    const ulong first##n = o##n; \
    s##n = 0; \
    d##n = chf_stride(geo, n, geo[0] + outer);
    CHF_EACH_OTHER(CHF_FIRST)
    for (ulong job = get_global_id(0); job < splits * outputs; job += get_global_size(0)) {
        const place_t output = chf_place(geo + 2, geo[0], job % outputs);
        const ulong key_at = chf_place(key_geo + 2, geo[0], job % outputs).at;
        const ulong base = job / outputs * keys * outputs + output.output;
        const ulong from = min(job / outputs * span, reduces), to = min(from + span, reduces);
        long now = -1;
        state_t s;
        for (ulong r = from; r < to;) {
            const ulong t = r % run, some = min(run - t, to - r);
            const place_t row = chf_place(reduced, outer, r / run);
            const ulong row_keys = key_at + chf_place(key_reduced, outer, r / run).at;
#define CHF_AT_ROW(n) \
    o##n = first##n + chf_along(geo, n, 0, geo[0], job % outputs) + chf_along(geo, n, geo[0], outer, r / run);
            CHF_EACH_OTHER(CHF_AT_ROW)
            for (ulong u = t; u < t + some; u++) {
                const long one = key[row_keys + u * key_stride];
                if (one < 0 || one >= (long)keys)
                    continue;
                if (one != now) {
                    if (now >= 0)
                        chf_leave_one(acc, acc_n, base + now * outputs, chf_end(&s), 0);
                    now = one;
                    chf_begin_key(&s, tables, base + now * outputs);
                }
                chf_step(&s, chf_value(CHF_INPUTS_AT(u), offset + output.at + row.at + u * stride),
                         index + output.index + row.index + u * di);
            }
            r += some;
        }
        if (now >= 0)
            chf_leave_one(acc, acc_n, base + now * outputs, chf_end(&s), 0);
    }
    if (get_global_id(0) == 0)
        seen[0] += outputs * reduces;
}
