/* Decode the literals of each block that are Huffman coded (RFC 8878, 3.1.1.3.1): four work-items a
 * block, one for each of its streams. Those of blocks without sequences go straight to their place.
 */
#ifndef BLOCKS
#define BLOCKS 4 /* of a work-group */
#endif
#define STREAMS 4
#define STRIDE (BLOCKS * STREAMS)

#define ADVANCE(n) do { \
    r.used += (n); \
    const bool next_ = r.used > 31; \
    r.word -= next_; w0 = next_ ? w1 : w0; w1 = next_ ? w2 : w1; r.used &= 31; w2 = WORD(r, r.word - 2, STRIDE); \
} while (0)
#define ONE(o) do { uint e_; ENTRY(PAIR(w0, w1, r.used), e_); o = e_ & 255; ADVANCE(e_ >> 8); } while (0)
/* Two symbols have at most 22 bits. */
#define TWO(o) do { \
    uint x_ = PAIR(w0, w1, r.used), e_, f_; \
    ENTRY(x_, e_); x_ <<= e_ >> 8; ENTRY(x_, f_); \
    o = (e_ & 255) | (f_ & 255) << 8; \
    ADVANCE((e_ >> 8) + (f_ >> 8)); \
} while (0)
#define FOUR(o) do { uint a_, c_; TWO(a_); TWO(c_); o = a_ | c_ << 16; } while (0)

/* Where a stream is, and which literals it has (3.1.1.3.1.6); false when that is wrong. */
typedef struct { ulong from; uint size, first, count; } stream_t;

static bool chf_stream_found(__global const uchar *stored, __global const block_t *b, uint tree_bytes, uint lane,
                             stream_t *s)
{
    if (tree_bytes >= b->literals_stored) return false;
    s->from = b->from + b->literals_head + tree_bytes;
    s->size = b->literals_stored - tree_bytes;
    s->first = 0;
    s->count = b->literals_size;
    if (b->streams == 1) return true;
    const uint quarter = (b->literals_size + 3) / 4;
    if (s->size < 10 || quarter * 3 > b->literals_size) return false;
    const uint size0 = chf_le16(stored + s->from), size1 = chf_le16(stored + s->from + 2);
    const uint size2 = chf_le16(stored + s->from + 4);
    if (!size0 || !size1 || !size2 || size0 + size1 + size2 + 7 > s->size) return false;
    const uint size3 = s->size - 6 - size0 - size1 - size2;
    s->from += 6 + (lane > 0 ? size0 : 0) + (lane > 1 ? size1 : 0) + (lane > 2 ? size2 : 0);
    s->size = lane == 0 ? size0 : lane == 1 ? size1 : lane == 2 ? size2 : size3;
    s->first = lane * quarter;
    s->count = lane == 3 ? b->literals_size - 3 * quarter : quarter;
    return true;
}

__kernel __attribute__((reqd_work_group_size(STRIDE, 1, 1)))
void literals(__global const uchar *stored, __global const block_t *blocks, uint n, __global chunk_t *chunks,
              __global uchar *decoded_literals, __global uchar *decoded)
{
    __local ushort tables[BLOCKS][TREE_ENTRIES];
    __local uint ring[STRIDE * RING];      /* while tables are built: weights, and where codes of each end */
    __local uint shapes[BLOCKS][3];        /* of each table its log and long entries; bytes of its tree */
    const uint local_id = get_local_id(0), slot = local_id / STREAMS, lane = local_id % STREAMS;
    const uint number = get_group_id(0) * BLOCKS + slot;
    __global const block_t *b = blocks + min(number, n - 1);
    __global int *error = &chunks[b->chunk].error;
    bool on = number < n && b->kind == BLOCK_COMPRESSED && b->literals_kind >= LITERALS_HUFFMAN && !*error;
    __local uchar *weights = (__local uchar *)(ring + slot * 64);
    __local uint *ends = ring + BLOCKS * 64 + slot * 16;
    __local ushort *table = tables[slot];
    if (lane == 0) {
        uint taken = 0;
        if (on) {
            __global const block_t *by = blocks + b->tree;
            taken = chf_tree(stored + by->from + by->literals_head, by->literals_stored, weights, ends, table,
                             shapes[slot]);
            if (!taken) *error = BAD_TREE;
        }
        shapes[slot][2] = taken;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    on = on && shapes[slot][2];
    const uint log = on ? shapes[slot][0] : 1, shift = 32 - log, fewer = log > 9 ? log - 9 : 0;
    const uint low = on ? shapes[slot][1] : 0, moved = low - (low >> fewer);
    if (on) {
        /* A symbol's first entry is copied to its others. */
        uint from = 0;
        for (uint w = 1; w < 13; w++) {
            const uint to = max(ends[w], from), by = w > fewer ? fewer : 0, first = ~((1u << (w - 1 - by)) - 1);
            const uint base = w > fewer ? moved : 0;
            for (uint q = (from >> by) + lane; q < to >> by; q += STREAMS) table[base + q] = table[base + (q & first)];
            from = to;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!on || lane >= b->streams) return;

    stream_t s;
    bits_t r;
    const uint tree_bytes = b->literals_kind == LITERALS_HUFFMAN ? shapes[slot][2] : 0;
    if (!chf_stream_found(stored, b, tree_bytes, lane, &s)
        || !chf_bits_open(&r, stored, s.from, s.from + s.size, ring + local_id, STRIDE, 4)) {
        *error = BAD_STREAM;
        return;
    }
    __global uchar *o = b->sequence_count ? decoded_literals + b->literals : decoded + chunks[b->chunk].to + b->to;
    o += s.first;
    uint k = 0, c, w0 = WORD(r, r.word, STRIDE), w1 = WORD(r, r.word - 1, STRIDE), w2 = WORD(r, r.word - 2, STRIDE);
    const uint lead = min(s.count, (uint)(16 - (ulong)o) & 15);
    FETCH2(r);
    for (; k < lead; k++) { ONE(c); o[k] = (uchar)c; }
    DELIVER2(r, STRIDE);
    FETCH2(r);
    for (; k + 16 <= s.count; k += 16) {
        uint4 v;
        FOUR(v.x); FOUR(v.y); FOUR(v.z); FOUR(v.w);
        *(__global uint4 *)(o + k) = v;
        DELIVER2(r, STRIDE);
        FETCH2(r);
    }
    for (; k < s.count; k++) { ONE(c); o[k] = (uchar)c; }
    if (chf_bits_used(&r) != r.total) *error = BAD_STREAM;
}
