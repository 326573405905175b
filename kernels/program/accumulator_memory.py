"""Emit how accumulators are read from and written to the scalars of a partial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chunkfold.kernels.accumulator.accumulator import Accumulator
from chunkfold.kernels.dtypes import FIELD
from chunkfold.kernels.kinds.kind import Kind
from chunkfold.kernels.opencl.opencl_code import joined


class SlotInMemory(NamedTuple):
    """One scalar of an accumulator: its member, its C type, and where its array starts."""

    member: str
    ctype: str
    at: str


def memory(accumulator: Accumulator, kinds: Sequence[Kind]) -> str:
    """Return the source of accumulators in memory: one array per slot, behind one another.

    `chf_put` leaves what the next fold or the host may read; `chf_store` leaves sums as they are.
    """
    slots = _slots(accumulator)
    # Expansions leave for memory in the one form that their value has.
    sums = [kind.name for kind in kinds if kind.has_settle]
    gets = [f"    a.{member} = ((__global const {ctype} *){at})[k];" for member, ctype, at in slots]
    stores = [f"    ((__global {ctype} *){at})[k] = a.{member};" for member, ctype, at in slots]
    return f"""\
#define CHF_SLOT_BYTES {sum(slot.dtype.itemsize for slot in accumulator.scalars)}
static acc_t chf_get(__global const uchar *p, ulong n, ulong k)
{{
    acc_t a{" = chf_zero()" if accumulator.in_limbs or not gets else ""};
{joined(gets)}
    return a;
}}
static void chf_store(__global uchar *p, ulong n, ulong k, acc_t a)
{{
{joined(stores)}
}}
static void chf_leave_one(__global uchar *p, ulong n, ulong k, acc_t a, uint fresh)
{{
{"    chf_keep(&a);" if any(kind.has_keep for kind in kinds) else ""}
    chf_store(p, n, k, fresh ? a : chf_op(chf_get(p, n, k), a));
}}
{_settling(sums, slots)}
{_leaving(kinds, slots)}"""


def _settling(sums: Sequence[str], slots: list[SlotInMemory]) -> str:
    """Settle the sums of eight accumulators side by side: one by one takes a CPU long."""
    if not sums:
        return "#define CHF_SETTLES 0\n#define chf_put chf_store"
    lines = []
    for c in sums:
        places = [at for member, _, at in slots if member.startswith(f"{c}.")]
        loads = ", ".join(f"vload8(0, (__global const double *){at} + k)" for at in places)
        stores = [
            f"            vstore8(a[{n}], 0, (__global double *){at} + k);"
            for n, at in enumerate(places)
        ]
        lines.append(f"""\
    {{
        double8 a[] = {{ {loads} }};
        if (chf_settle_eight(a, {len(places)})) {{
{joined(stores)}
        }} else {{
            odd = 1;
        }}
    }}""")
    settles = " ".join(f"{c}_settle(&a.{c});" for c in sums)
    return f"""\
#define CHF_SETTLES 1
static void chf_put(__global uchar *p, ulong n, ulong k, acc_t a)
{{
    {settles}
    chf_store(p, n, k, a);
}}
#if CHF_STRIP
static void chf_put_eight(__global uchar *p, ulong n, ulong k)
{{
    int odd = 0;
{joined(lines)}
    for (int j = 0; odd && j < 8; j++)
        chf_put(p, n, k + j, chf_get(p, n, k + j));
}}
#endif"""


def _leaving(kinds: Sequence[Kind], slots: list[SlotInMemory]) -> str:
    """Return the code that stores lanes as accumulators, or merges them into stored ones.

    Exact sums begin with the stored accumulator; others are merged with it in the end. Vectors of
    lanes do it, as one lane after another takes as long as folding dozens of elements.
    """
    if not all(kind.has_ended for kind in kinds):
        return "#define CHF_LEAVES 0\n#define CHF_RESUMES 0"
    ends, resumes = [], []
    for kind in kinds:
        c, h = kind.name, kind.holder
        own = [slot for slot in slots if slot.member.startswith(f"{c}.")]
        gathers = [f"CHF_GATHER(0, (__global const {t} *){at} + k)" for _, t, at in own]
        if kind.is_exact:
            ends.append(f"    const {c}_states {c} = s->{c};")
            pairs = zip(own, gathers, strict=True)
            resumes += [f"    s->{slot.member} = {gather};" for slot, gather in pairs]
            continue
        ends.append(f"    {c}_accs {c} = {c}_ended(&s->{h});")
        members = [slot.member.partition(".")[2] for slot in own]
        there = ", ".join(map(".{} = {}".format, members, gathers))
        ends.append(f"    if (!fresh) {c} = {c}_merged(({c}_accs){{ {there} }}, {c});")
    leaves = [f"    CHF_SPREAD({m}, (__global {t} *){at} + k);" for m, t, at in slots]
    return f"""\
#define CHF_LEAVES 1
#define CHF_RESUMES 1
static void chf_resume(states_t *s, __global const uchar *p, ulong n, ulong k)
{{
{joined(resumes)}
}}
static void chf_leave(states_t *s, __global uchar *p, ulong n, ulong k, uint fresh)
{{
#if CHF_GRID
    if (s->grid.count)
        chf_leave_grid(s);
#endif
{joined([*ends, *leaves])}
}}"""


def _slots(accumulator: Accumulator) -> list[SlotInMemory]:
    slots = []
    offset = 0
    for slot in accumulator.scalars:
        member = f"c{slot.component}.{slot.member}"
        slots.append(SlotInMemory(member, FIELD[slot.field.dtype], f"(p + {offset}UL * n)"))
        offset += slot.dtype.itemsize
    return slots
