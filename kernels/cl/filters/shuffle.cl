/* Undo the shuffle of numcodecs: of each chunk all first bytes of elements stand before all second ones, and so on. */
__kernel void undo_shuffle(__global const uchar *from, __global uchar *to, ulong from_step, ulong to_step,
                           ulong elements)
{
    const uint unit = get_global_id(0), all = (uint)elements;
    from += get_global_id(1) * from_step;
    to += get_global_id(1) * to_step;
    if (unit < all / 8) chf_eight_elements(to, from, all, unit, false);
    else if (unit == all / 8)
        for (uint n = 8 * unit; n < all; n++)
            for (uint j = 0; j < WIDTH; j++) to[(ulong)n * WIDTH + j] = from[(ulong)j * all + n];
}
