/* Decode the sequences of each block (RFC 8878, 3.1.1.3.2): LANES work-items build its tables, one decodes.
 *
 * A sequence leaves where its match stands in the block (17 bits), its length less 3 (17 bits) and its
 * offset (30 bits) in `matches`, and where its literals begin in `firsts`; behind the last is where the
 * literals behind it begin. Places are sums that the work-item keeps, so that no scan is needed.
 */
#ifndef BLOCKS
#define BLOCKS 16 /* of a work-group */
#endif
#define LANES 2

/* Decode one; `more` follow. Lengths of one sequence may go beyond the block before they are checked. */
#define SEQUENCE(MATCH, FIRST, more) do { \
    const uint el = tl[xl], eo = to[xo], em = tm[xm]; \
    const uint w0 = WORD(r, r.word, BLOCKS), w1 = WORD(r, r.word - 1, BLOCKS), w2 = WORD(r, r.word - 2, BLOCKS); \
    const uint offset_bits = eo & 63, lb = length_base[el & 63], mb = match_base[em & 63]; \
    const uint length_bits = lb >> 24, match_bits = mb >> 24, sum = offset_bits + match_bits + length_bits; \
    const uint high = PAIR(w0, w1, r.used), low = PAIR(w1, w2, r.used); \
    uint offset_value, match, length, states; \
    if (sum <= 32) { \
        offset_value = TOP(high, offset_bits); match = TOP(high << offset_bits, match_bits); \
        length = TOP(high << (offset_bits + match_bits), length_bits); \
        states = PAIR(high, low, sum); \
    } else { \
        offset_value = TOP(high, offset_bits); \
        match = TOP(chf_bits_peek(&r, offset_bits, BLOCKS), match_bits); \
        length = TOP(chf_bits_peek(&r, offset_bits + match_bits, BLOCKS), length_bits); \
        states = chf_bits_peek(&r, sum, BLOCKS); \
    } \
    const uint nl = NEXT_BITS(el, gl), nm = NEXT_BITS(em, gm), no = NEXT_BITS(eo, go); \
    SKIP(r, sum + ((more) ? nl + nm + no : 0)); \
    xl = ((el >> 6) << nl) - (1u << gl) + TOP(states, nl); \
    xm = ((em >> 6) << nm) - (1u << gm) + TOP(states << nl, nm); \
    xo = ((eo >> 6) << no) - (1u << go) + TOP(states << (nl + nm), no); \
    offset_value += 1u << offset_bits; match += mb & 0xffffff; length += lb & 0xffffff; \
    /* 3.1.1.5: values up to 3 repeat an earlier offset; without literals, the next older. */ \
    const uint which = offset_value > 3 ? 4 : offset_value - 1 + (length == 0); \
    uint offset = h1 & UNSETTLED ? h1 + 1 : h1 - 1; \
    offset = which > 3 ? offset_value - 3 : offset; offset = which == 0 ? h1 : offset; \
    offset = which == 1 ? h2 : offset; offset = which == 2 ? h3 : offset; \
    h3 = which > 1 ? h2 : h3; h2 = which > 0 ? h1 : h2; h1 = offset; \
    FIRST = literal; at += length; literal += length; \
    MATCH = (ulong)at | (ulong)(match - 3) << 17 | (ulong)offset << 34; \
    at += match; most_bits = max(most_bits, offset_bits); least = min(least, offset); \
} while (0)

__kernel __attribute__((reqd_work_group_size(BLOCKS * LANES, 1, 1)))
void sequences(__global const uchar *stored, __global block_t *blocks, uint n, __global chunk_t *chunks,
               __global ulong *matches, __global uint *firsts)
{
    __local ushort tables[BLOCKS][TABLE_ENTRIES];
    __local uint ring[BLOCKS * RING];      /* while tables are built: counts of lengths of matches */
    __local uint shapes[BLOCKS][4];        /* of the tables; and where the bits begin, 0 where there are none */
    __local uint length_base[64], match_base[64]; /* a symbol's base, and its bits above it */
    const uint local_id = get_local_id(0), slot = local_id / LANES, lane = local_id % LANES;
    const uint number = get_group_id(0) * BLOCKS + slot;
    if (local_id == 0) {
        uint base = 0;
        for (uint s = 0; s < 64; s++) {
            length_base[s] = s < 36 ? base | (uint)LENGTHS_BITS[s] << 24 : 0;
            base += s < 36 ? 1u << LENGTHS_BITS[s] : 0;
        }
        base = 3;
        for (uint s = 0; s < 64; s++) {
            match_base[s] = s < 53 ? base | (uint)MATCHES_BITS[s] << 24 : 0;
            base += s < 53 ? 1u << MATCHES_BITS[s] : 0;
        }
    }
    __global block_t *b = blocks + min(number, n - 1);
    __global int *error = &chunks[b->chunk].error;
    bool on = number < n && b->kind == BLOCK_COMPRESSED && b->sequence_count && !*error;
    /* Counts of the first two stand where the table of matches is built last. */
    __local short *counts = (__local short *)(tables[slot] + 1024);
    const described_t d = { { counts, counts + 64, (__local short *)(ring + slot * RING) }, shapes[slot] };
    if (lane == 0) {
        described_t own = d;
        const uint at = on ? chf_all_described(stored, blocks, number, &own) : 0;
        shapes[slot][3] = at;
        if (on && !at) *error = BAD_TABLE;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    on = on && shapes[slot][3];
    if (on && !chf_table_built(tables[slot], lane, &d)) *error = BAD_TABLE;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (on && lane == 0 && !chf_table_built(tables[slot], MATCHES, &d)) *error = BAD_TABLE;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!on || lane) return;

    __local const ushort *tl = tables[slot], *to = tl + 512, *tm = tl + 768;
    const uint gl = shapes[slot][0] & 255, go = shapes[slot][1] & 255, gm = shapes[slot][2] & 255;
    const uint count = b->sequence_count, literals = b->literals_size, most = b->most;
    bits_t r;
    if (!chf_bits_open(&r, stored, b->from + shapes[slot][3], b->from + b->stored, ring + slot, BLOCKS, 5)) {
        *error = BAD_SEQUENCE;
        return;
    }
    uint xl = TOP(chf_bits_peek(&r, 0, BLOCKS), gl), xo = TOP(chf_bits_peek(&r, gl, BLOCKS), go);
    uint xm = TOP(chf_bits_peek(&r, gl + go, BLOCKS), gm);
    SKIP(r, gl + go + gm);
    uint at = 0, literal = 0, most_bits = 0, least = 1, bad = 0, k = 0;
    uint h1 = UNSETTLED, h2 = UNSETTLED | 1u << 27, h3 = UNSETTLED | 2u << 27;
    __global ulong *match_to = matches + b->sequences;
    __global uint *first_to = firsts + b->sequences;
    ulong m0, m1, m2, m3;
    uint f0, f1, f2, f3;
    FETCH4(r);
    for (; k + 4 < count; k += 4) {
        DELIVER4(r, BLOCKS);
        FETCH4(r);
        SEQUENCE(m0, f0, 1); SEQUENCE(m1, f1, 1); SEQUENCE(m2, f2, 1); SEQUENCE(m3, f3, 1);
        if (at > most || literal > literals) { bad = 1; break; }
        *(__global ulong2 *)(match_to + k) = (ulong2)(m0, m1);
        *(__global ulong2 *)(match_to + k + 2) = (ulong2)(m2, m3);
        *(__global uint4 *)(first_to + k) = (uint4)(f0, f1, f2, f3);
    }
    DELIVER4(r, BLOCKS);
    for (; k < count && !bad; k++) {
        SEQUENCE(m0, f0, k + 1 < count);
        bad = at > most || literal > literals;
        if (!bad) { match_to[k] = m0; first_to[k] = f0; }
    }
    bad |= most_bits > 28 || least == 0 || chf_bits_used(&r) != r.total;
    at += literals - literal;
    if (bad || at > most) { *error = BAD_SEQUENCE; return; }
    first_to[count] = literal;
    b->size = at; b->history[0] = h1; b->history[1] = h2; b->history[2] = h3;
}
