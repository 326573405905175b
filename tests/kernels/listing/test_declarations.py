"""What nothing refers to goes; kernels, and what they refer to, stay as they are."""

from __future__ import annotations

import pytest

from chunkfold.kernels.listing.declarations import declarations, used


def kernel(body: str) -> str:
    return f"__kernel void k(void) {{ {body} }}"


def kept(source: str) -> list[str]:
    return [one.name for one in used(declarations(source)) if not one.is_directive]


@pytest.mark.parametrize(
    ("declared", "use"),
    [
        ("static int f(int x) { return x; }", "f(1);"),
        ("static int f(int x);", "f(1);"),
        ("static __attribute__((noinline)) void f(void) { if (1) { } }", "f();"),
        ("typedef struct { int a[4]; } f;", "f x;"),
        ("typedef float f;", "f x;"),
        ("typedef float f[2][3 * 2];", "f x;"),
        ("struct f { int a; };", "struct f x;"),
        ("__constant int f[] = { 1, 2, 3 };", "int x = f[1];"),
        ("constant float f = 1e-3f;", "float x = f;"),
        ("enum { f, g };", "int x = g;"),
    ],
)
def test_what_is_referred_to_stays_and_else_goes(declared: str, use: str):
    assert len(kept(f"{declared} {kernel(use)}")) == 2
    assert kept(f"{declared} {kernel('')}") == ["k"]


def test_what_is_referred_to_by_what_goes_goes_too():
    source = "static int f(void) { return 1; } static int g(void) { return f(); }"
    assert kept(f"{source} {kernel('')}") == ["k"]
    assert kept(f"{source} {kernel('g();')}") == ["f", "g", "k"]


def test_functions_that_call_themselves_alone_go():
    assert kept(f"static int f(void) {{ return f(); }} {kernel('')}") == ["k"]


def test_whatever_others_may_see_stays():
    assert kept("int f(int x) { return x; } void g(void);") == ["f", "g"]


def test_names_in_texts_and_comments_do_not_count():
    source = "static int f(void) { return 1; }" + kernel('/* f */ char x[] = "f }"; // f\n')
    assert kept(source) == ["k"]


def test_pragmas_stay_between_and_within_declarations():
    source = "#pragma OPENCL FP_CONTRACT OFF\n" + kernel("\n#pragma unroll\nfor (;;) {} ")
    between, one = used(declarations(source))
    assert between.is_directive
    assert "#pragma unroll" in [token.text for token in one.tokens]


def test_declarations_know_where_they_are_from():
    source = '#line 1 "a.cl"\nint x;\n#line 7 "b c"\nvoid f(void)\n{\n#line 3 "d"\n}\nint y;'
    assert [(one.name, one.place) for one in declarations(source)] == [
        ("x", "a.cl"),
        ("f", "b c"),
        ("y", "b c"),
    ]
