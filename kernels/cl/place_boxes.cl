/* Copy the boxes that are taken of chunks from where these were decoded to where they stand in a region.
 *
 * `geometry` has for each axis the stride in a chunk, and in the region; then for each chunk the first unit
 * in `decoded` and in `region`, and the box's extents, slowest axis first, the last in units.
 */
#ifndef UNIT
#define UNIT uint
#endif
__kernel void place_boxes(__global const UNIT *decoded, __global UNIT *region, __global const ulong *geometry,
                          uint axes, ulong most)
{
    __global const ulong *steps = geometry, *box = geometry + 2 * axes + get_global_id(1) * (2 + axes);
    for (ulong k = get_global_id(0); k < most; k += get_global_size(0)) {
        ulong left = k, from = box[0], to = box[1];
        for (uint axis = axes; axis-- > 0;) {
            const ulong extent = box[2 + axis], at = axis ? left % extent : left;
            left = axis ? left / extent : 0;
            if (axis == 0 && at >= extent) return;
            from += at * steps[2 * axis];
            to += at * steps[2 * axis + 1];
        }
        region[to] = decoded[from];
    }
}
