"""Components that take in elements their own way, in a state that ends as fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chunkfold.kernels.accumulator.component import BoundState, NamedTrees
from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.kernels.dtypes import FIELD, literal
from chunkfold.kernels.expressions.nodes import Node, walk
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.kinds.kind import KeyedCode, KeyedPlace
from chunkfold.kernels.kinds.plain import Plain
from chunkfold.kernels.monoid.checks import read_fields
from chunkfold.kernels.opencl.element_code import (
    head,
    head_of_lanes,
    mask_of,
    members,
    of_two,
    where_ignored,
)
from chunkfold.kernels.opencl.opencl_code import assigned, joined

_FIRSTS_BYTES = 4
"""Bytes of an element, at most, where lanes with a `first` are joined: that is more work."""


class Stateful(Plain):
    """Fields with a state: an `Accumulate`."""

    @property
    def _state(self) -> BoundState:
        assert self.component.state is not None
        return self.component.state

    @property
    def on_vectors(self) -> bool:
        """True unless elements may be ignored and NaN cannot mark lanes that have not begun."""
        return super().on_vectors and (not self._late or self._begins_as_nan())

    @property
    def has_firsts(self) -> bool:
        """True if c0_firsts does it; where elements may be ignored, each step looks for them."""
        return bool(self._state.first) and self.on_vectors and self.component.ignored is None

    @property
    def has_carries(self) -> bool:
        """True if the state has narrow fields; they save nothing without vectors."""
        return bool(self._state.carry) and self.on_vectors

    @property
    def joins(self) -> Mapping[str, Node]:
        """Trees that join two lanes which the same element began: the ops that steps use."""
        wide = self._state.first and max(self.accumulator.itemsizes) > _FIRSTS_BYTES
        if not self.on_vectors or self._late or wide:
            return {}
        return dict(traits_of(self.component).joins)

    @property
    def common(self) -> frozenset[str]:
        """Return the fields that depend on no element's value; none if elements may be ignored."""
        state = self._state
        if self.component.ignored is not None:
            return frozenset()
        carried = read_fields(*(tree for _, tree in state.carry))
        common = {name for name, _ in state.step} - dict(state.carry).keys() - carried
        while True:
            own = {
                name
                for name, tree in state.step
                if name in common and (_reads_element(tree) or read_fields(tree) - common)
            }
            if not own:
                return frozenset(common)
            common -= own

    @property
    def _late(self) -> Collection[str]:
        """Fields that are NaN in a lane until it meets an element that is present."""
        return dict(self._state.first) if self.component.ignored is not None else ()

    def _begins_as_nan(self) -> bool:
        """True if `first` stores the element itself, so that NaN can mark lanes without one."""
        return len(self.accumulator.value) == 1 and all(
            self.accumulator.value[0].startswith(("float", "bfloat"))
            and self._state.dtypes[name].startswith("float")
            and _is_element(tree)
            for name, tree in self._state.first
        )

    def _one(self) -> str:
        c, state = self.name, self._state
        fields = " ".join(f"{FIELD[d]} {name};" for name, d, _ in state.fields)
        starts = " ".join(f"state->{name} = {literal(v, d)};" for name, d, v in state.fields)
        first = ""
        if state.first:
            fields, starts = f"{fields} int _begun;", f"{starts} state->_begun = 0;"
            first = (
                f"    if (!s._begun) {{\n        s._begun = 1;\n{_set('s', state.first)}\n    }}"
            )
        # One element at a time nothing is gained by waiting.
        phases = [first, _set("s", state.step), _set("s", state.carry)]
        return f"""\
typedef struct {{ {fields} }} {c}_state;
static void {c}_begin({c}_state *state) {{ {starts} }}
{head(c, self.component, self.accumulator)}
    {c}_state s = *state;
{joined(phases)}
    *state = s;
}}"""

    def _ends(self) -> str:
        c = self.name
        return f"""\
static {c}_t {c}_end({c}_state s)
{{
    {c}_t r;
{_set("r", self._state.end)}
    return r;
}}
{super()._ends()}"""

    def _vectors(self) -> str:
        c, state, common = self.name, self._state, self.common
        starts = []
        for name, dtype, start in state.fields:
            kind = FIELD[dtype] if name in common else f"CHF_VEC({FIELD[dtype]})"
            value = "NAN" if name in self._late else literal(start, dtype)
            starts.append(f"s->{name} = ({kind})({value});")
        return f"""\
typedef struct {{ {members(state.dtypes, common)} }} {c}_states;
static void {c}_begins({c}_states *s) {{ {" ".join(starts)} }}
{self._firsts()}
static void {c}_steps({c}_states *state, const values_t *v, ulong i0, ulong di)
{{
{head_of_lanes(self.component, self.accumulator)}
{self._vector_step()}
}}
{self._carries()}"""

    def _vector_step(self) -> str:
        c, state, common = self.name, self._state, self.common
        lines = [f"    {c}_states s = *state, r = s;"]
        if self.component.ignored is not None:
            lines += [*self._firsts_where_present(), "    r = s;"]
        shared = [(f"r.{name}", tree) for name, tree in state.step if name in common]
        own = [(f"r.{name}", tree) for name, tree in state.step if name not in common]
        lines += [assigned(shared, ONE), assigned(own, LANES, common=common)]
        lines += [
            where_ignored(self.component, state.dtypes[name], f"r.{name}", f"state->{name}")
            for name, _ in state.step
            if name not in common
        ]
        return joined([*lines, "    *state = r;"])

    def _firsts(self) -> str:
        """Return what the first elements of lanes set, where none is ignored."""
        if not self.has_firsts:
            return ""
        sets = assigned([(f"s->{name}", tree) for name, tree in self._state.first], LANES)
        return f"""\
static void {self.name}_firsts({self.name}_states *s, const values_t *v, ulong i0, ulong di)
{{
{head_of_lanes(self.component, self.accumulator)}
{sets}
}}"""

    def _firsts_where_present(self) -> list[str]:
        """Return the code that sets `first` fields of lanes that have not begun.

        Such fields are NaN, and an element that is ignored leaves them NaN.
        """
        lines = []
        for name, tree in self._state.first:
            dtype, first = self._state.dtypes[name], f"first_{name}"
            begun = mask_of(dtype, f"s.{name} == s.{name}")
            lines.append(f"    CHF_VEC({FIELD[dtype]}) {first};")
            lines.append(assigned([(first, tree)], LANES))
            lines.append(f"    s.{name} = select({first}, s.{name}, {begun});")
        return lines

    def _carries(self) -> str:
        """Return what empties the narrow fields of lanes."""
        if not self.has_carries:
            return ""
        c, state = self.name, self._state
        sets = assigned([(f"s.{name}", tree) for name, tree in state.carry], LANES)
        return f"""\
static void {c}_carries({c}_states *state)
{{
    {c}_states s = *state;
{sets}
    *state = s;
}}"""

    def by_key(self, place: KeyedPlace) -> KeyedCode:
        """Add the state that one element makes; an ignored one makes the state of no elements."""
        h, c = self.holder, self.name
        adds = " ".join(f"{target} += s.{name};" for name, target in place.targets.items())
        sets = " ".join(f"s.{name} = words[{word}];" for name, word in place.words.items())
        begun = f"        {h}_state s;\n        {h}_begin(&s);"
        return KeyedCode(
            take=f"    {{\n{begun}\n        {h}_step(&s, v, i);\n        {adds}\n    }}",
            end=f"    {{\n{begun}\n        {sets}\n        a->{c} = {c}_end(s);\n    }}",
        )

    def _ended(self) -> str:
        c, h, state = self.name, self.holder, self._state
        dtypes = {f.name: f.dtype for f in self.component.fields}
        lanes = [f"    s.{field[0]} = {self._lanes_of(*field)};" for field in state.fields]
        ends = assigned([(f"r.{name}", tree) for name, tree in state.end], LANES)
        return f"""\
typedef struct {{ {members(dtypes)} }} {c}_accs;
static {c}_accs {c}_ended(const {h}_states *l)
{{
    struct {{ {members(state.dtypes)} }} s;
{joined(lanes)}
    {c}_accs r;
{ends}
    return r;
}}
{of_two(f"{c}_merged", f"{c}_accs", self._ops)}"""

    def _lanes_of(self, name: str, dtype: str, start: str) -> str:
        """Return a field of lanes; one that met no element has the value that states start with."""
        kind = f"(CHF_VEC({FIELD[dtype]}))"
        lanes = f"{kind}(l->{name})"
        if name not in self._late:
            return lanes
        begun = mask_of(dtype, f"l->{name} == l->{name}")
        return f"select({kind}({literal(start, dtype)}), {lanes}, {begun})"


def _set(holder: str, trees: NamedTrees) -> str:
    """Set fields of what `holder` names to the values of trees."""
    return assigned([(f"{holder}.{name}", tree) for name, tree in trees], ONE)


def _reads_element(tree: Node) -> bool:
    return any(one.op in ("input", "index") for one in walk([tree]))


def _is_element(tree: Node) -> bool:
    """Return whether a tree is an element, as a float of any size."""
    while tree.op == "cast" and tree.dtype.kind == "f":
        (tree,) = tree.sources
    return tree.op == "input"
