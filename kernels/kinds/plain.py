"""Components of fields that ops merge: what an element gives is put to them as it comes."""

from __future__ import annotations

from collections.abc import Mapping

from chunkfold.kernels.accumulator.component import BoundField
from chunkfold.kernels.accumulator.traits import Deposit, traits_of
from chunkfold.kernels.dtypes import FIELD, literal
from chunkfold.kernels.expressions.nodes import Node
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.kinds.kind import KeyedCode, KeyedPlace, Kind
from chunkfold.kernels.opencl.element_code import (
    head,
    head_of_lanes,
    lifted,
    members,
    of_two,
    where_ignored,
    where_present,
    zero_lanes,
)
from chunkfold.kernels.opencl.inputs import lanes_readable
from chunkfold.kernels.opencl.opencl_code import assigned, instance, joined, library


class Plain(Kind):
    """One field with a named op, or several that functions merge; its state is an accumulator."""

    @property
    def description(self) -> str:
        """The ops."""
        ops = (f.op if isinstance(f.op, str) else "an op of its own" for f in self.component.fields)
        return ", ".join(dict.fromkeys(ops))

    @property
    def on_vectors(self) -> bool:
        """True if elements are read as vectors."""
        return lanes_readable(self.accumulator)

    @property
    def has_ended(self) -> bool:
        """True if lanes are vectors: they are accumulators already."""
        return self.on_vectors

    @property
    def joins(self) -> Mapping[str, Node]:
        """The op of each field, if lanes are vectors."""
        return dict(self._ops) if self.on_vectors else {}

    @property
    def _ops(self) -> list[tuple[str, Node]]:
        return [(f.name, f.op_tree) for f in self.component.fields]

    def source(self) -> str:
        """Return what it defines."""
        streams = [self._one(), self._lanes()] if self.is_holder else [self._elsewhere()]
        return joined([self._accumulator(), *streams, self._ends()])

    def _accumulator(self) -> str:
        c, fields = self.name, self.component.fields
        return f"""\
typedef struct {{ {" ".join(f"{FIELD[f.dtype]} {f.name};" for f in fields)} }} {c}_t;
static {c}_t {c}_zero(void)
{{
    {c}_t z;
    {" ".join(f"z.{f.name} = {literal(f.zero, f.dtype)};" for f in fields)}
    return z;
}}
static {c}_t {c}_op({c}_t a, {c}_t b)
{{
    {c}_t r;
{assigned([(f"r.{name}", tree) for name, tree in self._ops], ONE)}
    return r;
}}"""

    def _elsewhere(self) -> str:
        return joined(f"typedef {self.holder}_{k} {self.name}_{k};" for k in ("state", "states"))

    def _one(self) -> str:
        """Return the state of one stream: start, step."""
        c = self.name
        return f"""\
{instance(c, library("own_state.clh"))}
{head(c, self.component, self.accumulator)}
    {c}_t l;
{assigned([(f"l.{f.name}", f.lift) for f in self.component.fields], ONE)}
    *state = {c}_op(*state, l);
}}"""

    def _lanes(self) -> str:
        """Return the states of lanes: start, step."""
        if self.on_vectors:
            return self._vectors()
        return instance(self.name, library("single_lanes.clh"), TABLED=0)

    def _vectors(self) -> str:
        c, fields = self.name, self.component.fields
        lifts = assigned([(f"b.{f.name}", f.lift) for f in fields], LANES)
        ignored = [
            where_ignored(self.component, f.dtype, f"b.{f.name}", zero_lanes(f)) for f in fields
        ]
        return f"""\
typedef struct {{ {members({f.name: f.dtype for f in fields})} }} {c}_states;
static void {c}_begins({c}_states *s)
{{
    {" ".join(f"s->{f.name} = {zero_lanes(f)};" for f in fields)}
}}
{of_two(f"{c}_merged", f"{c}_states", self._ops)}
static void {c}_steps({c}_states *state, const values_t *v, ulong i0, ulong di)
{{
{head_of_lanes(self.component, self.accumulator)}
    {c}_states b;
{joined([lifts, *ignored])}
    *state = {c}_merged(*state, b);
}}"""

    def _ends(self) -> str:
        """Return how lanes become accumulators, as vectors if they are such."""
        c, h = self.name, self.holder
        if not self.on_vectors:
            return instance(c, library("single_ends.clh"))
        # Unrolled, or PoCL's compiler scatters vectors to them.
        spreads = joined(
            f"""\
    {{
        {FIELD[f.dtype]} e[CHF_LANES];
        CHF_SPREAD(a.{f.name}, e);
        #pragma unroll
        for (int j = 0; j < CHF_LANES; j++)
            out[j].{f.name} = e[j];
    }}"""
            for f in self.component.fields
        )
        return f"""\
{self._ended()}
static void {c}_ends(const {h}_states *s, {c}_t *out)
{{
    const {c}_accs a = {c}_ended(s);
{spreads}
}}"""

    def _ended(self) -> str:
        """Return what makes vectors of accumulators of lanes."""
        c = self.name
        return f"""\
typedef {c}_states {c}_accs;
static {c}_accs {c}_ended(const {c}_states *l) {{ return *l; }}"""

    def by_key(self, place: KeyedPlace) -> KeyedCode:
        """Add up or compare the fields, which are integers."""
        fields = {field.name: field for field in self.component.fields}
        takes, ends = [], []
        for what, name in traits_of(self.component).deposits:
            if what is not Deposit.INDEX:
                taken = _taken(what, place.targets[name], fields[name])
                takes.append(where_present(self.component, taken))
                ends.append(self._keyed_end(place.words[name], fields[name]))
        return KeyedCode(take=joined(takes), end=joined(ends))

    def _keyed_end(self, word: int, field: BoundField) -> str:
        """Give a field what its word holds."""
        member, ctype = f"a->{self.name}.{field.name}", FIELD[field.dtype]
        if field.op == "add":
            return f"    {member} = ({ctype})words[{word}];"
        unsigned, flipped = flipped_key(field)
        value = f"as_{ctype}(({unsigned})words[{word}]{flipped})"
        return f"    {member} = {field.op}({member}, {value});"


def _taken(what: Deposit, target: str, field: BoundField) -> str:
    """Add to a target what a field lifts an element to, or keep the greatest of unsigned keys."""
    if what is Deposit.COUNT:
        return f"    {target} += 1;"
    if what is Deposit.SUM:
        return f"{lifted('long', 'n', field)}\n    {target} += n;"
    key = unsigned_key("n", field)
    return f"{lifted(FIELD[field.dtype], 'n', field)}\n    {target} = max({target}, {key});"


def unsigned_key(value: str, field: BoundField) -> str:
    """Return the unsigned key whose order is a field's; the order of the complements for minima."""
    unsigned, flipped = flipped_key(field)
    return f"(as_{unsigned}({value}){flipped})"


def flipped_key(field: BoundField) -> tuple[str, str]:
    """Return the unsigned type of a field's keys, and what flips the bits that differ in them.

    Compilers do not know of CHF_ALL_BITS that it is all bits, or they make wrong code of minima
    (kernels/cl/vectors.clh).
    """
    unsigned, sign = ("ulong", "1UL << 63") if "64" in field.dtype else ("uint", "1U << 31")
    flipped = "" if field.dtype.startswith("u") else f" ^ {sign}"
    return unsigned, f"{flipped} ^ ({unsigned})CHF_ALL_BITS" if field.op == "min" else flipped
