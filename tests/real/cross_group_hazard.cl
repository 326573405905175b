/* A fault of published reductions, kept to see that the checker sees it: a tree over global memory
 * with one barrier, which orders the items of a group but not those of different groups. */
__kernel void cross_group_hazard(__global int *data)
{
    const uint item = get_global_id(0);
    for (uint stride = get_global_size(0) / 2; stride > 0; stride >>= 1) {
        if (item < stride)
            data[item] += data[item + stride];
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
}
