"""The kernel files: each compiles alone, with its own line numbers."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from chunkfold.kernels import CATALOGUE, DeviceContext, Packing, as_monoid, bind, histogram
from chunkfold.kernels.geometry import CHOOSE, FOLDS
from chunkfold.kernels.listing.declarations import declarations
from chunkfold.kernels.listing.preprocessed import preprocessed
from chunkfold.kernels.program.assemble import assemble, located
from chunkfold.kernels.program.build_options import language_options
from chunkfold.kernels.program.header import header
from chunkfold.kernels.tuning.trial import kernel_files

FOLDER = Path(str(resources.files("chunkfold.kernels") / "cl"))
FILES = (*kernel_files((*FOLDS, CHOOSE)), "levels.cl", "place_boxes.cl", "rounding.cl")
"""Those that the child process tries, and those that are tried where they are used."""


@pytest.mark.parametrize("file", FILES)
def test_a_kernel_file_compiles_alone(opened: DeviceContext, file: str):
    source = (FOLDER / file).read_text()
    options = [*language_options(opened.device), "-I", str(FOLDER)]
    assert cl.Program(opened.context, source).build(options).all_kernels()


def test_every_kernel_file_is_tried():
    assert {path.name for path in FOLDER.glob("*.cl")} == set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_lines_after_an_include_keep_their_numbers(file: str):
    accumulator = bind([as_monoid("min"), as_monoid("mean")], [np.dtype("f4")]).accumulator
    lines = (FOLDER / file).read_text().split("\n")
    number, current = 0, ""
    for line in assemble(file, accumulator).split("\n"):
        if line.startswith("#line "):
            _, digits, name = line.split(" ", 2)
            number, current = int(digits), name.strip('"')
            continue
        if current == file:
            assert line == lines[number - 1]
        number += 1


@pytest.mark.parametrize("file", FILES)
def test_physical_lines_lead_back_to_their_files(file: str):
    accumulator = bind([as_monoid("min"), as_monoid("prod")], [np.dtype("f4")]).accumulator
    source = assemble(file, accumulator)
    for number, line in enumerate(source.split("\n"), start=1):
        name, own = located(source, number).rsplit(":", 1)
        if (FOLDER / name).exists() and not line.startswith("#line"):
            assert line == (FOLDER / name).read_text().split("\n")[int(own) - 1]


def test_the_generated_header_defines_what_the_example_does():
    """kernels/cl/monoid.clh documents the joint; the generated one must have every name of it."""
    example = (FOLDER / "monoid.clh").read_text()
    both = [as_monoid("sum"), histogram([0, 1])]
    made = header(bind(both, [np.dtype("f4")]).accumulator)
    exact = bind(both[:1], [np.dtype("f4")], exact=True).accumulator
    made += header(exact) + header(exact.for_outputs(2))
    made += header(bind([as_monoid("dot")], [np.dtype("f4")] * 2).accumulator)
    for op in ("argmin", "var"):
        made += header(bind([as_monoid(op)], [np.dtype("f4")]).accumulator)
    names = set(re.findall(r"\b(?:chf|CHF)_\w+", example))
    assert {"chf_step", "chf_put", "CHF_INPUTS"} <= names
    for name in names - {"CHF_STAGE", "CHF_WIDTH"}:
        assert name in made, name


LOCAL = re.compile(r"\b(?!return|else|case|goto)[A-Za-z_]\w* +\**(\w+)(?:\[[^\]]*\])* *[=;,]")


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", ["int16", ">i2", "float16", ">f2", "uint64"])
def test_no_local_is_called_as_a_parameter(dtype: str, lanes: int):
    """Whatever is packed, swapped or has strides of its own: arguments stand in macros."""
    options = ["-DCHF_STRIDED=1", f"-DCHF_LANES={lanes}", "-DCHF_WIDTH=8"]
    for packing in (Packing(0.5, 2.0, (7,)), None):
        ops = [CATALOGUE["weighted_corr"], CATALOGUE["weighted_rmse"]]
        accumulator = bind(ops, [np.dtype(dtype)] * 3, packings=[packing] * 3).accumulator
        found = declarations(preprocessed(assemble("rows.cl", accumulator), options))
        functions = [one for one in found if one.head[-1:] == (")",)]
        assert {"chf_value", "chf_load"} <= {one.name for one in functions}
        for one in functions:
            head, _, body = one.text.partition("{")
            parameters = set(re.findall(r"(\w+)(?:\[\w*\])? *[,)]", head))
            assert parameters.isdisjoint(LOCAL.findall(body)), one.text
