/* Compare the checksum of each chunk that has one: the lower half of XXH64 with seed 0 (RFC 8878, 3.1.1;
 * https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md). Four work-items a chunk, one a stripe's lane.
 */
#define CHUNKS 8 /* of a work-group */
#define AHEAD 8  /* stripes that are under way */
#define P1 0x9E3779B185EBCA87UL
#define P2 0xC2B2AE3D27D4EB4FUL
#define P3 0x165667B19E3779F9UL
#define P4 0x85EBCA77C2B2AE63UL
#define P5 0x27D4EB2F165667C5UL
#define ROUND(v, x) (rotate((v) + (x) * P2, 31UL) * P1)

__kernel __attribute__((reqd_work_group_size(4 * CHUNKS, 1, 1)))
void checksums(__global chunk_t *chunks, uint n, __global const uchar *decoded)
{
    __local ulong lanes[4 * CHUNKS];
    const uint local_id = get_local_id(0), lane = local_id % 4, number = get_group_id(0) * CHUNKS + local_id / 4;
    __global chunk_t *chunk = chunks + min(number, n - 1);
    const bool on = number < n && !chunk->error && chunk->flags & HAS_CHECKSUM;
    const ulong size = on ? chunk->capacity : 0, stripes = size / 32;
    __global const uchar *from = decoded + chunk->to;
    __global const ulong *word = (__global const ulong *)from + lane;
    ulong v = lane == 0 ? P1 + P2 : lane == 1 ? P2 : lane == 2 ? 0 : 0 - P1, s = 0;
    for (; s + AHEAD <= stripes; s += AHEAD) {
        ulong x[AHEAD];
        #pragma unroll
        for (uint u = 0; u < AHEAD; u++) x[u] = word[4 * (s + u)];
        #pragma unroll
        for (uint u = 0; u < AHEAD; u++) v = ROUND(v, x[u]);
    }
    for (; s < stripes; s++) v = ROUND(v, word[4 * s]);
    lanes[local_id] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!on || lane) return;
    ulong h = P5, at = 32 * stripes;
    if (stripes) {
        __local const ulong *each = lanes + local_id;
        h = rotate(each[0], 1UL) + rotate(each[1], 7UL) + rotate(each[2], 12UL) + rotate(each[3], 18UL);
        for (uint k = 0; k < 4; k++) h = (h ^ ROUND(0, each[k])) * P1 + P4;
    }
    h += size;
    for (; at + 8 <= size; at += 8) h = rotate(h ^ ROUND(0, *(__global const ulong *)(from + at)), 27UL) * P1 + P4;
    if (at + 4 <= size) { h = rotate(h ^ chf_le32(from + at) * P1, 23UL) * P2 + P3; at += 4; }
    for (; at < size; at++) h = rotate(h ^ from[at] * P5, 11UL) * P1;
    h ^= h >> 33; h *= P2; h ^= h >> 29; h *= P3; h ^= h >> 32;
    if ((uint)h != chunk->checksum) chunk->error = BAD_CHECKSUM;
}
