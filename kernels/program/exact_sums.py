"""Emit an exact sum: an expansion in registers, with limbs behind it or without."""

from __future__ import annotations

import numpy as np

from chunkfold.kernels.exact.limbs import Limbs
from chunkfold.kernels.expressions.operations import cast
from chunkfold.kernels.expressions.style import LANES, ONE
from chunkfold.kernels.program.elements import head, head_of_lanes, names
from chunkfold.kernels.program.inputs import lanes_readable
from chunkfold.kernels.program.kind import Kind
from chunkfold.kernels.program.polynomials import integer_step, polynomial_lanes, polynomial_step
from chunkfold.kernels.program.products import dtypes_of, on_lanes
from chunkfold.kernels.program.texts import assigned, declared, instance, library
from chunkfold.kernels.program.vectors import kept

_BEYOND = (
    "const chf_number parts[] = {{ {parts} }}; chf_deposit_product(s->table, LOW, parts, {count});"
)
"""What is done about a monomial that is not some doubles, where limbs begin at 2**LOW."""
_LOST = "s->a[LAST] = NAN;"
"""The same where there are no limbs, but LAST + 1 doubles."""


class ExactSum(Kind):
    """An exact sum of floats: an expansion, which a table of limbs stands behind or none."""

    told = "an exact sum"
    is_exact = True

    @property
    def on_vectors(self) -> bool:
        """Where elements are few enough doubles."""
        values, skips = dtypes_of(self.accumulator.value), self.part.absent is not None
        return lanes_readable(self.accumulator) and on_lanes(
            self.part.fields[0], values, skips=skips
        )

    @property
    def keeps(self) -> bool:
        """Into its limbs."""
        return self.part.table is not None

    @property
    def settles(self) -> bool:
        """An expansion without limbs, which has many forms."""
        return self.part.table is None

    @property
    def leaves(self) -> bool:
        """Where a group has one of: an accumulator of limbs is not in lanes."""
        return self.on_vectors and self.part.table is None

    @property
    def limbs(self) -> Limbs:
        """How it is kept."""
        assert self.part.limbs is not None
        return self.part.limbs

    @property
    def kept(self) -> int:
        """Doubles of its expansion."""
        return self.limbs.terms if self.keeps else self.limbs.kept

    def source(self) -> str:
        """Return what it defines."""
        limbs = self.limbs
        sink = library("limb_sums.clh" if self.keeps else "compact_sums.clh")
        lanes = [library("exact_sums.clh")]
        if limbs.power:
            texts = [self._elements(), sink]
        else:
            beyond = _BEYOND.replace("LOW", str(limbs.low)) if self.keeps else _LOST
            beyond = beyond.replace("LAST", str(self.kept - 1))
            texts = [sink, polynomial_step(self.name, self.part, self.accumulator, beyond)]
        if not self.on_vectors:
            lanes += [library("single_lanes.clh"), library("single_ends.clh")]
        elif not limbs.power:
            lanes.append(polynomial_lanes(self.name, self.part, self.accumulator))
        return instance(
            self.name,
            *texts,
            *lanes,
            KEPT=self.kept,
            FIRST=limbs.terms,
            LIMBS=limbs.count,
            LOW=limbs.low,
            POWER=limbs.power,
            PAIRED=int(limbs.paired),
            TABLED=int(self.keeps),
            VECTORED=int(self.on_vectors),
        )

    def _elements(self) -> str:
        """Return what makes an element a double, and lanes of them: 0 of what is absent."""
        c, absent = self.name, self.part.absent
        y = [("y", cast(self.part.fields[0].lift, np.dtype(np.float64)))]
        left_out = "    if (absent) return 0;"
        one = f"""\
static double {c}_element(value_t v, ulong i)
{{
{names(self.accumulator)}
{"" if absent is None else declared("absent", absent, ONE) + left_out}
    double y;
{assigned(y, ONE)}
    return y;
}}"""
        if not self.on_vectors:
            return one
        return f"""\
{one}
static chf_doubles {c}_elements(const values_t *v, ulong i0, ulong di)
{{
{head_of_lanes(self.part, self.accumulator)}
    chf_doubles y;
{assigned(y, LANES)}
{kept(self.part, "float64", "y", "(chf_doubles)(0)")}
    return y;
}}"""


class IntegerSum(ExactSum):
    """An exact sum on devices without float64: every element is deposited from its bits."""

    on_vectors = False

    def source(self) -> str:
        """Return what it defines."""
        c, limbs = self.name, self.limbs
        if limbs.power:
            step = f"""\
{head(c, self.part, self.accumulator)}
    float y;
{assigned([("y", self.part.fields[0].lift)], ONE)}
    chf_deposit_float(state->table, {limbs.count}, {limbs.low}, y, {limbs.power - 1});
}}"""
        else:
            step = integer_step(c, self.part, self.accumulator)
        kept = f"""\
typedef struct {{ CHF_TABLE table; }} {c}_t;
static {c}_t {c}_zero(void) {{ {c}_t z; z.table = 0; return z; }}
static {c}_t {c}_op({c}_t a, {c}_t b) {{ return a; }}
static void {c}_keep({c}_t *s) {{}}"""
        lanes = [library("single_lanes.clh"), library("single_ends.clh")]
        return instance(c, kept, library("own_state.clh"), step, *lanes, TABLED=1)
