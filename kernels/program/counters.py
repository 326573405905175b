"""Tables of counters, to one of which each element adds 1."""

from __future__ import annotations

from chunkfold.kernels.expressions.style import ONE
from chunkfold.kernels.program.elements import head
from chunkfold.kernels.program.kind import Kind
from chunkfold.kernels.program.texts import assigned, instance, joined, library


class Counters(Kind):
    """A table of counters; its state is where that stands."""

    told = "counters"
    held = False
    on_vectors = False

    def source(self) -> str:
        """Return what it defines."""
        c, (field,) = self.name, self.part.fields
        one = f"""\
typedef struct {{ CHF_TABLE table; }} {c}_state;
static void {c}_begin({c}_state *state) {{ state->table = 0; }}
{head(c, self.part, self.accumulator)}
    long counter;
{assigned([("counter", field.lift)], ONE)}
    if (counter >= 0 && counter < {field.entries})
        chf_count(state->table + counter);
}}"""
        return joined([one, instance(c, library("single_lanes.clh"), TABLED=1)])
