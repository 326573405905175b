"""Results of reductions as files: JSON, a Zarr, a NetCDF, or a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chunkfold.outputs.outputs import check_output, format_of, staged
from chunkfold.planning.options import Options
from chunkfold.results.files import check_netcdf
from chunkfold.results.results import Results
from chunkfold.workflows.as_json import json_text, jsonable
from chunkfold.workflows.files.as_netcdf import write_netcdf
from chunkfold.workflows.files.as_zarr import check_results, write_zarr
from chunkfold.workflows.files.results_json import groups_json, labels_json
from chunkfold.workflows.files.tables import check_table, write_csv, write_parquet

ByKey = Mapping[str, Results]
"""Results by the name that an output has for the source; a single source may have an empty name:
its results are then at the top."""


def check_writing(out: str | Path, options: Options, *, overwrite: bool = False) -> None:
    """Find out before the work starts whether results can be written, and as what.

    Raises
    ------
    PlanError
        If not.
    """
    check_output(out, overwrite=overwrite)
    check_results(out, options)
    check_table(out)
    check_netcdf(out)


def write_results(out: str | Path, reduced: ByKey, *, overwrite: bool = False) -> None:
    """Write results in the format that an output's name ends in; whole or not at all.

    Raises
    ------
    PlanError
        If they cannot be written.
    """
    with staged(out, overwrite=overwrite) as made:
        _WRITERS[format_of(out)](made, reduced)


def _write_json(path: Path, reduced: ByKey) -> None:
    found: Any = {
        key: groups_json(one.plan)
        | {op: jsonable(value) for op, value in one.found.items()}
        | labels_json(one)
        for key, one in reduced.items()
    }
    path.write_text(json_text(found.get("", found), indent=2) + "\n")


_WRITERS: Mapping[str, Callable[[Path, ByKey], None]] = {
    ".json": _write_json,
    ".zarr": write_zarr,
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".nc": write_netcdf,
}
