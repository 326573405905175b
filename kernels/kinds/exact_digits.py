"""Add an element to the exact sum of its key: as digits, or to limbs where it has too many.

`f` is the number of the exact sum, `kernels/cl/keyed/digits.clh` says what digits are.
"""

from __future__ import annotations

from chunkfold.kernels.accumulator.component import BoundField, Component
from chunkfold.kernels.kinds.kind import KeyedCode, KeyedPlace
from chunkfold.kernels.opencl.element_code import lifted, where_present
from chunkfold.kernels.opencl.opencl_code import defined

MOST_DIGITS = defined("keyed/digits.clh", "CHF_MOST_DIGITS")
"""Digits of an exact sum, at most."""
_BITS = 34
"""Bits that a digit has at least where up to 2**28 elements are added."""


def ordinary_digits(component: Component) -> int:
    """Return how many digits hold an ordinary value of an exact sum."""
    limbs = component.limbs
    assert limbs is not None
    assert limbs.format is not None
    return min(MOST_DIGITS, -(-limbs.power * limbs.format.precision // _BITS))


def _sampled(f: int, field: BoundField) -> str:
    """Keep the greatest exponent of what is summed."""
    assert field.limbs is not None
    power = "y * y" if field.limbs.power == 2 else "y"
    of_value = f"max(exponents[{f}], chf_exponent({power}))"
    return f"{lifted('double', 'y', field)}\n    exponents[{f}] = {of_value};"


def _doubles(f: int, component: Component) -> tuple[str, list[str]]:
    """Return how an element is made doubles with an exact sum, and digits; and the doubles' names.

    `fits` says whether the digits are all of the value. Mostly one digit is.
    """
    field = component.fields[0]
    of = field.limbs
    assert of is not None
    value = lifted("double", "y", field)
    place = f"scales->scale[{f}], scales->base"
    if not of.paired:
        power = "y" if of.power == 1 else "y * y"
        digits = "1" if ordinary_digits(component) == 1 else "scales->digits"
        made = f"    const double z0 = {power};\n    long d[{MOST_DIGITS}];\n"
        made += f"    const int fits = chf_digits(z0, {place}, {digits}, d);"
        return f"{value}\n{made}", ["z0"]
    both = " & ".join(
        f"chf_digits(z{n}, {place}, scales->digits, d + {MOST_DIGITS * n})" for n in range(2)
    )
    return (
        f"""\
{value}
    const double size = fabs(y), z0 = y * y, z1 = fma(y, y, -z0);
    const int paired = size == 0 || (size > CHF_LEAST_SQUARED && size < CHF_MOST_SQUARED);
    long d[{2 * MOST_DIGITS}];
    const int fits = paired && ({both});""",
        ["z0", "z1"],
    )


def _added(f: int, digits: int) -> str:
    return " ".join(
        f"p->sums[{MOST_DIGITS * f + n % MOST_DIGITS}] += d[{n}];" for n in range(digits)
    )


def _digits_added(f: int, component: Component) -> str:
    """Add the digits of what is summed exactly, if they fit."""
    if ordinary_digits(component) == 1:
        return f"""\
    p->sums[{MOST_DIGITS * f}] += ((const long *)&of->digits[{f}])[j];
    left |= !((const long *)&of->fits[{f}])[j];"""
    made, doubles = _doubles(f, component)
    return f"""\
{made}
    if (fits) {{
        {_added(f, MOST_DIGITS * len(doubles))}
    }} else {{
        left = 1;
    }}"""


def _double_of(f: int, component: Component, known: str) -> str:
    """Return the function that makes an element a double, whether it is there or not."""
    of = component.fields[0].limbs
    assert of is not None
    return f"""\
static double chf_double{f}(value_t v, ulong i)
{{
{known}
{lifted("double", "y", component.fields[0])}
    return {"y" if of.power == 1 else "y * y"};
}}"""


def _first_digits(f: int) -> str:
    """Take the first digits of four elements at once."""
    each = ", ".join(f"chf_double{f}(v[{j}], i + {j} * di)" for j in range(4))
    place = f"scales->scale[{f}], scales->base"
    return f"    of->fits[{f}] = chf_first_digits((double4)({each}), {place}, &of->digits[{f}]);"


def _rest_added(f: int, component: Component, at: int) -> str:
    """Add what did not fit: more digits, or else to limbs."""
    of = component.fields[0].limbs
    assert of is not None
    made, doubles = _doubles(f, component)
    limbs, place = f"limbs + {at}, {of.count}, {of.low}", f"scales->scale[{f}], scales->base"
    each = "\n".join(
        f"""\
        if (chf_digits({double}, {place}, scales->digits, d)) {{
            {_added(f, MOST_DIGITS)}
        }} else {{
            chf_deposit({limbs}, {double});
        }}"""
        for double in doubles
    )
    square = f"    if (!fits && !paired)\n        chf_deposit_square({limbs}, y);\n    else"
    return f"""\
{made}
{square if of.paired else ""}
    if (!fits) {{
{each}
    }}"""


def _settled(f: int, field: BoundField, at: int) -> str:
    """Deposit the sums of digits in limbs."""
    assert field.limbs is not None
    limbs, low = f"limbs + {at}", field.limbs.low
    unit = f"chf_exponent_above(exponents[{f}]) - (int)bits * (int)(w % CHF_MOST_DIGITS + 1)"
    return (
        f"chf_deposit_sum({limbs}, {low}, low, {unit}); "
        f"chf_deposit_sum({limbs}, {low}, high, {unit} + 32);"
    )


def exact_by_key(component: Component, place: KeyedPlace, known: str) -> KeyedCode:
    """Return what an exact sum does by key; `known` names the elements."""
    f, field, quick = place.exact, component.fields[0], ordinary_digits(component) == 1
    settles = _settled(f, field, place.table)
    return KeyedCode(
        take=where_present(component, _digits_added(f, component)),
        take_rest=where_present(component, _rest_added(f, component, place.table)),
        sample=where_present(component, _sampled(f, field)),
        settle=f"if (w / CHF_MOST_DIGITS == {f}) {{ {settles} return; }}",
        doubles=_double_of(f, component, known) if quick else "",
        firsts=_first_digits(f) if quick else "",
    )
