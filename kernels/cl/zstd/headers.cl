/* Walk the frames of each chunk: headers of frames (RFC 8878, 3.1.1.1), of blocks (3.1.1.2), of their
 * literals (3.1.1.3.1.1) and sequences (3.1.1.3.2.1). Frames that are to be skipped (3.1.2) are.
 *
 * Twice: first to count, then, once the host has placed each chunk in the tables, to fill these.
 */
typedef struct { __global const uchar *p; ulong at, end, content, most; uint flags; } frame_t;

/* Read a frame's header; return what is wrong. */
static int chf_frame_header(frame_t *f)
{
    if (f->end - f->at < 6) return CUT_OFF;
    if (chf_le32(f->p + f->at) != 0xFD2FB528u) return BAD_MAGIC;
    const uint descriptor = f->p[f->at + 4], single = descriptor >> 5 & 1;
    const uint id_bytes = (1u << (descriptor & 3)) >> 1, width = descriptor >> 6 ? 1u << (descriptor >> 6) : single;
    f->at += 5;
    if (descriptor & 8) return BAD_HEADER;
    if (f->end - f->at < !single + id_bytes + width) return CUT_OFF;
    ulong window = 0;
    if (!single) {
        const uint byte = f->p[f->at++], log = 10 + (byte >> 3);
        if (log > 31) return BAD_HEADER;
        window = ((ulong)1 << log) + (((ulong)1 << log) >> 3) * (byte & 7);
    }
    for (uint i = 0; i < id_bytes; i++)
        if (f->p[f->at++]) return HAS_DICTIONARY;
    f->content = width == 2 ? 256 : 0;
    for (uint i = 0; i < width; i++) f->content += (ulong)f->p[f->at++] << 8 * i;
    if (single) window = f->content;
    if (!width) f->content = UNKNOWN;
    /* libzstd refuses larger windows where it must keep them. */
    if (!width && window > ((ulong)1 << 27) + 1) return BAD_HEADER;
    f->most = min(window, (ulong)BLOCK_MOST);
    f->flags = descriptor >> 2 & 1 ? HAS_CHECKSUM : 0;
    return 0;
}

/* Read the heads of a compressed block's literals and sequences; return what is wrong. */
static int chf_block_heads(__global const uchar *q, uint number, block_t *b, block_t *known)
{
    if (b->stored < 2) return BAD_BLOCK;
    const uint kind = q[0] & 3, form = q[0] >> 2 & 3;
    uint head, size, stored;
    if (kind < LITERALS_HUFFMAN) {
        head = form == 1 ? 2 : form == 3 ? 3 : 1;
        if (head > b->stored) return BAD_LITERALS;
        size = head == 1 ? q[0] >> 3 : head == 2 ? chf_le16(q) >> 4 : chf_le24(q) >> 4;
        stored = kind == LITERALS_RLE ? 1 : size;
    } else {
        head = form == 3 ? 5 : form == 2 ? 4 : 3;
        if (head > b->stored) return BAD_LITERALS;
        const uint bits = form == 3 ? 18 : form == 2 ? 14 : 10, mask = (1u << bits) - 1;
        ulong v = chf_le24(q);
        if (head > 3) v |= (ulong)q[3] << 24;
        if (head > 4) v |= (ulong)q[4] << 32;
        size = (uint)(v >> 4) & mask;
        stored = (uint)(v >> (4 + bits)) & mask;
        b->streams = form ? 4 : 1;
        if (!stored || !size || (form && (size < 6 || stored < 10))) return BAD_LITERALS;
        if (kind == LITERALS_HUFFMAN) known->tree = number;
        if (known->tree == NONE) return BAD_TREE;
        b->tree = known->tree;
    }
    if (size > b->most || stored > b->stored - head) return BAD_LITERALS;
    b->literals_kind = kind; b->literals_size = size; b->literals_stored = stored; b->literals_head = head;
    uint at = head + stored;
    if (at >= b->stored) return BAD_SEQUENCES;
    uint count = q[at++];
    if (count > 127) {
        const uint more = count < 255 ? 1 : 2;
        if (b->stored - at < more) return BAD_SEQUENCES;
        count = count < 255 ? (count - 128) << 8 | q[at] : chf_le16(q + at) + 0x7F00;
        at += more;
    }
    b->sequence_count = count;
    b->size = size;
    if (count) {
        /* A match has three bytes at least. */
        if (at >= b->stored || count > b->most / 3 || q[at] & 3) return BAD_SEQUENCES;
        b->modes = q[at++];
        if ((b->modes >> 6) != 3) known->lengths = number;
        if ((b->modes >> 4 & 3) != 3) known->offsets = number;
        if ((b->modes >> 2 & 3) != 3) known->matches = number;
        if (known->lengths == NONE || known->offsets == NONE || known->matches == NONE) return BAD_TABLE;
        b->lengths = known->lengths; b->offsets = known->offsets; b->matches = known->matches;
    } else if (at != b->stored) return BAD_SEQUENCES;
    b->sequences_head = at;
    return 0;
}

__kernel void headers(__global const uchar *stored, __global chunk_t *chunks, uint n, __global block_t *blocks,
                      uint fills)
{
    const uint number = get_global_id(0);
    if (number >= n) return;
    __global chunk_t *chunk = chunks + number;
    if (fills && !chunk->blocks) return;
    frame_t f = { stored + chunk->from, 0, chunk->size, 0, 0, 0 };
    ulong literals = fills ? chunk->literals : 0, sequences = fills ? chunk->sequences : 0;
    uint count = 0, frames = 0, checksum = 0, flags = 0;
    int error = chunk->size ? 0 : CUT_OFF;
    while (!error && f.at < f.end) {
        if (f.end - f.at >= 8 && (chf_le32(f.p + f.at) & ~15u) == 0x184D2A50u) {
            const ulong skipped = chf_le32(f.p + f.at + 4);
            if (skipped > f.end - f.at - 8) error = CUT_OFF; else f.at += 8 + skipped;
            continue;
        }
        if ((error = chf_frame_header(&f))) break;
        block_t known = { 0 };
        known.tree = known.lengths = known.offsets = known.matches = NONE;
        frames++;
        for (uint last = 0, begins = 1; !last && !error; begins = 0) {
            if (f.end - f.at < 3) { error = CUT_OFF; break; }
            const uint header = chf_le24(f.p + f.at), kind = header >> 1 & 3, size = header >> 3;
            f.at += 3;
            last = header & 1;
            block_t b = { 0 };
            b.from = chunk->from + f.at; b.literals = literals; b.sequences = sequences;
            b.chunk = number; b.kind = kind; b.size = size; b.stored = kind == BLOCK_RLE ? 1 : size;
            b.begins = begins; b.content = f.content; b.most = (uint)f.most;
            if (kind > BLOCK_COMPRESSED || size > f.most) { error = BAD_BLOCK; break; }
            if (f.end - f.at < b.stored) { error = CUT_OFF; break; }
            if (kind == BLOCK_COMPRESSED
                && (error = chf_block_heads(f.p + f.at, (fills ? chunk->block : 0) + count, &b, &known))) break;
            if (b.sequence_count) {
                sequences += (b.sequence_count + 4) & ~3u;
                if (b.literals_kind >= LITERALS_HUFFMAN) literals += (b.literals_size + 15) & ~15u;
            }
            f.at += b.stored;
            if (fills) blocks[chunk->block + count] = b;
            count++;
        }
        if (error) break;
        if (f.content != UNKNOWN && f.content > chunk->capacity) error = OTHER_SIZE;
        if (f.flags & HAS_CHECKSUM) {
            if (f.end - f.at < 4) { error = CUT_OFF; break; }
            checksum = chf_le32(f.p + f.at);
            f.at += 4;
        }
        flags |= f.flags;
    }
    /* One checksum is compared, of all that a chunk has: others are for the host. */
    if (!error && flags & HAS_CHECKSUM && frames > 1) error = BAD_CHECKSUM;
    if (fills) return;
    chunk->flags = flags; chunk->checksum = checksum; chunk->error = error;
    chunk->blocks = error ? 0 : count;
    chunk->literals = error ? 0 : literals;
    chunk->sequences = error ? 0 : sequences;
}
