"""Python's operations that symbols refuse, since a value would decide them, and the remedies."""

from __future__ import annotations

INSTEAD = {
    "__bool__": "a symbol has no truth value: write cf.where(condition, a, b) for `if`, &, | and ~ "
    "for `and`, `or` and `not`, (0 < x) & (x < 1) for 0 < x < 1, np.minimum and np.maximum for "
    "min() and max()",
    "__int__": "a symbol is not a number yet: write x.astype('int64') for int(x)",
    "__float__": "a symbol is not a number yet: write x.astype('float64') for float(x), and np.exp "
    "and the like for math.exp",
    "__complex__": "a symbol is not a number yet: use separate fields for real and imaginary parts",
    "__index__": "a symbol is not a number yet: write cf.lookup(table, x, default) for table[x]",
    "__len__": "a symbol stands for one element and has no length",
    "__iter__": "a symbol stands for one element: it cannot be iterated over",
    "__getitem__": "a symbol stands for one element: fields are read as a.name, parts of complex "
    "numbers as x.real and x.imag",
    "__contains__": "a symbol stands for one element: write (x == 1) | (x == 2) for x in (1, 2)",
    "__round__": "write np.rint(x) for round(x)",
    "__floor__": "write np.floor(x) for math.floor(x)",
    "__ceil__": "write np.ceil(x) for math.ceil(x)",
    "__trunc__": "write np.trunc(x) for math.trunc(x)",
    "__divmod__": "write x // y and x % y for divmod(x, y)",
    "__rdivmod__": "write x // y and x % y for divmod(x, y)",
    "__matmul__": "a symbol stands for one element: write x * y",
    "__rmatmul__": "a symbol stands for one element: write x * y",
    "__setitem__": "a symbol cannot be changed: make another",
}
"""Methods that need a value, and what to write instead."""
