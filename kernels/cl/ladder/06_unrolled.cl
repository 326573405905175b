/* Rung 6: every level unrolled. */
#include "tuning.clh"
#include "monoid.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void unrolled(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    const uint lid = get_local_id(0);
    scratch[lid] = rung_pair(CHF_INPUT_NAMES, n);
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint last = min(RUNG_LAST, 128);
#define RUNG_FIRST_LEVEL(half_size) \
    if (CHF_LOCAL >= 2 * (half_size) && 2 * (half_size) > last) { \
        RUNG_LEVEL(half_size); \
        barrier(CLK_LOCAL_MEM_FENCE); \
    }
    RUNG_FIRST_LEVEL(512) RUNG_FIRST_LEVEL(256) RUNG_FIRST_LEVEL(128) RUNG_FIRST_LEVEL(64)
    RUNG_FIRST_LEVEL(32) RUNG_FIRST_LEVEL(16) RUNG_FIRST_LEVEL(8) RUNG_FIRST_LEVEL(4)
    RUNG_FIRST_LEVEL(2) RUNG_FIRST_LEVEL(1)
    RUNG_LAST_LEVELS
    rung_put(scratch[0], n, acc, acc_n, seen);
}
