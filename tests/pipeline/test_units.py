"""Numbers are read as they are written: digits from 0 to 9, and nothing between them."""

from __future__ import annotations

import math

import pytest

from chunkfold.units import integer, number, size_bytes

ODD = ["1_0", "٣", "٤", "1²", "", " ", "+", "1 0", "0x10", "--1"]
"""Of which Python takes the first three for numbers."""


@pytest.mark.parametrize("read", [integer, number, size_bytes])
@pytest.mark.parametrize("text", ODD)
def test_what_only_looks_like_a_number_is_none(read, text: str):
    with pytest.raises(ValueError, match="is not a number"):
        read(text)


@pytest.mark.parametrize("text", ["0", "-7", "+12", " 5 ", "9" * 30])
def test_integers_are_python_s(text: str):
    assert integer(text) == int(text)


@pytest.mark.parametrize("text", ["0", "-1.5", ".5", "5.", "1e-3", "+2E5", "inf", "-Infinity"])
def test_numbers_are_python_s(text: str):
    assert number(text) == float(text)
    assert math.isnan(number("NaN"))


@pytest.mark.parametrize("text", ["1.5", "5.0", "inf", "1e3"])
def test_an_integer_has_no_fraction(text: str):
    with pytest.raises(ValueError, match="is not a number"):
        integer(text)
