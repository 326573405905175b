/* Undo what was done to the blocks of each chunk before they were compressed: nothing; a shuffle, by which
 * the first bytes of all elements stand before all second ones, and so on; or a shuffle of bits
 * (c-blosc's shuffle-generic.h and bitshuffle-generic.c). Bytes behind the last whole element stay where they
 * are, and so do all where the elements are no multiple of eight and bits are shuffled.
 *
 * A work-item makes eight elements at a time.
 */
#ifndef WIDTH
#define WIDTH 4 /* bytes of an element */
#endif
#define UNIT (8 * WIDTH)

/* Eight bytes, from any place; `apart` bytes from one to the next. */
static ulong chf_eight(__global const uchar *p, uint apart)
{
    ulong bytes = 0;
    #pragma unroll
    for (uint k = 0; k < 8; k++) bytes |= (ulong)p[(ulong)k * apart] << 8 * k;
    return bytes;
}

/* Bit m of byte k becomes bit k of byte m (Hacker's Delight, 7-3). */
static ulong chf_transposed(ulong x)
{
    ulong t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAUL;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCUL;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0UL;
    return x ^ t ^ (t << 28);
}

/* Eight bytes of eight elements, of which `x` has all first bytes, all second ones and so on. */
static ulong chf_word(const ulong *x, uint number)
{
    ulong word = 0;
    #pragma unroll
    for (uint k = 0; k < 8; k++) {
        const uint at = 8 * number + k;
        word |= (x[at % WIDTH] >> at / WIDTH * 8 & 255) << 8 * k;
    }
    return word;
}

static void chf_eight_elements(__global uchar *to, __global const uchar *from, uint elements, uint group, bool bits)
{
    ulong x[WIDTH];
    const bool words = (((uint)(ulong)from | elements) & 7) == 0;
    #pragma unroll
    for (uint j = 0; j < WIDTH; j++) {
        if (bits) {
            const uint row = elements / 8;
            x[j] = chf_transposed(chf_eight(from + (ulong)j * elements + group, row));
        } else {
            __global const uchar *p = from + (ulong)j * elements + 8 * group;
            x[j] = words ? *(__global const ulong *)p : chf_eight(p, 1);
        }
    }
    to += (ulong)group * UNIT;
    if (((uint)(ulong)to & (WIDTH > 1 ? 15 : 7)) == 0) {
#if WIDTH > 1
        #pragma unroll
        for (uint w = 0; w < WIDTH; w += 2)
            ((__global ulong2 *)to)[w / 2] = (ulong2)(chf_word(x, w), chf_word(x, w + 1));
#else
        *(__global ulong *)to = x[0];
#endif
        return;
    }
    #pragma unroll
    for (uint w = 0; w < WIDTH; w++) {
        const ulong word = chf_word(x, w);
        #pragma unroll
        for (uint k = 0; k < 8; k++) to[8 * w + k] = (uchar)(word >> 8 * k);
    }
}

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
