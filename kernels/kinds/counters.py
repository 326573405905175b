"""Tables of counters, to which each element adds: 1 to one of them, or what it says."""

from __future__ import annotations

from chunkfold.kernels.accumulator.component import BoundField
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.kinds.kind import KeyedCode, KeyedPlace, Kind
from chunkfold.kernels.opencl.element_code import (
    head,
    head_of_lanes,
    lifted,
    where_ignored,
    where_present,
)
from chunkfold.kernels.opencl.inputs import lanes_readable
from chunkfold.kernels.opencl.opencl_code import assigned, instance, joined, library


class Counters(Kind):
    """A table of counters; its state is where that stands."""

    description = "counters"
    in_accumulator = False
    on_vectors = False

    def source(self) -> str:
        """Return what it defines."""
        c, (field,) = self.name, self.component.fields
        one = f"""\
typedef struct {{ CHF_TABLE table; }} {c}_state;
static void {c}_begin({c}_state *state) {{ state->table = 0; }}
{head(c, self.component, self.accumulator)}
{_counted(field)}
}}"""
        vectors = lanes_readable(self.accumulator) and not field.adds
        lanes = instance(c, library("single_lanes.clh"), TABLED=1, STEPPED=int(vectors))
        return joined([one, lanes, self._steps(field) if vectors else ""])

    def by_key(self, place: KeyedPlace) -> KeyedCode:
        """Count an element in the counters of its key."""
        (field,) = self.component.fields
        if field.adds:
            return KeyedCode(
                counted=f"""\
    {{
        {self.holder}_state s;
        s.table = tables + {place.table};
        {self.name}_step(&s, v, i);
    }}"""
            )
        counted = f"""\
{lifted("long", "counter", field)}
        if (counter >= 0 && counter < {field.entries})
            chf_count_on(&runs[{place.counter}], tables + {place.table} + counter);"""
        return KeyedCode(counted=where_present(self.component, counted))

    def _steps(self, field: BoundField) -> str:
        """Return what finds the counters of lanes together, and counts them one by one."""
        return f"""\
static void {self.name}_steps({self.name}_states *state, const values_t *v, ulong i0, ulong di)
{{
{head_of_lanes(self.component, self.accumulator)}
    CHF_VEC(long) counter;
{assigned([("counter", field.lift)], LANES)}
{where_ignored(self.component, "int64", "counter", "(CHF_VEC(long))(-1)")}
    long each[CHF_LANES];
    CHF_SPREAD(counter, each);
    #pragma unroll
    for (int j = 0; j < CHF_LANES; j++)
        if ((ulong)each[j] < {field.entries})
            chf_count(state->l[j].table + each[j]);
}}"""


def _counted(field: BoundField) -> str:
    """Count an element, or add to the counters that it names."""
    if not field.adds:
        return f"""\
    long counter;
{assigned([("counter", field.lift)], ONE)}
    if (counter >= 0 && counter < {field.entries})
        chf_count(state->table + counter);"""
    numbers = range(len(field.adds))
    pairs = [
        (f"{what}{n}", tree)
        for n, pair in enumerate(field.adds)
        for what, tree in zip(("counter", "amount"), pair, strict=True)
    ]
    adds = "\n".join(
        f"    if (counter{n} >= 0 && counter{n} < {field.entries})\n"
        f"        chf_add_to(state->table + counter{n}, amount{n});"
        for n in numbers
    )
    return f"""\
    long {", ".join(name for name, _ in pairs)};
{assigned(pairs, ONE)}
{adds}"""
