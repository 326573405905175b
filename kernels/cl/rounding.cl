/* Results of exact sums: the expansions of each output become one float, rounded once.
 *
 * Phases, output by output: a double near the result, which decides if all that it may stand for rounds
 * alike; else signs of the numerator less the divisor times doubles: on which side of them the result is.
 *
 * Numeric contract: a result is a sum, or n * q - s * s, divided by a whole number, or the root of that,
 * rounded to nearest, ties to even, once: bit for bit what kernels/catalogue/exact_sums.py makes of the
 * same expansions, which are settled (kernels/cl/expansions.clh). `told` counts what is not decided here:
 * sums that are lost, and those beyond the range where products and their errors are doubles.
 *
 * Sources: Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last bit",
 * 1991; GROW-EXPANSION of Shewchuk, "Adaptive precision floating-point arithmetic and fast robust
 * geometric predicates", 1997; to fewer digits from a double that is odd unless exact: Boldo and
 * Melquiond, "Emulation of a FMA and correctly rounded sums", 2008.
 */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
#ifndef CHF_RESULT
#define CHF_RESULT uint /* as wide as a result */
#define CHF_DIGITS 24 /* of its significand */
#define CHF_TOP 128 /* finite ones are below 2^CHF_TOP */
#define CHF_KEPT 3 /* doubles of the sum s */
#define CHF_SQUARES 0 /* doubles of q, the sum of squares; 0: the numerator is s */
#define CHF_DIVIDED 1 /* by n, or with squares by n * (n - ddof) */
#define CHF_ROOT 0
#define CHF_COUNTED 0 /* whether accumulators have counts */
#endif
#define CHF_MOST (CHF_SQUARES ? CHF_KEPT * (CHF_KEPT + 1) + 2 * CHF_SQUARES : CHF_KEPT)
#define CHF_SIGN (1UL << (8 * sizeof(CHF_RESULT) - 1))
#define CHF_INF ((2UL * CHF_TOP - 1) << (CHF_DIGITS - 1))
#define CHF_NAN (CHF_INF | 1UL << (CHF_DIGITS - 2))
#define CHF_IN_RANGE(size) ((size) > 0x1p-900 && (size) < 0x1p+960)

typedef struct {
    double e[CHF_MOST + 8]; /* the smallest first */
    int n, inexact; /* whether a product or its error was no double */
} chf_sum;

/* Add to an expansion; no zeros are above it. */
static void chf_add(chf_sum *s, double y)
{
    for (int k = 0; k < s->n; k++) {
        const double t = y + s->e[k], z = t - y;
        s->e[k] = (y - (t - z)) + (s->e[k] - z);
        y = t;
    }
    s->e[s->n++] = y;
    while (s->n && s->e[s->n - 1] == 0)
        s->n--;
}

static void chf_add_product(chf_sum *s, double a, double b)
{
    const double p = a * b;
    if (a == 0 || b == 0)
        return;
    chf_add(s, fma(a, b, -p));
    chf_add(s, p);
    s->inexact |= !CHF_IN_RANGE(fabs(p));
}

/* The sign of a positive numerator less `by` times v + more, or its square. */
static int chf_side(const chf_sum *numerator, double by, double v, double more)
{
    const double p = v * v, square[] = { p, fma(v, v, -p), 2 * v * more, more * more };
    chf_sum s = *numerator;
    for (int k = 0; k < (CHF_ROOT ? 4 : 2); k++)
        chf_add_product(&s, -by, CHF_ROOT ? square[k] : k ? more : v);
    return !s.n ? 0 : s.e[s.n - 1] > 0 ? 1 : -1;
}

/* The bits of a normal double above 0, rounded to CHF_DIGITS. */
static ulong chf_narrowed(ulong bits)
{
    const int own = (int)(bits >> 52) - 1023, exponent = max(own, 2 - CHF_TOP);
    const int drop = 53 - CHF_DIGITS + exponent - own;
    if (CHF_DIGITS == 53 || drop > 54)
        return CHF_DIGITS == 53 ? bits : 0;
    const ulong whole = (bits & 0xfffffffffffffUL) | 1UL << 52, kept = whole >> drop;
    const ulong rest = whole & ((1UL << drop) - 1), tie = 1UL << (drop - 1);
    const ulong up = rest > tie || (rest == tie && (kept & 1));
    return min(((ulong)(exponent + CHF_TOP - 2) << (CHF_DIGITS - 1)) + kept + up, CHF_INF);
}

/* The result of a numerator above 0; *left is set if that is not decided. */
static ulong chf_rounded(const chf_sum *numerator, double by, int *left)
{
    double sum = 0;
    for (int k = 0; k < numerator->n; k++)
        sum += numerator->e[k];
    double v = CHF_ROOT ? sqrt(sum / by) : sum / by, next = v;
    const ulong made = chf_narrowed(as_ulong(v * (1 - 0x1p-49))); /* v is known better */
    *left |= numerator->inexact || !CHF_IN_RANGE(sum) || by >= 0x1p+53;
    if (*left || (CHF_DIGITS < 53 && made == chf_narrowed(as_ulong(v * (1 + 0x1p-49)))))
        return made;
    int side = chf_side(numerator, by, v, 0), beyond = side;
    for (int tries = 0; side && beyond != -side && tries < 8; tries++) { /* one or two do */
        v = next;
        side = beyond;
        next = as_double(as_ulong(v) + side);
        beyond = chf_side(numerator, by, next, 0);
    }
    if (!side || !beyond) /* it is that double */
        return chf_narrowed(as_ulong(next));
    *left |= beyond == side;
    const ulong low = as_ulong(min(v, next));
    if (CHF_DIGITS < 53)
        return chf_narrowed(low | 1);
    const int up = chf_side(numerator, by, as_double(low), fabs(v - next) / 2);
    return low + (up > 0 || (up == 0 && (low & 1)));
}

/* The result of n elements; `s` and `q` are the first terms of an output, others `stride` apart. */
static ulong chf_result(__global const double *s, __global const double *q, ulong stride, double n,
                        double ddof, int *left)
{
    const double first = s[0], by = CHF_SQUARES ? n * (n - ddof) : CHF_DIVIDED ? n : 1;
    const ulong sign = !CHF_SQUARES && first < 0 ? CHF_SIGN : 0;
    chf_sum numerator = { { 0 }, 0, 0 };
    *left = isnan(s[(CHF_KEPT - 1) * stride]) || (CHF_SQUARES && isnan(q[(CHF_SQUARES - 1) * stride]));
    if ((CHF_DIVIDED && n == 0) || isnan(first) || (CHF_SQUARES && !isfinite(q[0])))
        return CHF_NAN;
#if CHF_SQUARES
    for (int k = 0; k < CHF_SQUARES; k++)
        chf_add_product(&numerator, n, q[k * stride]);
    for (int k = 0; k < CHF_KEPT; k++)
        for (int m = k; m < CHF_KEPT; m++)
            chf_add_product(&numerator, s[k * stride], (m > k ? -2 : -1) * s[m * stride]);
    if (!numerator.n || by <= 0)
        return by > 0 ? 0 : numerator.n ? CHF_INF : CHF_NAN;
#else
    if (isinf(first) || first == 0)
        return first == 0 ? 0 : CHF_INF | sign;
    for (int k = CHF_KEPT - 1; k >= 0; k--)
        chf_add(&numerator, sign ? -s[k * stride] : s[k * stride]);
#endif
    return chf_rounded(&numerator, by, left) | sign;
}

/* acc         settled accumulators, in arrays of `outputs` items of 8 bytes, one behind another
 * s_at, q_at  which arrays have the first terms; n_at: the counts, else `count` is the one of all
 * results     at byte `at` of `out`; at `told_at` how many are left, and NaN of more than ddof elements */
__kernel void round_sums(__global const double *acc, ulong outputs, ulong s_at, ulong q_at, ulong n_at,
                         ulong count, double ddof, __global uchar *out, ulong at, ulong told_at)
{
    __global CHF_RESULT *results = (__global CHF_RESULT *)(out + at);
    volatile __global uint *told = (volatile __global uint *)(out + told_at);
    for (ulong k = get_global_id(0); k < outputs; k += get_global_size(0)) {
        const ulong n = CHF_COUNTED ? ((__global const ulong *)acc)[n_at * outputs + k] : count;
        int left;
        const ulong made = chf_result(acc + s_at * outputs + k, acc + q_at * outputs + k, outputs, n,
                                      ddof, &left);
        results[k] = made;
        if (left)
            atomic_inc(told);
        if ((made & ~CHF_SIGN) > CHF_INF && (!CHF_DIVIDED || n > ddof))
            atomic_inc(told + 1);
    }
}
