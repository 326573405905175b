/* Read [0, n) vectors of ulong and do as little with them as can be: the ceiling of any reduction.
 *
 * Each work-item xors what it read into out, which keeps the loads alive.
 */
#ifndef READ_WIDTH
#define READ_WIDTH 2 /* ulongs of a load */
#endif
#ifndef READ_LOCAL
#define READ_LOCAL 64 /* work-items of a work-group */
#endif
#ifndef READ_STRIP
#define READ_STRIP 0 /* 1: each work-item reads a strip; 0: all stride over the grid */
#endif
#define READ_PASTE_(a, b) a##b
#define READ_PASTE(a, b) READ_PASTE_(a, b)
#define READ_LOAD(k) READ_PASTE(vload, READ_WIDTH)(k, in)
#define READ_AHEAD(k)
#ifdef __has_builtin
#if READ_STRIP && __has_builtin(__builtin_prefetch)
#undef READ_AHEAD
#define READ_AHEAD(k) __builtin_prefetch((__global const char *)(in + (k) * READ_WIDTH) + 1024)
#endif
#endif
typedef READ_PASTE(ulong, READ_WIDTH) wide_t;

__kernel __attribute__((reqd_work_group_size(READ_LOCAL, 1, 1)))
void read_all(__global const ulong *restrict in, ulong n, __global ulong *out)
{
    const ulong item = get_global_id(0), items = get_global_size(0);
#if READ_STRIP
    const ulong strip = (n + items - 1) / items;
    ulong k = min(item * strip, n);
    const ulong to = min(k + strip, n), step = 1;
#else
    ulong k = item;
    const ulong to = n, step = items;
    __global const wide_t *restrict wide = (__global const wide_t *)in;
#undef READ_LOAD
#define READ_LOAD(k) wide[k]
#endif
    wide_t a = 0;
    for (; k < to; k += step) {
        READ_AHEAD(k); /* as folds do: kernels/cl/tuning.clh */
        a ^= READ_LOAD(k);
    }
    ulong e[READ_WIDTH];
    READ_PASTE(vstore, READ_WIDTH)(a, 0, e);
    ulong sum = 0;
    for (int j = 0; j < READ_WIDTH; j++)
        sum ^= e[j];
    out[item] = sum;
}
