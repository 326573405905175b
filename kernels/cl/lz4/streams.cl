/* Decode LZ4 blocks (lz4_Block_format.md), and copy raw streams: a work-group a stream.
 *
 * All work-items read the same tokens; literals and matches are copied by all, a match once what it copies
 * is written. The end of a block is as the format says: its last five bytes are literals, the last
 * match begins twelve bytes before it at least. Stored bytes are not trusted: lengths and offsets are compared
 * with what is left, and each turn of a loop takes a byte. Rooms have less than 2^31 bytes.
 */
#ifndef LANES
#define LANES 32
#endif
#define TOO_LONG 0x7fffffffu

/* Add the bytes of a long length, up to one that is not 255. */
static uint chf_length(__global const uchar *p, uint *at, uint size, uint capacity)
{
    uint length = 15, byte;
    do {
        if (*at >= size) return TOO_LONG;
        byte = p[(*at)++];
        length += byte;
    } while (byte == 255 && length <= capacity);
    return length;
}

static void chf_literals(__global uchar *to, __global const uchar *from, uint n, uint lane)
{
    if (n > LANES) chf_copy(to, from, n, lane, LANES);
    else if (lane < n) to[lane] = from[lane];
}

/* Copy n bytes from `offset` before them: where these are fewer, they are repeated. */
static void chf_match(__global uchar *to, uint offset, uint n, uint lane)
{
    __global const uchar *from = to - offset;
    if (n <= LANES) {
        if (lane < n) to[lane] = from[lane < offset ? lane : lane % offset];
    } else if (offset >= n) chf_copy(to, from, n, lane, LANES);
    else if (offset == 1) chf_repeat(to, from[0], n, lane, LANES);
    else {
        const uint step = LANES % offset;
        uint k = lane % offset;
        for (uint i = lane; i < n; i += LANES) {
            to[i] = from[k];
            k += step;
            if (k >= offset) k -= offset;
        }
    }
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void lz4_streams(__global const uchar *stored, __global const stream_t *streams, __global uchar *decoded,
                 __global int *failed)
{
    const stream_t s = streams[get_group_id(0)];
    const uint lane = get_local_id(0);
    __global const uchar *p = stored + s.from;
    __global uchar *to = decoded + s.to;
    if (s.kind == STREAM_RAW) chf_copy(to, p, s.capacity, lane, LANES);
    if (s.kind != STREAM_LZ4 && s.kind != STREAM_SIZED_LZ4) return;
    uint at = 0, made = 0, seen = 0; /* in what is stored; decoded bytes; those that all work-items see */
    bool wrong = s.kind == STREAM_SIZED_LZ4 && chf_le32(p - 4) != s.capacity;
    while (!wrong) {
        wrong = at >= s.size;
        if (wrong) break;
        const uint token = p[at++];
        uint literals = token >> 4, match = token & 15;
        if (literals == 15) literals = chf_length(p, &at, s.size, s.capacity);
        wrong = literals > s.size - at || literals > s.capacity - made;
        if (wrong) break;
        chf_literals(to + made, p + at, literals, lane);
        at += literals; made += literals;
        if (at == s.size) { wrong = made != s.capacity; break; }
        wrong = s.size - at < 8 || s.capacity - made < 12;
        if (wrong) break;
        const uint offset = chf_le16(p + at);
        at += 2;
        if (match == 15) match = chf_length(p, &at, s.size, s.capacity);
        match += 4;
        wrong = !offset || offset > made || match + 5 > s.capacity - made;
        if (wrong) break;
        if (made - offset + min(match, offset) > seen) {
            barrier(CLK_GLOBAL_MEM_FENCE);
            seen = made;
        }
        chf_match(to + made, offset, match, lane);
        made += match;
    }
    if (wrong && lane == 0) *failed = 1;
}
