"""The preprocessor does what compilers do, for the directives of kernels."""

from __future__ import annotations

import pytest

from chunkfold.kernels import BuildError
from chunkfold.kernels.listing.preprocessed import preprocessed


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("#if CHF_N > 2 && !defined(X)\nyes\n#else\nno\n#endif", "yes"),
        ("#define V_(t, n) t##n\n#define V(t, n) V_(t, n)\nV(float, CHF_N) x;", "float4 x;"),
        ("#define X(a, ...) f(a, __VA_ARGS__)\nX(1, 2, 3)", "f(1, 2, 3)"),
        ("#define T(x) #x\nT(a b)", '"a b"'),
        ("#line 3 \"a.cl\"\nint x;", '#line 3 "a.cl"\nint x;'),
        ("#pragma unroll\nfor (;;);", "#pragma unroll\nfor (;;);"),
        ("#pragma OPENCL FP_CONTRACT OFF", "#pragma OPENCL FP_CONTRACT OFF"),
        ("0x1.8p-3f /* gone */ 1e+3", "0x1.8p-3f 1e+3"),
        ("#define CHF_ASK(p)\nCHF_ASK(q);", ";"),
    ],
)  # fmt: skip
def test_it_is_one_of_c99(source: str, want: str):
    assert preprocessed(source, ["-cl-std=CL3.0", "-DCHF_N=4"]) == want


@pytest.mark.parametrize("source", ["#error it is so\n", "#if (\n#endif\n"])
def test_faults_are_errors_and_nothing_is_printed(source: str, capfd: pytest.CaptureFixture):
    with pytest.raises(BuildError, match="source:1"):
        preprocessed(source, [])
    assert capfd.readouterr() == ("", "")
