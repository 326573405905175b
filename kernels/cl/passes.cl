/* The passes over accumulators: each folds `splits` of them per output into fewer.
 *
 * Accumulator (split, output) stands at split * outputs + output of a partial; the input is one of
 * source_n accumulators. It is not overwritten. An empty span leaves the zero element, one of a
 * single accumulator leaves that, where outputs are many: to add it to the zero takes time.
 * `seen` counts accumulators, and is copied behind what a pass writes, so that one read brings both.
 *
 * Folds leave expansions as they come; passes give them the one form that their value has.
 */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"

/* Every k below `count`, shared by all work-items: a CPU's take a strip each. */
#if CHF_STRIP
static ulong chf_own_strip(ulong number, ulong count)
{
    return min((count + get_global_size(0) - 1) / get_global_size(0) * number, count);
}
static ulong chf_own_first(ulong count) { return chf_own_strip(get_global_id(0), count); }
static ulong chf_own_end(ulong count) { return chf_own_strip(get_global_id(0) + 1, count); }
#define CHF_EACH(k, count) \
    for (ulong k = chf_own_first(count), end = chf_own_end(count); k < end; k++)
#else
#define CHF_EACH(k, count) for (ulong k = get_global_id(0); k < count; k += get_global_size(0))
#endif

#if CHF_SETTLES
/* Give those of `count` accumulators that are this work-item's the one form that their value has. */
static void chf_settle_each(__global uchar *acc, ulong count)
{
#if CHF_STRIP
    const ulong first = chf_own_first(count), end = chf_own_end(count);
    const ulong whole = first + (end - first) / 8 * 8;
    for (ulong k = first; k < whole; k += 8)
        chf_put_eight(acc, count, k);
    for (ulong k = whole; k < end; k++)
        chf_put(acc, count, k, chf_get(acc, count, k));
#else
    CHF_EACH(k, count)
        chf_put(acc, count, k, chf_get(acc, count, k));
#endif
}
#endif

/* `count` accumulators from `begin` on become the zero element. */
__kernel CHF_SINGLES
void fill_zero(__global uchar *acc, ulong acc_n, ulong begin, ulong count)
{
    CHF_EACH(k, count)
        chf_put(acc, acc_n, begin + k, chf_zero());
}

#if CHF_ENTRIES
/* Propagate the carries of `count` accumulators' limbs, before another addition could overflow one. */
__kernel CHF_SINGLES
void settle(__global long *tables, ulong count)
{
    CHF_EACH(k, count)
        chf_settle(tables + k * CHF_ENTRIES);
}
#endif

/* Count `count` accumulators; both counters go behind `out_n` accumulators of `out`. */
static void chf_seen(__global ulong *seen, ulong count, __global uchar *out, ulong out_n)
{
    seen[1] += count;
    __global ulong *behind = (__global ulong *)(out + (CHF_SLOT_BYTES * out_n + 7) / 8 * 8);
    behind[0] = seen[0];
    behind[1] = seen[1];
}

/* A work-group per output and span of `span` splits. */
__kernel CHF_GROUPS
void pass_rows(__global const uchar *source, ulong source_n, ulong splits, ulong outputs, ulong span,
               __global uchar *out, ulong out_splits, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const ulong k = get_group_id(0);
    const ulong output = k % outputs;
    const ulong from = min(k / outputs * span, splits), to = min(from + span, splits);
    acc_t a = chf_zero();
    for (ulong split = from + get_local_id(0); split < to; split += CHF_LOCAL)
        a = chf_op(a, chf_get(source, source_n, split * outputs + output));
    a = chf_group_reduce(a, scratch);
    if (get_local_id(0) == 0)
        chf_put(out, out_splits * outputs, k, a);
    if (get_global_id(0) == 0)
        chf_seen(seen, splits * outputs, out, out_splits * outputs);
}

/* A work-item takes some outputs and spans. */
__kernel CHF_SINGLES
void pass_columns(__global const uchar *source, ulong source_n, ulong splits, ulong outputs, ulong span,
                  __global uchar *out, ulong out_splits, __global ulong *seen)
{
    const ulong count = out_splits * outputs;
    CHF_EACH(k, count) {
        const ulong output = k % outputs;
        const ulong from = min(k / outputs * span, splits), to = min(from + span, splits);
        acc_t a = from < to ? chf_get(source, source_n, from * outputs + output) : chf_zero();
        for (ulong split = from + 1; split < to; split++)
            a = chf_op(a, chf_get(source, source_n, split * outputs + output));
#if CHF_STRIP
        chf_store(out, count, k, a); /* to be settled with others */
#else
        chf_put(out, count, k, a);
#endif
    }
#if CHF_STRIP && CHF_SETTLES
    chf_settle_each(out, count);
#endif
    if (get_global_id(0) == 0)
        chf_seen(seen, splits * outputs, out, count);
}

/* The pass of accumulators that are one per output already: in place. */
__kernel CHF_SINGLES
void pass_settle(__global uchar *acc, ulong outputs, __global ulong *seen)
{
#if CHF_SETTLES
    chf_settle_each(acc, outputs);
#endif
    if (get_global_id(0) == 0)
        chf_seen(seen, outputs, acc, outputs);
}
