/* Copy what is stored as it is: raw and RLE blocks (RFC 8878, 3.1.1.2.2), and blocks of nothing but raw
 * or RLE literals. A work-group a block.
 */
__kernel void stored_blocks(__global const uchar *stored, __global const block_t *blocks,
                            __global const chunk_t *chunks, __global uchar *decoded)
{
    __global const block_t *b = blocks + get_group_id(0);
    __global const chunk_t *chunk = chunks + b->chunk;
    const uint compressed = b->kind == BLOCK_COMPRESSED;
    if (chunk->error || (compressed && (b->sequence_count || b->literals_kind >= LITERALS_HUFFMAN))) return;
    __global uchar *to = decoded + chunk->to + b->to;
    __global const uchar *from = stored + b->from + (compressed ? b->literals_head : 0);
    const uint lane = get_local_id(0), lanes = get_local_size(0);
    const bool repeats = compressed ? b->literals_kind == LITERALS_RLE : b->kind == BLOCK_RLE;
    if (repeats) chf_repeat(to, from[0], b->size, lane, lanes);
    else chf_copy(to, from, b->size, lane, lanes);
}
