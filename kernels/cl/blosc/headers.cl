/* Read the header of each chunk (README_CHUNK_FORMAT.rst, "The header section"), and count its streams. */
static bool chf_header(__global const uchar *p, uint nbytes, chunk_t *c)
{
    if (c->size < HEADER) return false;
    const uint flags = p[2], kind = flags >> 5, width = p[3], block = chf_le32(p + 8), cbytes = chf_le32(p + 12);
    if (p[0] != 2 || flags & FLAG_RESERVED || !width || chf_le32(p + 4) != nbytes) return false;
    if (!block || block > nbytes || block > BLOCK_MOST || cbytes < HEADER || cbytes > c->size || cbytes >> 31)
        return false;
    const uint whole = nbytes / block, blocks = whole + (nbytes % block > 0);
    c->block = block; c->cbytes = cbytes; c->width = width; c->splits = 1;
    c->copied = flags & FLAG_COPIED;
    if (c->copied) {
        if (cbytes - HEADER != nbytes) return false;
        c->kind = STREAM_RAW; c->filter = FILTER_NONE;
    } else {
        if ((kind != FORMAT_LZ4 && kind != FORMAT_ZSTD) || p[1] != 1 || blocks > (cbytes - HEADER) / 4) return false;
        c->kind = kind == FORMAT_LZ4 ? STREAM_LZ4 : STREAM_ZSTD;
        c->filter = flags & FLAG_SHUFFLED && width > 1 ? FILTER_BYTES
                  : flags & FLAG_BITS_SHUFFLED ? FILTER_BITS : FILTER_NONE;
        if (c->filter && (width > 16 || width & (width - 1))) return false;
        if (!(flags & FLAG_NOT_SPLIT) && width <= SPLITS_MOST && block / width >= LEAST_STREAM) c->splits = width;
        if (block % c->splits) return false;
    }
    c->streams = whole * c->splits + (blocks - whole);
    return c->streams <= nbytes / LEAST_STREAM + 1;
}

__kernel void blosc_headers(__global const uchar *stored, __global chunk_t *chunks, uint n, uint nbytes,
                            __global int *failed)
{
    const uint number = get_global_id(0);
    if (number == 0) *failed = 0;
    if (number >= n) return;
    chunk_t c = chunks[number];
    if (!chf_header(stored + c.from, nbytes, &c)) c.streams = 0;
    chunks[number] = c;
}
