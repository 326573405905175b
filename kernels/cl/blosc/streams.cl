/* Fill the table of streams (README_CHUNK_FORMAT.rst, "The blocks / splits section"): a work-group a chunk. */
__kernel void blosc_streams(__global const uchar *stored, __global const chunk_t *chunks,
                            __global stream_t *streams, uint nbytes, __global int *failed)
{
    const chunk_t c = chunks[get_group_id(0)];
    __global const uchar *p = stored + c.from;
    const uint blocks = (nbytes - 1) / c.block + 1;
    for (uint b = get_local_id(0); b < blocks; b += get_local_size(0)) {
        const uint begin = b * c.block, bytes = min(c.block, nbytes - begin);
        const uint splits = bytes < c.block ? 1 : c.splits;
        __global stream_t *row = streams + c.first + (ulong)b * c.splits;
        uint at = c.copied ? HEADER + begin : chf_le32(p + HEADER + 4 * b);
        bool wrong = false;
        for (uint j = 0; j < splits; j++) {
            stream_t s = { c.from, c.to + begin, bytes / splits, bytes / splits, STREAM_WRONG, 0 };
            s.to += (ulong)j * s.capacity;
            if (!c.copied) {
                wrong = wrong || at > c.cbytes - 4;
                s.size = wrong ? 0 : chf_le32(p + at);
                at += 4;
                wrong = wrong || s.size > c.cbytes - at;
            }
            s.from += at;
            if (!wrong) s.kind = s.size == s.capacity ? STREAM_RAW : c.kind;
            row[j] = s;
            at += s.size;
        }
        if (wrong) *failed = 1;
    }
}
