/* Follow origins to bytes (`origins.cl`), some steps in a round: what is passed on the way is written back,
 * so that each round shortens what is left of all ways many times (pointer jumping: Wyllie, "The Complexity
 * of Parallel Computations", 1979). A way goes through each block once at most.
 *
 * `left` counts, for each round, the words with bytes that are not found yet; a round does nothing if the
 * one before it left none.
 */
#define FOUND 0x80000000u
#define STEPS 8

__kernel void found_bytes(__global const block_t *blocks, __global const chunk_t *chunks, __global uint *origins,
                          __global uchar *decoded, __global uint *left, uint round)
{
    if (round && !left[round - 1]) return;
    __global const block_t *b = blocks + get_group_id(0);
    __global const chunk_t *chunk = chunks + b->chunk;
    if (chunk->error || chunk->late || b->kind != BLOCK_COMPRESSED || !b->sequence_count) return;
    __global uint *all = origins + chunk->to, *own = all + b->to;
    __global uchar *to = decoded + chunk->to + b->to;
    const uint lane = get_local_id(0), lanes = get_local_size(0);
    const uint words = (b->size + 3) / 4, aligned = ((uint)(ulong)to & 3) == 0;
    uint waiting = 0;
    for (uint w = lane; w < words; w += lanes) {
        const uint n = min(4u, b->size - 4 * w);
        uint o[4], done = FOUND, steps = 0, moved = 0;
        for (uint k = 0; k < 4; k++) { o[k] = own[4 * w + min(k, n - 1)]; done &= o[k]; }
        if (round && done) continue;
        for (; !done && steps < STEPS; steps++) {
            done = FOUND;
            for (uint k = 0; k < 4; k++) { if (!(o[k] & FOUND)) { o[k] = all[o[k]]; moved = 1; } done &= o[k]; }
        }
        for (uint k = 0; k < n && moved; k++) own[4 * w + k] = o[k];
        if (!done) waiting++;
        else if (aligned && n == 4)
            *(__global uint *)(to + 4 * w) = (o[0] & 255) | (o[1] & 255) << 8 | (o[2] & 255) << 16 | o[3] << 24;
        else for (uint k = 0; k < n; k++) to[4 * w + k] = (uchar)o[k];
    }
    if (waiting) atomic_add(left + round, waiting);
}
