"""Emit an exact sum: an expansion in registers, with limbs behind it or without."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.expressions.operations import cast
from chunkfold.kernels.expressions.style import LANES
from chunkfold.kernels.kinds.exact_digits import exact_by_key
from chunkfold.kernels.kinds.kind import KeyedCode, KeyedPlace, Kind
from chunkfold.kernels.kinds.polynomial_code import (
    dtypes_of,
    factors,
    factors_of_lanes,
    monomials,
    on_lanes,
)
from chunkfold.kernels.opencl.element_code import element, head_of_lanes, names, where_ignored
from chunkfold.kernels.opencl.inputs import lanes_readable
from chunkfold.kernels.opencl.opencl_code import assigned, instance, joined, library


class ExactSum(Kind):
    """An exact sum of floats: an expansion, which a table of limbs stands behind or none."""

    description = "an exact sum"
    is_exact = True

    @property
    def on_vectors(self) -> bool:
        """True if lanes are readable and each element is few enough doubles."""
        values, skips = dtypes_of(self.accumulator.value), self.component.ignored is not None
        return lanes_readable(self.accumulator) and on_lanes(
            self.component.fields[0], values, skips=skips
        )

    @property
    def has_keep(self) -> bool:
        """True if it has limbs, to which c0_keep moves the expansion."""
        return self.component.table is not None

    @property
    def has_settle(self) -> bool:
        """True if it is an expansion without limbs, which has many forms."""
        return self.component.table is None

    @property
    def has_ended(self) -> bool:
        """True for an expansion, of which a group has one: limbs are not in lanes."""
        return self.on_vectors and self.component.table is None

    @property
    def limbs(self) -> Limbs:
        """Layout of its limbs."""
        assert self.component.limbs is not None
        return self.component.limbs

    @property
    def n_terms(self) -> int:
        """Number of doubles of its expansion."""
        return self.limbs.terms if self.has_keep else self.limbs.kept

    def source(self) -> str:
        """Return what it defines."""
        limbs, field, powers = self.limbs, self.component.fields[0], bool(self.limbs.power)
        sums = library("limb_sums.clh" if self.has_keep else "compact_sums.clh")
        texts = [self._elements(lanes=powers and self.on_vectors), sums]
        streams = [library("exact_sums.clh")]
        if not powers:
            texts += [
                factors(self.name, self.component, self.accumulator, fp64=True),
                library("polynomials.clh"),
            ]
        if not self.on_vectors:
            streams += [library("single_lanes.clh"), library("single_ends.clh")]
        elif not powers:
            streams += [
                factors_of_lanes(self.name, self.component, self.accumulator),
                library("polynomial_lanes.clh"),
            ]
        macros = {} if powers else monomials(field, self.accumulator, fp64=True)
        return instance(
            self.name,
            *texts,
            *streams,
            KEPT=self.n_terms,
            FIRST=limbs.terms,
            LIMBS=limbs.count,
            LOW=limbs.low,
            POWER=limbs.power,
            PAIRED=int(limbs.paired),
            TABLED=int(self.has_keep),
            VECTORED=int(self.on_vectors),
            **macros,
        )

    def by_key(self, place: KeyedPlace) -> KeyedCode:
        """Return its digits."""
        return exact_by_key(self.component, place, names(self.accumulator))

    def _elements(self, *, lanes: bool) -> str:
        """Return what makes an element a double, and lanes of them: 0 of what is ignored."""
        lift = cast(self.component.fields[0].lift, np.dtype(np.float64))
        one = element(self.name, self.component, self.accumulator, lift)
        if not lanes:
            return one
        return f"""\
{one}
static chf_doubles {self.name}_elements(const values_t *v, ulong i0, ulong di)
{{
{head_of_lanes(self.component, self.accumulator)}
    chf_doubles y;
{assigned([("y", lift)], LANES)}
{where_ignored(self.component, "float64", "y", "(chf_doubles)(0)")}
    return y;
}}"""


class LimbSum(ExactSum):
    """An exact sum of floats kept in limbs alone, for devices without float64."""

    on_vectors = False

    def source(self) -> str:
        """Return what it defines."""
        c, limbs, field = self.name, self.limbs, self.component.fields[0]
        one, macros = element(c, self.component, self.accumulator, field.lift), {}
        if limbs.power:
            y = f"{c}_element(v, i), {limbs.power - 1}"
            step = f"""\
static void {c}_step({c}_state *s, value_t v, ulong i)
{{
    chf_deposit_float(s->table, {limbs.count}, {limbs.low}, {y});
}}"""
        else:
            macros = monomials(field, self.accumulator, fp64=False)
            made = factors(c, self.component, self.accumulator, fp64=False)
            step = joined([made, library("polynomials.clh")])
        # It has nothing to add: limbs are in tables, and the host adds those up (fold/combine.py).
        struct = f"""\
typedef struct {{ CHF_TABLE table; }} {c}_t;
static {c}_t {c}_zero(void) {{ {c}_t z; z.table = 0; return z; }}
static {c}_t {c}_op({c}_t a, {c}_t b) {{ return a; }}
static void {c}_keep({c}_t *s) {{}}"""
        return instance(
            c,
            *(one, struct, library("own_state.clh"), step),
            *(library("single_lanes.clh"), library("single_ends.clh")),
            KEPT=0,
            LIMBS=limbs.count,
            LOW=limbs.low,
            TABLED=1,
            **macros,
        )
