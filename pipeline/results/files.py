"""Results as pandas tables, NetCDF files and Zarr groups."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkfold.errors import PlanError
from chunkfold.outputs.output_places import refuse_origins
from chunkfold.outputs.outputs import check_output, staged
from chunkfold.results.as_xarray import array_of, needed
from chunkfold.results.picture_labels import is_interval
from chunkfold.sources.consolidated_metadata import consolidate

if TYPE_CHECKING:
    import pandas as pd
    import xarray

    from chunkfold.results.result import Result


_NEEDED = ("xarray", "h5netcdf", "h5py")


def check_netcdf(out: str | Path) -> None:
    """Find out before the work starts whether NetCDF can be written.

    Raises
    ------
    PlanError
        If a package is missing for it.
    """
    lacking = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if str(out).endswith(".nc") and lacking:
        raise PlanError(
            f"output {out}: NetCDF needs {' and '.join(lacking)}: pip install 'chunkfold[netcdf]', "
            "or write .zarr"
        )


def dataframe_of(result: Result) -> pd.DataFrame:
    """Return a result as a table: a row for each value."""
    needed()
    import pandas as pd

    made = array_of(result)
    if not made.dims:
        return pd.DataFrame({result.name: [result.item()]})
    table: pd.DataFrame = made.to_dataframe()
    return table


def write_one(result: Result, out: str | os.PathLike[str], ending: str, *, overwrite: bool) -> None:
    """Write a result as NetCDF (`.nc`) or as a Zarr (`.zarr`), whole or not at all.

    Raises
    ------
    PlanError
        If it cannot be written there, or something is there that is not to go.
    OutputError
        If the disk is full.
    """
    out = os.fspath(out)
    check_output(out, (ending,), overwrite=overwrite)
    check_netcdf(out)
    refuse_origins(out, result.origins)
    made = _storable(array_of(result), netcdf=ending == ".nc")
    with staged(out, overwrite=overwrite) as there:
        if ending == ".nc":
            made.to_netcdf(there, engine="h5netcdf")
        else:
            made.to_zarr(there, mode="w", consolidated=False)
            consolidate(there)


def _storable(made: xarray.DataArray | xarray.Dataset, *, netcdf: bool) -> xarray.Dataset:
    """Return a Dataset that a file can hold.

    Intervals become texts, with coordinates of their left and right edges; for NetCDF complex
    numbers become two variables, and float16 float32.
    """
    xr = needed()
    dataset: Any = made.to_dataset() if isinstance(made, xr.DataArray) else made
    for name, coord in list(dataset.coords.items()):
        if is_interval(coord):
            held, said = coord.values, {**coord.attrs}
            ends = {f"{name}_left": [one.left for one in held]}
            ends |= {f"{name}_right": [one.right for one in held]}
            texts = [str(one) for one in held]
            beside = {one: (coord.dims, np.array(values), said) for one, values in ends.items()}
            dataset = dataset.assign_coords({name: (coord.dims, texts, said), **beside})
    for name, one in list(dataset.data_vars.items()) if netcdf else ():
        if one.dtype.kind == "c":
            parts = {f"{name}_real": one.real, f"{name}_imag": one.imag}
            dataset = dataset.drop_vars(name).assign(parts)
        elif one.dtype == np.float16:
            dataset = dataset.assign({name: one.astype(np.float32)})
    stored: xarray.Dataset = dataset
    return stored
