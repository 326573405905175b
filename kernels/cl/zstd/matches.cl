/* Put the literals and matches of each chunk together (RFC 8878, 3.1.1.4): a work-group a chunk, which
 * takes some sequences at a time, block by block.
 *
 * Work-items take bytes of the output. Which sequence makes a byte is counted in a bitmap of their ends,
 * or found by halving where sequences are long. A byte whose match lies in these same sequences is
 * followed to where that comes from, through local memory, until it is a literal or was made before: so
 * matches that overlap themselves are nothing special, and no byte waits for another.
 */
#ifndef LANES
#define LANES 256
#endif
#ifndef AT_ONCE
#define AT_ONCE 4 /* bytes of a work-item */
#endif
#define MAPPED (16 * LANES)
#define MAP_WORDS (MAPPED / 32 + 1)

typedef struct {
    __local const int4 *sequences;  /* match's place; literal less place; minus the offset; end */
    __local const uint2 *map;       /* a word of ends, and the ends before it */
    uint from, halves, count;       /* the first byte; whether the bitmap is too short; sequences */
} batch_t;

static uint chf_owner(const batch_t *t, uint at)
{
    if (!t->halves) {
        const uint bit = at - t->from;
        const uint2 word = t->map[bit >> 5];
        return word.y + popcount(word.x & ((2u << (bit & 31)) - 1));
    }
    uint low = 0, high = t->count - 1;
    while (low < high) {
        const uint middle = (low + high) >> 1;
        if ((uint)t->sequences[middle].w > at) high = middle; else low = middle + 1;
    }
    return low;
}

/* Follow a byte whose match lies in these sequences; return its place among literals, or in the chunk. */
static uint chf_followed(const batch_t *t, uint at, bool *literal)
{
    for (;;) {
        const int4 s = t->sequences[chf_owner(t, at)];
        *literal = (int)at < s.x;
        if (*literal) return at + (uint)s.y;
        const uint offset = (uint)-s.z;
        uint i = at - (uint)s.x;
        if (i >= offset) i %= offset;
        at = (uint)s.x - offset + i;
        if (at < t->from) return at;
    }
}

/* Return where a byte comes from: its place among literals, or in the chunk. */
static uint chf_origin(const batch_t *t, uint at, bool *literal)
{
    const int4 s = t->sequences[chf_owner(t, at)];
    *literal = (int)at < s.x;
    const uint from = at + (uint)(*literal ? s.y : s.z);
    return !*literal && from >= t->from ? chf_followed(t, at, literal) : from;
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void match_copies(__global const uchar *stored, __global const block_t *blocks, __global chunk_t *chunks,
                  __global const ulong *matches, __global const uint *firsts, __global const uchar *literals,
                  __global uchar *decoded)
{
    __local int4 sequences[LANES];
    __local uint2 map[MAP_WORDS];
    __local uint bad;
    const uint lane = get_local_id(0);
    __global chunk_t *chunk = chunks + get_group_id(0);
    if (chunk->error) return;
    __global uchar *to = decoded + chunk->to;
    if (lane == 0) bad = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    batch_t t = { sequences, map, 0, 0, 0 };
    for (uint i = 0; i < chunk->blocks; i++) {
        __global const block_t *b = blocks + chunk->block + i;
        if (b->kind != BLOCK_COMPRESSED || !b->sequence_count) continue;
        const uint count = b->sequence_count, h1 = b->history[0], h2 = b->history[1], h3 = b->history[2];
        const uint repeats = b->literals_kind == LITERALS_RLE;
        const bool raw = b->literals_kind < LITERALS_HUFFMAN;
        __global const uchar *literal_from = raw ? stored + b->from + b->literals_head : literals + b->literals;
        __global const ulong *match = matches + b->sequences;
        __global const uint *literal_end = firsts + b->sequences + 1;
        t.from = b->to;
        ulong own = lane < count ? match[lane] : 0;
        uint own_end = lane < count ? literal_end[lane] : 0;
        for (uint first = 0; first < count; first += LANES) {
            t.count = min((uint)LANES, count - first);
            uint end = 0;
            if (lane < t.count) {
                const uint at = b->to + ((uint)own & 0x1ffff), offset = chf_settled((uint)(own >> 34), h1, h2, h3);
                end = at + ((uint)(own >> 17) & 0x1ffff) + 3;
                sequences[lane] = (int4)((int)at, (int)own_end - (int)at, -(int)offset, (int)end);
                if (!offset || offset > at - b->frame_to) bad = 1;
            }
            for (uint w = lane; w < MAP_WORDS; w += LANES) map[w] = (uint2)(0, 0);
            if (first + LANES + lane < count) { /* the next ones, ahead */
                own = match[first + LANES + lane];
                own_end = literal_end[first + LANES + lane];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (bad) break;
            const uint behind = (uint)sequences[t.count - 1].w;
            t.halves = behind - t.from > MAPPED;
            if (!t.halves && lane < t.count) {
                const uint bit = end - t.from, word = bit >> 5;
                atomic_or((__local uint *)(map + word), 1u << (bit & 31));
                const uint after = lane ? (((uint)sequences[lane - 1].w - t.from) >> 5) + 1 : 0;
                for (uint w = after; w <= word; w++) ((__local uint *)(map + w))[1] = lane;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint at = t.from + lane; at < behind; at += AT_ONCE * LANES) {
                __global const uchar *from[AT_ONCE];
                uchar byte[AT_ONCE];
                #pragma unroll
                for (uint u = 0; u < AT_ONCE; u++) {
                    bool literal;
                    const uint place = at + u * LANES < behind ? at + u * LANES : at;
                    const uint origin = chf_origin(&t, place, &literal);
                    from[u] = literal ? literal_from + (repeats ? 0 : origin) : to + origin;
                }
                #pragma unroll
                for (uint u = 0; u < AT_ONCE; u++) byte[u] = *from[u];
                #pragma unroll
                for (uint u = 0; u < AT_ONCE; u++) if (at + u * LANES < behind) to[at + u * LANES] = byte[u];
            }
            t.from = behind;
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        }
        if (bad) break;
        const uint used = literal_end[(int)count - 1], rest = b->literals_size - used;
        __global uchar *rest_to = to + b->to + b->size - rest;
        if (repeats) chf_repeat(rest_to, literal_from[0], rest, lane, LANES);
        else chf_copy(rest_to, literal_from + used, rest, lane, LANES);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    if (lane == 0 && bad) chunk->error = BAD_OFFSET;
}
