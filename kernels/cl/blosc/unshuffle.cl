/* Undo what was done to the blocks of each chunk before they were compressed: nothing; a shuffle, by which
 * the first bytes of all elements stand before all second ones, and so on; or a shuffle of bits
 * (shuffled.clh). Bytes behind the last whole element stay where they
 * are, and so do all where the elements are no multiple of eight and bits are shuffled.
 *
 * A work-item makes eight elements at a time.
 */
__kernel void unshuffle(__global const uchar *shuffled, __global uchar *decoded, __global const chunk_t *chunks,
                        uint nbytes)
{
    const chunk_t c = chunks[get_global_id(1)];
    const uint units = (c.block - 1) / UNIT + 1;
    const ulong all = (ulong)units * ((nbytes - 1) / c.block + 1);
    for (ulong u = get_global_id(0); u < all; u += get_global_size(0)) {
        const uint block = (uint)(u / units), unit = (uint)(u % units), begin = block * c.block, first = unit * UNIT;
        const uint bytes = min(c.block, nbytes - begin), elements = bytes / WIDTH;
        __global const uchar *from = shuffled + c.to + begin;
        __global uchar *to = decoded + c.to + begin;
        const bool bits = c.filter == FILTER_BITS;
        const uint moved = c.filter == FILTER_NONE || (bits && elements % 8) ? 0 : elements;
        if (unit < moved / 8) {
            chf_eight_elements(to, from, elements, unit, bits);
            continue;
        }
        for (uint at = first; at < min(first + UNIT, bytes); at++)
            to[at] = from[at < moved * WIDTH ? at % WIDTH * elements + at / WIDTH : at];
    }
}
