/* Undo the delta of numcodecs: an element is the sum of all differences up to its own, in its dtype's arithmetic.
 *
 * A work-group goes through a chunk: each work-item adds EACH elements that stand side by side, the work-group adds
 * up what came of these, and each work-item goes through its elements again. Integers wrap around, so any order of
 * additions gives the same bits.
 */
#ifndef LANES
#define LANES 64
#endif
#define EACH 16

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void undo_delta(__global const uchar *from, __global uchar *to, ulong from_step, ulong to_step, ulong elements)
{
    __local DECODED_BITS sums[LANES];
    const uint lane = get_local_id(0);
    DECODED_BITS carried = 0;
    from += get_group_id(0) * from_step;
    to += get_group_id(0) * to_step;
    for (ulong begin = 0; begin < elements; begin += LANES * EACH) {
        const ulong first = begin + lane * EACH;
        DECODED_BITS own[EACH], sum = 0;
        for (uint k = 0; k < EACH; k++) {
            if (first + k < elements) sum += (DECODED_BITS)chf_encoded(from, first + k);
            own[k] = sum;
        }
        sums[lane] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint apart = 1; apart < LANES; apart *= 2) {
            const DECODED_BITS more = lane >= apart ? sums[lane - apart] : 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            sums[lane] += more;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        const DECODED_BITS before = carried + (lane ? sums[lane - 1] : 0);
        carried += sums[LANES - 1];
        for (uint k = 0; k < EACH; k++)
            if (first + k < elements) chf_store(to, first + k, CHF_AS(DECODED)((DECODED_BITS)(before + own[k])));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
