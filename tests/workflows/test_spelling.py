"""Messages of the shell name options as the shell spells them."""

from __future__ import annotations

import pytest

from chunkfold.workflows.cli.messages import in_shell
from chunkfold.workflows.cli.reduce_command import reduce_command
from chunkfold.workflows.cli.run_command import run_command as run

SAID = [
    (
        "boundary is 'pad', but no windows are given: give them with coarsen=",
        "--boundary is 'pad', but no windows are given: give them with --coarsen",
    ),
    ("a.zarr: min_count is 3", "a.zarr: --min-count is 3"),
    ("so name it in axis= too", "so name it in --axis too"),
    ("dtype='float64' gives NaN there", "--dtype float64 gives NaN there"),
    ("with mask_and_scale=True, as xarray does", "with --mask-and-scale, as xarray does"),
    ("as in coarsen={'y': 2, 'x': 2}", "as in --coarsen y=2,x=2"),
    ("selection is (3,); it needs a sel_method", "--select is (3,); it needs a --sel-method"),
    ("as where=('y > 0', map)", "as --mask map --where 'y > 0'"),
    ("/data/axis=1/by=2.zarr: no such path", "/data/axis=1/by=2.zarr: no such path"),
    ("axis 'time' has 'axis=' and 'sel_method'", "axis 'time' has 'axis=' and 'sel_method'"),
    ("the memory is 3 of them, by label", "the memory is 3 of them, by label"),
]


@pytest.mark.parametrize(("library", "shell"), SAID)
def test_options_are_spelled_as_the_command_has_them(library: str, shell: str):
    assert in_shell(library, reduce_command) == shell


def test_a_command_without_an_option_leaves_its_name():
    assert in_shell("boundary is 'pad'; give coarsen=", run) == "boundary is 'pad'; give coarsen="
