"""Formatting moves what there is: the same tokens, in lines that a person can read."""

from __future__ import annotations

import numpy as np
import pytest

from chunkfold.kernels import as_monoid, bind
from chunkfold.kernels.catalogue.histograms import histogram
from chunkfold.kernels.fold.programs import programs
from chunkfold.kernels.geometry import box
from chunkfold.kernels.listing.declarations import declarations
from chunkfold.kernels.listing.formatted import WIDTH, formatted
from chunkfold.kernels.listing.tokens import tokens
from chunkfold.kernels.tuning.variant import tiers
from tests.conftest import DEVICES

BOXES = [box((1000,), (0,)), box((40, 90), (1,)), box((40, 90), (0,)), box((40, 9), (1,))]


def told(source: str) -> list[str]:
    return [line for one in declarations(source) for line in formatted(one)]


def words(text: str) -> list[str]:
    return [token.text for token in tokens(text) if token.text not in ("{", "}")]


@pytest.mark.parametrize(
    ("ops", "dtype", "outputs"),
    [("std argmax", "f4", 1), ("std", "f8", 40), ("nanmean histogram logsumexp", "i8", 40)],
)
def test_all_tokens_stay_in_order_and_lines_are_short(ops: str, dtype: str, outputs: int):
    device = DEVICES[0]
    monoids = [histogram([0, 1, 5]) if op == "histogram" else as_monoid(op) for op in ops.split()]
    bound = bind(monoids, [np.dtype(dtype)], exact=True, fp64=device.fp64)
    accumulator = bound.accumulator.for_outputs(outputs)
    tuning = next(tiers(device, accumulator))[0]
    for program in programs(device, accumulator, tuning, BOXES):
        for one in program.needed():
            lines = formatted(one)
            assert words("\n".join(lines)) == [
                token.text for token in one.tokens if token.text not in ("{", "}")
            ]
            assert max(map(len, lines)) <= WIDTH
            assert lines == told("\n".join(lines))  # there is nothing left to do


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("static int f(int x)\n{\n    return x;\n}", ["static int f(int x) { return x; }"]),
        ("typedef struct {\n  int a;\n} b;", ["typedef struct { int a; } b;"]),
        (
            "void f(void) {\n#pragma unroll\nfor (int j = 0; j < 4; j++) { g(j); } }",
            ["void f(void) {", "    #pragma unroll", "    for (int j = 0; j < 4; j++) g(j);", "}"],
        ),
        ("void f(void)\n{\n    {\n        s = 1;\n    }\n}", ["void f(void) { s = 1; }"]),
        # A name that stands elsewhere too is another one within braces.
        ("void f(void) { int t; { int t = 1; g(t); } h(t); }",
         ["void f(void) {", "    int t;", "    { int t = 1; g(t); }", "    h(t);", "}"]),
        ("void f(int t) { { int t = 1; g(t); } }",
         ["void f(int t) {", "    { int t = 1; g(t); }", "}"]),
        # An else belongs to the if that it belonged to.
        ("void f(void) { if (a) { if (b) x(); } else y(); }",
         ["void f(void) {", "    if (a) {", "        if (b) x();", "    } else y();", "}"]),
        ("void f(void) { do { x(); } while (y); }",
         ["void f(void) {", "    do { x(); } while (y);", "}"]),
    ],
)  # fmt: skip
def test_lines_are_as_a_person_would_write_them(source: str, lines: list[str]):
    assert told(source) == lines


def test_a_head_that_is_too_long_may_have_an_empty_body():
    assert told(f"void f({', '.join(f'int number{n}' for n in range(9))}) {{ }}")[-1] == "}"
    assert all(map(str.strip, told(f"void {'f' * 99}(void) {{ }}")))


def test_long_lines_are_broken_behind_commas():
    names = [f"number{n}" for n in range(30)]
    lines = told(f"void f(void) {{ g({', '.join(names)}); }}")
    assert len(lines) > 3
    assert max(map(len, lines)) <= WIDTH
    assert all(line.endswith((",", "{", ";", "}")) for line in lines)
