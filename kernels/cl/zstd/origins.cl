/* Say of each byte of a chunk where it comes from, for few and long chunks: a work-group a block, none of
 * which waits for another. An origin is a literal's byte, with FOUND, or the place in the chunk, before this
 * block, where the byte is to be found: `bytes.cl` follows it.
 */
#define FOUND 0x80000000u

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void match_origins(__global const uchar *stored, __global const block_t *blocks, __global chunk_t *chunks,
                   __global const ulong *matches, __global const uint *firsts, __global const uchar *literals,
                   __global const uchar *decoded, __global uint *origins)
{
    __local int4 sequences[LANES];
    __local uint2 map[MAP_WORDS];
    __local uint bad;
    const uint lane = get_local_id(0);
    __global const block_t *b = blocks + get_group_id(0);
    __global chunk_t *chunk = chunks + b->chunk;
    if (chunk->error) return;
    __global uint *to = origins + chunk->to;
    if (b->kind != BLOCK_COMPRESSED || !b->sequence_count) {
        __global const uchar *from = decoded + chunk->to;
        for (uint i = b->to + lane; i < b->to + b->size; i += LANES) to[i] = FOUND | from[i];
        return;
    }
    if (lane == 0) bad = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    batch_t t = { sequences, map, b->to, 0, 0 };
    sequences_t s = chf_sequences_of(b, stored, matches, firsts, literals, lane);
    uint behind = 1;
    for (uint first = 0; first < s.count && behind; first += LANES) {
        behind = chf_batch_begun(&t, sequences, map, &bad, &s, b, first, lane);
        for (uint at = t.from + lane; at < behind; at += LANES) {
            bool literal;
            const uint origin = chf_origin(&t, at, &literal);
            uint found = origin;
            if (literal) found = FOUND | s.literals[s.repeats ? 0 : origin];
            else if (origin >= b->to) found = to[origin];
            to[at] = found;
        }
        t.from = behind;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    if (behind) {
        const uint used = s.literal_end[(int)s.count - 1], rest = b->literals_size - used;
        for (uint i = lane; i < rest; i += LANES)
            to[b->to + b->size - rest + i] = FOUND | s.literals[s.repeats ? 0 : used + i];
    } else if (lane == 0) chunk->late = BAD_OFFSET;
}
