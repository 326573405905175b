"""Tables of counters, to which each element adds: 1 to one of them, or what it says."""

from __future__ import annotations

from chunkfold.kernels.accumulator.component import BoundField
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
{_counted(field)}
}}"""
        return joined([one, instance(c, library("single_lanes.clh"), TABLED=1)])


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
