/* Choose elements by their ranks, for each output and group of rows: by halving the interval of keys
 * that holds the one wanted, of which there are as many steps as the interval has bits.
 *
 * keys      a row of `outputs` keys for each element of an output; keys sort like elements, and the
 *           greatest stands for those that are ignored
 * rows      the rows of all groups, group by group; group g has starts[g] to starts[g + 1]
 * ranks     for each of `quantiles`, group and output the rank that is wanted, from 0
 * chosen    for each of these the key of that rank, and the one behind it (its own, if it is the last)
 * scratch   MOST_ROWS vectors for each work-group
 *
 * CHF_KEY and CHF_COUNT are a key's type and the signed one of its size. CHF_LANES outputs are
 * neighbours in a vector; on a CPU a work-group of one work-item copies their rows next to each other
 * first (CHF_COPIES), which caches hold.
 */
#ifndef CHF_KEY
#define CHF_KEY int
#define CHF_COUNT int
#endif
#ifndef CHF_LANES
#define CHF_LANES 1
#endif
#ifndef CHF_COPIES
#define CHF_COPIES 0
#endif
#define CHF_PASTE_(a, b) a##b
#define CHF_PASTE(a, b) CHF_PASTE_(a, b)
#if CHF_LANES == 1
typedef CHF_KEY key_t;
typedef CHF_COUNT count_t;
#define CHF_READ(k, p) ((p)[k])
#define CHF_WRITE(v, k, p) ((p)[k] = (v))
#define CHF_HELD(c) (c)
#define CHF_SOME(c) (c)
#else
typedef CHF_PASTE(CHF_KEY, CHF_LANES) key_t;
typedef CHF_PASTE(CHF_COUNT, CHF_LANES) count_t;
#define CHF_READ(k, p) CHF_PASTE(vload, CHF_LANES)(0, (p) + (k))
#define CHF_WRITE(v, k, p) CHF_PASTE(vstore, CHF_LANES)(v, 0, (p) + (k))
#define CHF_HELD(c) (-(c)) /* comparisons of vectors give -1 */
#define CHF_SOME(c) any(c)
#endif
#if CHF_COPIES
#define CHF_ROW(r) CHF_READ((ulong)(r) * CHF_LANES, own)
#else
#define CHF_ROW(r) CHF_READ((ulong)rows[from + (r)] * outputs + first, keys)
#endif

__kernel void choose(__global const CHF_KEY *restrict keys, __global const uint *restrict rows,
                     __global const uint *restrict starts, ulong outputs, uint groups,
                     __global const CHF_COUNT *restrict ranks, uint quantiles,
                     __global CHF_KEY *restrict chosen, __global CHF_KEY *restrict scratch,
                     ulong most_rows)
{
    const ulong blocks = (outputs + CHF_LANES - 1) / CHF_LANES;
    for (ulong job = get_global_id(0); job < blocks * groups; job += get_global_size(0)) {
        const uint group = job / blocks;
        /* The last vector goes over what the one before has done, rather than beyond the end. */
        const ulong first = min(job % blocks * CHF_LANES, outputs - CHF_LANES);
        const uint from = starts[group], count = starts[group + 1] - from;
        if (!count)
            continue;
        key_t least = CHF_READ((ulong)rows[from] * outputs + first, keys), most = least;
#if CHF_COPIES
        __global CHF_KEY *own = scratch + get_global_id(0) * most_rows * CHF_LANES;
#endif
        for (uint r = 0; r < count; r++) {
            const key_t key = CHF_READ((ulong)rows[from + r] * outputs + first, keys);
#if CHF_COPIES
            CHF_WRITE(key, (ulong)r * CHF_LANES, own);
#endif
            least = min(least, key);
            most = max(most, key);
        }
        for (uint q = 0; q < quantiles; q++) {
            const ulong at = ((ulong)q * groups + group) * outputs + first;
            const count_t rank = CHF_READ(at, ranks);
            key_t low = least, high = most;
            while (CHF_SOME(low < high)) {
                const key_t middle = (low & high) + ((low ^ high) >> 1); /* rounded down, no overflow */
                count_t reached = 0;
                for (uint r = 0; r < count; r++)
                    reached += CHF_HELD(CHF_ROW(r) <= middle);
                /* Where both ends are one already, nothing changes. */
                const count_t below = reached > rank;
                low = below ? low : middle + 1;
                high = below ? middle : high;
            }
            count_t reached = 0;
            key_t next = most;
            for (uint r = 0; r < count; r++) {
                const key_t key = CHF_ROW(r);
                const count_t passed = key <= low;
                reached += CHF_HELD(passed);
                next = passed ? next : min(next, key);
            }
            next = reached > rank + 1 ? low : next;
            CHF_WRITE(low, 2 * (ulong)q * groups * outputs + (ulong)group * outputs + first, chosen);
            CHF_WRITE(next, (2 * (ulong)q + 1) * groups * outputs + (ulong)group * outputs + first, chosen);
        }
    }
}
