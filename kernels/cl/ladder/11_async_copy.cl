/* Rung 11: as rung 3, but elements come to local memory by async_work_group_copy. */
#include "tuning.clh"
#include "monoid.clh"
#include "group.clh"
#include "ladder/rung.clh"

__kernel __attribute__((reqd_work_group_size(CHF_LOCAL, 1, 1)))
void async_copy(CHF_INPUTS, ulong n, __global uchar *acc, ulong acc_n, __global ulong *seen)
{
    __local acc_t scratch[CHF_LOCAL];
    __local chf_raw_t staged[CHF_LOCAL];
    const uint lid = get_local_id(0);
    const ulong from = get_group_id(0) * (ulong)CHF_LOCAL;
    const ulong count = min(n - from, (ulong)CHF_LOCAL);
    event_t copied = async_work_group_copy(staged, p0 + from, count, 0);
    wait_group_events(1, &copied);
    const acc_t a = lid < count ? rung_of(chf_value_local(staged, lid), from + lid) : chf_zero();
    rung_put(chf_group_reduce(a, scratch), n, acc, acc_n, seen);
}
