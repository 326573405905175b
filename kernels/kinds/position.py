"""Components that are positions: the least or greatest key, and the first index that has it."""

from __future__ import annotations

from collections.abc import Sequence

from chunkfold.kernels.accumulator.component import BoundField
from chunkfold.kernels.dtypes import FIELD, literal
from chunkfold.kernels.expressions.style import LANES
from chunkfold.kernels.kinds.kind import KeyedCode, KeyedPlace, Kind
from chunkfold.kernels.kinds.plain import Plain, unsigned_key
from chunkfold.kernels.opencl.element_code import (
    lifted,
    mask,
    named_lanes,
    where_ignored,
    where_present,
    zero_lanes,
)
from chunkfold.kernels.opencl.opencl_code import assigned, instance, joined, library


class Position(Plain):
    """A key and an index; most elements are no nearer than what was found, and change nothing."""

    @property
    def description(self) -> str:
        """The extreme whose first position it is."""
        return f"the first position of the {self._key.op}"

    @property
    def _key(self) -> BoundField:
        return self.component.fields[0]

    @property
    def _index(self) -> BoundField:
        return self.component.fields[1]

    def collective(self, scope: str) -> str:
        """Return code that takes the least index among the items with the extreme key."""
        best, (key, index) = f"{self.name}_best", (self._key, self._index)
        at, none = f"a.{self.name}", literal("highest", index.dtype)
        held = f"{at}.{key.name} == {best} ? {at}.{index.name} : {none}"
        return f"""\
    const {FIELD[key.dtype]} {best} = {scope}_reduce_{key.op}({at}.{key.name});
    {at}.{index.name} = {scope}_reduce_min({held});
    {at}.{key.name} = {best};"""

    def source(self) -> str:
        """Return what it defines."""
        key = self._key
        present = "1" if self.component.ignored is None else "ignored == 0"
        ignored = where_ignored(self.component, key.dtype, "m", zero_lanes(key))
        look = f"""\
#if CHF_POSITIONS || CHF_PLACES
static void {self.name}_look({self.name}_nearest *nearest, const values_t *v)
{{
    {named_lanes(self.accumulator)}
{mask(self.component)}
    CHF_VEC({FIELD[key.dtype]}) m;
{joined([assigned([("m", key.lift)], LANES), ignored])}
    nearest->key = {key.op}(nearest->key, m);
#if CHF_PLACES
    nearest->present |= {present};
#endif
}}
#endif"""
        nearer = instance(
            self.name,
            library("position.clh"),
            look,
            KEY=key.name,
            KEY_TYPE=FIELD[key.dtype],
            INDEX=self._index.name,
            EXTREME=key.op if isinstance(key.op, str) else "",
            BEATS="<" if key.op == "min" else ">",
            FARTHEST=literal(key.zero, key.dtype),
        )
        return joined([super().source(), nearer])

    def by_key(self, place: KeyedPlace) -> KeyedCode:
        """Keep extremes; then find their least index in a second look at the elements.

        Of indices the greatest complement is kept: 0 is that of nothing.
        """
        key, of_extremes = self._key, super().by_key(place)
        index, word = place.words[self._index.name], place.words[key.name]
        found = f"""\
{lifted(FIELD[key.dtype], "n", key)}
        volatile __global ulong *at = (volatile __global ulong *)words + {2 * index} * entries;
        if ({unsigned_key("n", key)} == (ulong)words[{2 * word} * entries] && *at < ~i)
            atom_max(at, ~i);"""
        member = f"a->{self.name}.{self._index.name}"
        ended = f"    if (words[{index}]) {member} = (long)~words[{index}];"
        return of_extremes._replace(
            find=where_present(self.component, found), end=joined([of_extremes.end, ended])
        )


def only_positions(kinds: Sequence[Kind]) -> bool:
    """Return whether all components are positions on vectors."""
    return all(isinstance(kind, Position) and kind.on_vectors for kind in kinds)


def where_positions(kinds: Sequence[Kind]) -> str:
    """Say how elements are passed over that can change no state: in batches, or one by one."""
    if not only_positions(kinds):
        return "#define CHF_POSITIONS 0\n#define CHF_PLACES 0"
    return f"""\
#define CHF_POSITIONS CHF_CPU
#if CHF_STRIP || CHF_LANES > 1
#define CHF_PLACES 0
#else
#define CHF_PLACES {len(kinds)}
#define CHF_NOWHERE 0xffffffffu
#endif"""


def positions(kinds: Sequence[Kind]) -> str:
    """Return what tells whether any of some elements may change a state, if all are positions."""
    if not only_positions(kinds):
        return ""
    names = [kind.name for kind in kinds]

    def each(template: str, between: str = " ") -> str:
        return between.join(template.format(c=c, n=n) for n, c in enumerate(names))

    return f"""\
#if CHF_POSITIONS || CHF_PLACES
typedef struct {{ {each("{c}_nearest {c};")} }} nearest_t;
static nearest_t chf_farthest(void)
{{
    nearest_t n;
    {each("n.{c} = {c}_farthest();")}
    return n;
}}
static void chf_look(nearest_t *nearest, const values_t *v)
{{
    {each("{c}_look(&nearest->{c}, v);")}
}}
static int chf_nearer(const acc_t *best, const nearest_t *nearest, ulong index)
{{
    return {each("{c}_nearer(&best->{c}, &nearest->{c}, index)", " || ")};
}}
#endif
#if CHF_PLACES
static void chf_note(nearest_t *nearest, uint *where, const nearest_t *found, uint batch)
{{
    {each("{c}_note(&nearest->{c}, &where[{n}], &found->{c}, batch);")}
}}
#endif"""
