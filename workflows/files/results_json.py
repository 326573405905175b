"""Results, plans and devices as JSON."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chunkfold.bad_chunks import Skipped
from chunkfold.events import Event, RunFinished
from chunkfold.kernels import Device
from chunkfold.kernels.device.capabilities import CAPABILITIES
from chunkfold.planning.plan import Plan
from chunkfold.results.result import Result
from chunkfold.results.results import Results
from chunkfold.running.run import Run
from chunkfold.worker.block_report import DeviceReport, LedgerReport
from chunkfold.workflows.as_json import jsonable

if TYPE_CHECKING:
    from chunkfold.workflows.comparisons.diff import Difference
    from chunkfold.workflows.comparisons.diff_groups import GroupDifference
    from chunkfold.workflows.describe import Description
    from chunkfold.workflows.images.channels import Normalization
    from chunkfold.workflows.images.regions import Regions


def run_json(run: Run) -> dict[str, Any]:
    """Describe a run that has ended, and its results, for machines."""
    return {
        "sources": [source.name for source in run.plan.sources],
        **_groups_of_each(run.plan),
        "results": {name: jsonable(value) for name, value in run.values.items()},
        **run_facts(run),
    }


def groups_json(plan: Plan) -> dict[str, Any]:
    """Name the groups that results are of, in their order; nothing if there are none.

    Those of several labels by the names of their axes.
    """
    return {} if plan.grouping is None else {"groups": jsonable(plan.grouping.groups)}


def _groups_of_each(plan: Plan) -> dict[str, Any]:
    """Name them for every question, by its name, if there are several."""
    if not plan.request.questions:
        return groups_json(plan)
    found = {one.request.question: groups_json(one).get("groups") for one in plan.asked_plans}
    return {"groups": {name: groups for name, groups in found.items() if groups is not None}}


def labels_json(results: Results) -> dict[str, Any]:
    """Describe what results are called and measured by; nothing where no axis has a name."""
    return {"labels": described_labels(results)} if results.dims else {}


def described_labels(results: Results, most: int = sys.maxsize) -> dict[str, Any]:
    """Describe dtypes, axes, attributes of results, and coordinates that have `most` values."""
    along = {name: one for result in results.values() for name, one in result.coordinates.items()}
    named = {
        name: {"dims": list(one.dims), "values": jsonable(one.values), "attrs": jsonable(one.attrs)}
        for name, one in along.items()
        if one.values.size <= most
    }
    each = {
        op: {
            "dims": list(one.dims),
            "dtype": str(one.dtype),
            "attrs": jsonable(one.attrs),
            **_fields_json(one),
        }
        for op, one in results.items()
    }
    return {"results": each, "coordinates": named}


def _fields_json(result: Result) -> dict[str, Any]:
    """Describe what the fields of records are measured by."""
    if not result.parts:
        return {}
    parts = {name.rpartition("/")[2]: one for name, one in result.parts.items()}
    return {"fields": {field: jsonable(one.attrs) for field, one in parts.items()}}


def skipped_json(skipped: Skipped) -> list[dict[str, Any]]:
    """List bad chunks, and the elements left out for each; those without a key are all others'."""
    return [
        {**(asdict(chunk) if chunk else {}), "elements": count} for chunk, count in skipped.items()
    ]


def event_json(event: Event) -> dict[str, Any]:
    """Describe what happens in a run for machines."""
    told = {name: jsonable(value) for name, value in vars(event).items()}
    if isinstance(event, RunFinished):
        told["skipped"] = skipped_json(event.skipped)
    return told


def run_facts(run: Run) -> dict[str, Any]:
    """Describe a run that has ended, but for sources and results."""
    return {
        "rounding": [name for one in run.plan.asked_plans for name in one.rounding],
        "elements": run.plan.layout.elements,
        "remarks": list(run.remarks()),
        "skipped": skipped_json(run.skipped),
        "requests": asdict(run.requests),
        "ledger": ledger_json(run.ledger),
        "attempts": asdict(run.attempts),
        "not_stored": {name: missing for name, (missing, _) in run.missing.items()},
        "bytes": run.plan.scan.nbytes,
        "reads": run.reads,
        "seconds": round(run.seconds, 6),
        "blocks": len(run.plan.blocks),
        "readers": run.plan.readers,
        "devices": [_device_json(entry) for entry in run.profile.values()],
    }


def ledger_json(report: LedgerReport) -> dict[str, Any]:
    """Describe for machines what a run's ledger had."""
    return {name: jsonable(value) for name, value in asdict(report).items()}


def plan_json(plan: Plan) -> dict[str, Any]:
    """Describe a plan for machines; sizes are bytes."""
    layout, several = plan.layout, plan.request.questions
    asked = {"questions": {one.request.question: _question_json(one) for one in plan.asked_plans}}
    return {
        "sources": [
            {
                "name": source.name,
                "dtype": str(source.dtype),
                "shape": list(source.shape),
                "cell": list(source.unit),
                "kind": source.kind,
                "unpacked": None if packing is None else f"{value}: {packing}",
                "not_applied": plan.unapplied(source),
            }
            for source, packing, value in plan.unpacked
        ],
        **(asked if several else _question_json(plan)),
        "shape": list(layout.shape),
        "reads": plan.reads,
        "elements": layout.elements,
        "bytes": plan.scan.nbytes,
        "leaves": layout.tiles * layout.parts,
        "unstored_leaves": plan.scan.unstored,
        "leaf_bytes": plan.scan.leaf_bytes,
        "blocks": len(plan.blocks),
        "levels": plan.largest_tree.height,
        "workers": plan.terms.workers,
        "blocks_at_once": plan.threads,
        "readers": plan.readers,
        "memory": {**asdict(plan.memory), "total": plan.memory.total},
    }


def _question_json(plan: Plan) -> dict[str, Any]:
    layout = plan.layout
    return {
        "ops": list(plan.ops),
        "rounding": list(plan.rounding),
        "axes": list(layout.reduced),
        "windows": {str(n): layout.axes[n].window for n in layout.coarsened},
        **groups_json(plan),
    }


def description_json(description: Description) -> dict[str, Any]:
    """Describe an array for machines."""
    stored = description.stored
    return {
        "name": description.name,
        "dtype": None if description.dtype is None else str(description.dtype),
        "shape": jsonable(description.shape),
        "chunks": jsonable(description.chunks),
        "elements": description.elements,
        "bytes": description.nbytes,
        "stored_bytes": None if stored is None else int(stored.sum()),
        "stored_objects": None if stored is None else int((stored > 0).sum()),
        "objects": None if stored is None else stored.size,
        "missing": description.missing,
        "statistics": {name: jsonable(value) for name, value in description.statistics.items()},
        "skipped": skipped_json(description.skipped),
        "ledger": None if description.ledger is None else ledger_json(description.ledger),
        "reason": description.reason,
        "bad": description.bad,
    }


def difference_json(difference: Difference) -> dict[str, Any]:
    """Describe how two arrays differ for machines."""
    found = asdict(difference)
    found |= {"dtypes": [str(dtype) for dtype in difference.dtypes], "equal": difference.equal}
    found["rounded_to"] = difference.rounded or None
    return {name: jsonable(value) for name, value in found.items()}


def group_difference_json(found: GroupDifference) -> dict[str, Any]:
    """Describe how two groups differ for machines."""
    arrays = {
        one.path: {
            "differs": one.differs,
            "unread": one.unread,
            "reason": one.reason,
            **({} if one.found is None else difference_json(one.found)),
        }
        for one in found.arrays
    }
    told = dict(zip(("only_in_first", "only_in_second"), map(list, found.only), strict=True))
    return {"groups": list(found.names), "equal": found.equal, **told, "arrays": arrays}


def normalization_json(found: Normalization) -> dict[str, Any]:
    """Describe a normalization for machines: `(value - offset) / scale`."""
    statistics = {name: jsonable(values) for name, values in found.statistics.items()}
    return {
        "source": found.source,
        "channels": jsonable(found.channels),
        "by": found.by,
        "mask_and_scale": found.mask_and_scale,
        **statistics,
        "offset": jsonable(found.offset),
        "scale": jsonable(found.scale),
    }


def regions_json(found: Regions) -> dict[str, Any]:
    """Describe regions for machines, column by column."""
    return {
        "image": found.image,
        "labels": found.labels,
        "unit": found.unit,
        "regions": {name: jsonable(values) for name, values in found.columns.items()},
    }


def _device_json(entry: DeviceReport) -> dict[str, Any]:
    return {
        "uuid": entry.device.uuid,
        "host": entry.device.host,
        "device": entry.device.spec,
        "name": entry.device.name,
        "workers": list(entry.workers),
        "variant": entry.variant,
        "tuning": entry.tuning,
        "blocks": entry.blocks,
        "bytes": entry.nbytes,
        "read_seconds": round(entry.read_s, 6),
        "timeline": [
            {name: round(value, 6) for name, value in asdict(times).items()}
            for times in entry.timeline
        ],
        "passes": [
            {
                "kernel": kernel,
                "pass": number,
                "launches": times.launches,
                "wait_seconds": times.wait_ns / 1e9,
                "run_seconds": times.run_ns / 1e9,
                "first_wait_seconds": times.first_wait_ns / 1e9,
                "first_run_seconds": times.first_run_ns / 1e9,
            }
            for (kernel, number), times in sorted(entry.profile.items(), key=lambda e: e[0][::-1])
        ],
    }


def device_json(device: Device) -> dict[str, Any]:
    """Describe a device for machines."""
    return {
        "device": device.spec,
        "uuid": device.uuid,
        "identity": device.identity,
        "name": device.name,
        "kind": device.kind,
        "platform": device.platform,
        "vendor": device.vendor,
        "driver": device.driver,
        "opencl": ".".join(map(str, device.version)),
        "opencl_c": [".".join(map(str, version)) for version in device.c_versions],
        "hardware": device.hardware,
        "compute_units": device.compute_units,
        "max_work_group_size": device.max_work_group_size,
        "local_bytes": device.local_bytes,
        "global_bytes": device.global_bytes,
        "max_alloc_bytes": device.max_alloc_bytes,
        "extensions": sorted(device.extensions),
        "features": sorted(device.features),
        "lacks": {name: why for name in CAPABILITIES if (why := device.lacks(name))},
    }
