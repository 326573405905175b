/* Put the literals and matches of each chunk together (RFC 8878, 3.1.1.4): a work-group a chunk, block by
 * block. For many chunks: of few, `origins.cl` and `bytes.cl` do it block by block at once.
 */
#define AT_ONCE 4 /* bytes of a work-item */

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
        sequences_t s = chf_sequences_of(b, stored, matches, firsts, literals, lane);
        t.from = b->to;
        uint behind = 1;
        for (uint first = 0; first < s.count; first += LANES) {
            behind = chf_batch_begun(&t, sequences, map, &bad, &s, b, first, lane);
            if (!behind) break;
            for (uint at = t.from + lane; at < behind; at += AT_ONCE * LANES) {
                __global const uchar *from[AT_ONCE];
                uchar byte[AT_ONCE];
                #pragma unroll
                for (uint u = 0; u < AT_ONCE; u++) {
                    bool literal;
                    const uint place = at + u * LANES < behind ? at + u * LANES : at;
                    const uint origin = chf_origin(&t, place, &literal);
                    from[u] = literal ? s.literals + (s.repeats ? 0 : origin) : to + origin;
                }
                #pragma unroll
                for (uint u = 0; u < AT_ONCE; u++) byte[u] = *from[u];
                #pragma unroll
                for (uint u = 0; u < AT_ONCE; u++) if (at + u * LANES < behind) to[at + u * LANES] = byte[u];
            }
            t.from = behind;
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        }
        if (!behind) break;
        const uint used = s.literal_end[(int)s.count - 1], rest = b->literals_size - used;
        __global uchar *rest_to = to + b->to + b->size - rest;
        if (s.repeats) chf_repeat(rest_to, s.literals[0], rest, lane, LANES);
        else chf_copy(rest_to, s.literals + used, rest, lane, LANES);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    }
    if (lane == 0 && bad) chunk->error = BAD_OFFSET;
}
