"""The code stays as small, and as plainly divided, as it was once made.

Each bound is what was reached. A feature that needs more raises it, and its commit says which.
"""

from __future__ import annotations

import functools

import pytest

from tests.house import entered_elsewhere, measured

pytestmark = pytest.mark.short

BOUNDS = {
    # lent_memory: devices that others use too; aligned_runs, ledger_block_outputs, chunk_contents,
    # unmet_conditions, possible_truths: ledgers; written_tiles, changed_parts: outputs that are
    # gone on with; living_statistics, ledger_found_partials: statistics in ledgers; tendencies,
    # transform, comparing, transform_command: changes and anomalies; consolidated_metadata, check,
    # findings and what finds them, diff_groups, tolerances: archives; acceleration,
    # and the eight modules that find reductions in Dask's graphs; computed_views, computed_source:
    # what is computed in them element by element before;
    # drawing, pictures, panels, picture_labels, terminal_pictures, read_results, plot_command:
    # what is drawn; arithmetic, files: what results are made into; words, again, report_command: a
    # page of a manifest; tracebacks, progress_shown: what scripts and notebooks show
    # date_parts: selections by them
    # near_cores: NUMA nodes; near_requests: web servers at the rate of threads
    # flags: names of codes
    # staged_objects: outputs at URLs that are gone on with; ledger_findings, ledger_block_elements,
    # archive_names: damage that ledgers tell of
    # runs, ordered_elements: longest runs
    # regions, region_shapes, region_values, regions_command: tables of segmentations; result_texts
    # output_places: results in Python are not written over what they are made of
    # noted_addresses: nor over labels, weights and masks
    # array_origins: nor over what xarray and Dask compute them from
    "modules": 524,
    "module names that stand twice": 6,
    "functions in two modules": 7,
    "docstrings in dialect": 0,
    "fields of Request, Plan and Work": 26,  # origins: outputs are not written over them
    # unmet_conditions, living_statistics, ledger_found_partials, transform_command, reductions in
    # graphs
    # regions, region_values, regions_command, transform; remarks: weights that are NaN
    "files that know absence": 62,
    "files that know groups": 63,  # transform, comparing, ordered_elements, regions
    "files that know several reads": 30,
    # living_statistics, transform, transform_command, chunk_statistics, dask_reductions,
    # ordered_elements
    "files that know windows": 55,
    "files that know levels": 24,
}
ENTERED = {
    # lent_memory; tracebacks, progress_shown: scripts and notebooks; noted_addresses
    "modules entered": 154,
    "modules of planning entered": 19,
}
_measured = functools.cache(measured)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_house_grows_no_wider(name: str):
    assert _measured()[name] <= BOUNDS[name]


@pytest.mark.short
def test_a_warm_reduction_passes_through_few_modules():
    found = entered_elsewhere()
    assert {name: found[name] for name in ENTERED if found[name] > ENTERED[name]} == {}
