/* One level of a pyramid: windows of elements, or of what the level before holds, become one each.
 *
 * Levels are launched one behind another: the first reads elements and leaves states, sums or extremes,
 * of which the next makes its own; each leaves its results, too. Windows are boxes of the last three
 * axes, of CHF_DEPTH x CHF_HEIGHT x CHF_WIDTH; at the ends of axes they hold fewer. A work-group takes a
 * row of results, a vector of CHF_LANES at a time on CPUs, one for each work-item on GPUs.
 *
 * Numeric contract: results are those of exact arithmetic, rounded once, or `told` says that they are not.
 * Sums of integers fit their type. Sums of float32 are doubles, and each addition's error is looked at
 * (Knuth, The Art of Computer Programming 2, 4.2.2); means are rounded towards zero to a double, odd
 * unless exact, and then to nearest (Boldo and Melquiond, "Emulation of a FMA and correctly rounded
 * sums", 2008). Floats that devices may take for zero, or order in several ways, are told as well.
 */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#ifndef CHF_ELEMENT
#define CHF_ELEMENT float /* of the image, and of results */
#define CHF_STATE double
#define CHF_FLOATS 1
#define CHF_NOTHING 0 /* what changes no state */
#endif
#ifndef CHF_OP
#define CHF_OP 0 /* 0: means, 1: minima, 2: maxima */
#endif
#ifndef CHF_FIRST
#define CHF_FIRST 1 /* whether elements are read */
#endif
#ifndef CHF_LANES
#define CHF_LANES 8
#define CHF_TWICE 16
#define CHF_ITEMS 1
#endif
#ifndef CHF_WIDTH
#define CHF_DEPTH 1
#define CHF_HEIGHT 2
#define CHF_WIDTH 2
#endif
#define CHF_PASTE_(a, b) a##b
#define CHF_PASTE(a, b) CHF_PASTE_(a, b)
#if CHF_FIRST
#define CHF_FROM CHF_ELEMENT
#else
#define CHF_FROM CHF_STATE
#endif
#if CHF_LANES == 1
#define CHF_VEC(type) type
#define CHF_LOAD(p) (*(p))
#define CHF_STORE(v, p) (*(p) = (v))
#define CHF_HELD(truth) (-(long)(truth))
#define CHF_TO(type, v) CHF_PASTE(convert_, type)(v)
#define CHF_AS(type, v) CHF_PASTE(as_, type)(v)
#define CHF_ROUNDED(v) convert_float_rte(v)
#else
#define CHF_VEC(type) CHF_PASTE(type, CHF_LANES)
#define CHF_LOAD(p) CHF_PASTE(vload, CHF_LANES)(0, p)
#define CHF_STORE(v, p) CHF_PASTE(vstore, CHF_LANES)(v, 0, p)
#define CHF_HELD(truth) (truth) /* comparisons of vectors give -1 */
#define CHF_TO(type, v) CHF_PASTE(CHF_PASTE(convert_, type), CHF_LANES)(v)
#define CHF_AS(type, v) CHF_PASTE(CHF_PASTE(as_, type), CHF_LANES)(v)
#define CHF_ROUNDED(v) CHF_PASTE(CHF_PASTE(convert_float, CHF_LANES), _rte)(v)
#endif
typedef CHF_VEC(CHF_FROM) chf_from;
typedef CHF_VEC(CHF_STATE) chf_state;
typedef CHF_VEC(CHF_ELEMENT) chf_element;
typedef CHF_VEC(double) chf_doubles;
typedef CHF_VEC(long) chf_flags;

static chf_state chf_taken(chf_state s, chf_from v, chf_flags *told)
{
#if CHF_FLOATS && CHF_FIRST
    const CHF_VEC(uint) bits = CHF_AS(uint, v), size = bits << 1;
    *told |= CHF_TO(long, CHF_HELD(size - 1 < 0xffffff)); /* subnormal */
#if CHF_OP
    *told |= CHF_TO(long, CHF_HELD(size > 0xff000000)) | CHF_TO(long, CHF_HELD(bits == 0x80000000));
#endif
#endif
    const chf_state added = CHF_TO(CHF_STATE, v);
#if CHF_OP == 1
    return min(s, added);
#elif CHF_OP == 2
    return max(s, added);
#else
    const chf_state total = s + added;
#if CHF_FLOATS
    const chf_state part = total - s, error = (s - (total - part)) + (added - part);
    *told |= CHF_AS(long, error) << 1; /* all but the sign; of NaN and infinities it is NaN */
#endif
    return total;
#endif
}

/* Results of states of n elements each. */
static chf_element chf_results(chf_state s, chf_doubles n, chf_flags *told)
{
#if CHF_OP
    return s;
#elif CHF_FLOATS
    const chf_doubles quotient = s / n, rest = fma(-quotient, n, s);
    const chf_flags inexact = CHF_HELD(rest != 0);
    const chf_flags beyond = inexact & ~(CHF_HELD(rest < 0) ^ CHF_HELD(quotient > 0));
    const chf_flags odd = (CHF_AS(long, quotient) + beyond) | (inexact & 1);
    *told |= CHF_HELD(fabs(quotient) < 0x1p-126) & CHF_HELD(quotient != 0);
    return CHF_ROUNDED(CHF_AS(double, odd));
#else
    return CHF_TO(CHF_ELEMENT, rint(CHF_TO(double, s) / n));
#endif
}

/* Column k of each of the windows that begin at p, of which `left` items are there. */
static chf_from chf_columns(__global const CHF_FROM *p, ulong left, int k)
{
    CHF_FROM each[CHF_LANES];
    for (int j = 0; j < CHF_LANES; j++) {
        const ulong at = (ulong)j * CHF_WIDTH + k;
        each[j] = at < left ? p[at] : (CHF_FROM)(CHF_NOTHING);
    }
    return CHF_LOAD(each);
}

static chf_state chf_row_taken(chf_state s, __global const CHF_FROM *p, ulong left, chf_flags *told)
{
#if CHF_WIDTH == 2 && CHF_LANES > 1
    if (left >= CHF_TWICE) {
        const CHF_PASTE(CHF_FROM, CHF_TWICE) both = CHF_PASTE(vload, CHF_TWICE)(0, p);
        return chf_taken(chf_taken(s, both.even, told), both.odd, told);
    }
#elif CHF_WIDTH == 1
    if (left >= CHF_LANES)
        return chf_taken(s, CHF_LOAD(p), told);
#endif
    for (int k = 0; k < CHF_WIDTH; k++)
        s = chf_taken(s, chf_columns(p, left, k), told);
    return s;
}

/* How many of `extent` elements, cut in windows of `window`, the n-th window has. */
static ulong chf_along(ulong n, ulong window, ulong extent)
{
    return min((n + 1) * window, extent) - n * window;
}

/* Elements of windows from x on, by `rows` rows of each. */
static chf_doubles chf_counts(ulong x, ulong columns, ulong window, ulong extent, ulong rows)
{
    if ((x + CHF_LANES) * window <= extent)
        return (chf_doubles)(double)(window * rows);
    double each[CHF_LANES];
    for (int j = 0; j < CHF_LANES; j++)
        each[j] = x + j < columns ? chf_along(x + j, window, extent) * rows : 1;
    return CHF_LOAD(each);
}

/* from      the level before, or the image: boxes of (d, h, w), one behind another
 * states    of this level: as many boxes of (nd, nh, nw); nothing is written where `last` is 1
 * results   of all levels; those of this one begin at `at`
 * ed ...    extents of a box in elements of the image; sd, sh, sw: elements along a whole window
 * seen      whether anything was told, and how many rows there were */
__kernel __attribute__((reqd_work_group_size(CHF_ITEMS, 1, 1)))
void fold_level(__global const CHF_FROM *from, __global CHF_STATE *states, __global CHF_ELEMENT *results,
                ulong at, ulong d, ulong h, ulong w, ulong nd, ulong nh, ulong nw, ulong ed, ulong eh,
                ulong ew, ulong sd, ulong sh, ulong sw, uint last, volatile __global uint *seen)
{
    const ulong row = get_group_id(0), y = row % nh, z = row / nh % nd, outer = row / nh / nd;
    const ulong depth = min((ulong)CHF_DEPTH, d - z * CHF_DEPTH);
    const ulong height = min((ulong)CHF_HEIGHT, h - y * CHF_HEIGHT);
    const ulong rows = chf_along(z, sd, ed) * chf_along(y, sh, eh);
    __global const CHF_FROM *first = from + ((outer * d + z * CHF_DEPTH) * h + y * CHF_HEIGHT) * w;
    chf_flags told = 0;
    for (ulong x = get_local_id(0) * CHF_LANES; x < nw; x += CHF_ITEMS * CHF_LANES) {
        chf_state s = CHF_NOTHING;
        for (ulong n = 0; n < depth * height; n++) {
            const ulong start = (n / height * h + n % height) * w + x * CHF_WIDTH;
            s = chf_row_taken(s, first + start, w - x * CHF_WIDTH, &told);
        }
        const chf_element made = chf_results(s, chf_counts(x, nw, sw, ew, rows), &told);
        const ulong to = row * nw + x;
        if (x + CHF_LANES <= nw) {
            CHF_STORE(made, results + at + to);
            if (!last)
                CHF_STORE(s, states + to);
            continue;
        }
        CHF_ELEMENT each[CHF_LANES];
        CHF_STATE held[CHF_LANES];
        CHF_STORE(made, each);
        CHF_STORE(s, held);
        for (ulong j = 0; x + j < nw; j++) {
            results[at + to + j] = each[j];
            if (!last)
                states[to + j] = held[j];
        }
    }
    long each[CHF_LANES];
    CHF_STORE(told, each);
    long any = 0;
    for (int j = 0; j < CHF_LANES; j++)
        any |= each[j];
    if (any)
        seen[0] = 1;
    if (get_local_id(0) == 0)
        atomic_inc(seen + 1);
}
