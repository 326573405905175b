/* Try the laws of a monoid on triples of accumulators (chunkfold.kernels.laws).
 *
 * Accumulator 0 is zero, 1 to `count` are those of single elements, the others, up to
 * (count + 1)^2, op's of two of these: all can occur in a fold. Triple k is (a, b, c) of
 * `triples`; out[k] and its followers, each `n` accumulators apart, hold a, b, c, (a b), (b a),
 * ((a b) c), (a (b c)), (zero a), (a zero), what a stream of a's elements ends in, what two of one
 * element each do, joined, and what two parts of one stream do.
 */
#include "tuning.clh"
#include "monoid.clh"

static acc_t chf_single(CHF_INPUTS, ulong k)
{
    if (k == 0)
        return chf_zero();
    return chf_lift(chf_value(CHF_INPUT_NAMES, k - 1), k - 1);
}

static acc_t chf_reached(CHF_INPUTS, ulong count, ulong k)
{
    if (k <= count)
        return chf_single(CHF_INPUT_NAMES, k);
    return chf_op(chf_single(CHF_INPUT_NAMES, k / (count + 1)),
                  chf_single(CHF_INPUT_NAMES, k % (count + 1)));
}

static void chf_take(state_t *s, CHF_INPUTS, ulong k)
{
    if (k > 0)
        chf_step(s, chf_value(CHF_INPUT_NAMES, k - 1), k - 1);
}

/* Reach the same accumulator by a stream of its elements, of which there are up to two. */
static acc_t chf_streamed(CHF_INPUTS, ulong count, ulong k)
{
    state_t s;
    chf_begin(&s);
    chf_take(&s, CHF_INPUT_NAMES, k / (count + 1));
    chf_take(&s, CHF_INPUT_NAMES, k % (count + 1));
    return chf_end(&s);
}

/* The same by a stream of each. */
static acc_t chf_streamed_apart(CHF_INPUTS, ulong count, ulong k)
{
#if CHF_JOINS
    state_t s, t;
    chf_begin(&s);
    chf_begin(&t);
    chf_take(&s, CHF_INPUT_NAMES, k / (count + 1));
    chf_take(&t, CHF_INPUT_NAMES, k % (count + 1));
    return chf_joined_two(&s, &t);
#else
    return chf_streamed(CHF_INPUT_NAMES, count, k);
#endif
}

/* The same by two parts of one stream. */
static acc_t chf_streamed_in_parts(CHF_INPUTS, ulong count, ulong k)
{
#if CHF_ALIKE
    state_t s, t;
    chf_begin(&s);
    chf_take(&s, CHF_INPUT_NAMES, k / (count + 1));
    chf_begin_alike(&t, &s);
    chf_take(&t, CHF_INPUT_NAMES, k % (count + 1));
    return chf_joined_alike(&s, &t);
#else
    return chf_streamed(CHF_INPUT_NAMES, count, k);
#endif
}

__kernel
void try_laws(CHF_INPUTS, ulong count, __global const ulong *triples, ulong n,
              __global uchar *out)
{
    const ulong k = get_global_id(0);
    if (k >= n)
        return;
    const acc_t a = chf_reached(CHF_INPUT_NAMES, count, triples[3 * k]);
    const acc_t b = chf_reached(CHF_INPUT_NAMES, count, triples[3 * k + 1]);
    const acc_t c = chf_reached(CHF_INPUT_NAMES, count, triples[3 * k + 2]);
    const acc_t ab = chf_op(a, b);
    const ulong all = 12 * n;
    chf_put(out, all, k, a);
    chf_put(out, all, k + n, b);
    chf_put(out, all, k + 2 * n, c);
    chf_put(out, all, k + 3 * n, ab);
    chf_put(out, all, k + 4 * n, chf_op(b, a));
    chf_put(out, all, k + 5 * n, chf_op(ab, c));
    chf_put(out, all, k + 6 * n, chf_op(a, chf_op(b, c)));
    chf_put(out, all, k + 7 * n, chf_op(chf_zero(), a));
    chf_put(out, all, k + 8 * n, chf_op(a, chf_zero()));
    chf_put(out, all, k + 9 * n, chf_streamed(CHF_INPUT_NAMES, count, triples[3 * k]));
    chf_put(out, all, k + 10 * n, chf_streamed_apart(CHF_INPUT_NAMES, count, triples[3 * k]));
    chf_put(out, all, k + 11 * n, chf_streamed_in_parts(CHF_INPUT_NAMES, count, triples[3 * k]));
}

/* Fold elements in many orders, each in parts: a work-item each. An order names the elements, and
 * by its highest bit those that end a part; a part is folded by itself, from zero, and then put to
 * the parts before it. `out` has of each order, `n` = the number of orders apart, what the part and
 * all before it were after every `every` elements, and in the end the result: by op, and by streams.
 */
#define CHF_ENDS_PART 0x80000000u

__kernel
void try_orders(CHF_INPUTS, __global const uint *orders, ulong elements, ulong every,
                __global uchar *out)
{
    const ulong k = get_global_id(0);
    const ulong n = get_global_size(0);
    const ulong all = n * (2 * (elements / every) + 2);
    ulong looks = 0;
    acc_t total = chf_zero(), streamed = chf_zero(), part = chf_zero();
    state_t s;
    chf_begin(&s);
    for (ulong j = 0; j < elements; ++j) {
        const uint taken = orders[k * elements + j];
        const ulong element = taken & ~CHF_ENDS_PART;
        const value_t x = chf_value(CHF_INPUT_NAMES, element);
        part = chf_op(part, chf_lift(x, element));
        chf_step(&s, x, element);
        if ((j + 1) % every == 0) {
            chf_put(out, all, looks * n + k, part);
            chf_put(out, all, (looks + 1) * n + k, total);
            looks += 2;
        }
        if (taken & CHF_ENDS_PART) {
            total = chf_op(total, part);
            streamed = chf_op(streamed, chf_end(&s));
            part = chf_zero();
            chf_begin(&s);
        }
    }
    chf_put(out, all, looks * n + k, total);
    chf_put(out, all, (looks + 1) * n + k, streamed);
}
