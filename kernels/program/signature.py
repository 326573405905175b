"""The typed signature of a kernel, read off its source: what a launch must hand over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

import numpy as np
import pyopencl as cl

_SCALARS = {"uint": np.uint32, "ulong": np.uint64}
_PARAMETER = re.compile(r"(?P<type>.*?[\s*])(?P<name>\w+)")
INPUTS = "CHF_INPUTS"
"""Stands for the input buffers, which come first."""


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel behind its inputs."""

    kernel: str
    parameters: tuple[tuple[str, str], ...]
    """Name and OpenCL C type of each: uint, ulong, or a pointer."""
    has_inputs: bool

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        """Python types of each parameter."""
        return {
            name: int if ctype in _SCALARS else (cl.MemoryObjectHolder, cl.SVM, cl.LocalMemory)
            for name, ctype in self.parameters
        }

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """Put named values in order, for a kernel that went through `prepare`.

        Raises
        ------
        TypeError
            If a parameter has no value, or a value no parameter or another type.
        """
        if values.keys() != self._kinds.keys():
            raise TypeError(f"{self.kernel} takes {sorted(self._kinds)}, not {sorted(values)}")
        for name, kind in self._kinds.items():
            if not isinstance(values[name], kind):
                ctype = dict(self.parameters)[name]
                raise TypeError(
                    f"{name} of {self.kernel} is {ctype}, not {type(values[name]).__name__}"
                )
        return [values[name] for name in self._kinds]

    def prepare(self, kernel: cl.Kernel, inputs: Sequence[Any]) -> None:
        """See that a built kernel takes what its source says, and tell pyopencl of its types.

        It enqueues typed arguments in less time, and refuses integers that do not fit. `inputs` are
        the types of those (`input_types`).

        Raises
        ------
        TypeError
            If it takes something else.
        """
        kinds = [_SCALARS.get(kind) for _, kind in self.parameters]
        types = [*(inputs if self.has_inputs else ()), *kinds]
        if kernel.num_args != len(types):
            raise TypeError(
                f"{self.kernel} was built with {kernel.num_args} arguments of {len(types)}"
            )
        kernel.set_scalar_arg_dtypes(types)


def input_types(number: int, *, strided: bool) -> list[Any]:
    """Return the types of what CHF_INPUTS stands for: None is a buffer.

    Three numbers follow each buffer behind the first, if these have strides of their own.
    """
    other = [None, np.uint64, np.uint64, np.uint64] if strided else [None]
    return [None, *other * (number - 1)]


@cache
def signature(kernel_file: str, name: str) -> Signature:
    """Read a kernel's signature off its source file.

    >>> signature("passes.cl", "fill_zero").parameters[0]
    ('acc', '__global uchar *')
    """
    text = resources.files("chunkfold.kernels").joinpath("cl", kernel_file).read_text()
    found = re.search(rf"\bvoid {name}\((?P<parameters>[^)]*)\)", text)
    if found is None:
        raise TypeError(f"{kernel_file} has no kernel {name}")
    parts = [" ".join(part.split()) for part in found["parameters"].split(",")]
    own = [part for part in parts if part != INPUTS]
    matches = [_PARAMETER.fullmatch(part) for part in own]
    parameters = tuple((m["name"], m["type"].strip()) for m in matches if m)
    return Signature(name, parameters, has_inputs=INPUTS in parts)
