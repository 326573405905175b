/* Place the blocks of each chunk, and settle the offsets that earlier blocks decide (RFC 8878, 3.1.1.5). */
__kernel void offsets(__global block_t *blocks, __global chunk_t *chunks, uint n)
{
    const uint number = get_global_id(0);
    if (number >= n || chunks[number].error) return;
    __global chunk_t *chunk = chunks + number;
    ulong at = 0, content = UNKNOWN, frame_to = 0;
    uint h1 = 1, h2 = 4, h3 = 8;
    bool right = true;
    for (uint i = 0; i < chunk->blocks; i++) {
        __global block_t *b = blocks + chunk->block + i;
        if (b->begins) {
            right = right && (content == UNKNOWN || at - frame_to == content);
            content = b->content; frame_to = at;
            h1 = 1; h2 = 4; h3 = 8;
        }
        b->to = (uint)at;
        b->frame_to = (uint)frame_to;
        at += b->size;
        if (b->kind != BLOCK_COMPRESSED || !b->sequence_count) continue;
        const uint first = chf_settled(b->history[0], h1, h2, h3);
        const uint second = chf_settled(b->history[1], h1, h2, h3);
        const uint third = chf_settled(b->history[2], h1, h2, h3);
        b->history[0] = h1; b->history[1] = h2; b->history[2] = h3;
        h1 = first; h2 = second; h3 = third;
    }
    right = right && (content == UNKNOWN || at - frame_to == content);
    if (!right || at != chunk->capacity || at > 0x7fffffff) chunk->error = OTHER_SIZE;
}
