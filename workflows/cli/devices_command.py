"""`chunkfold devices`: what there is, and what each can do."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

import click
import numpy as np
from rich.table import Table

from chunkfold.kernels import (
    VARIANTS,
    BuildError,
    Device,
    DeviceError,
    as_monoid,
    bind,
    default_devices,
)
from chunkfold.kernels import devices as find
from chunkfold.kernels.decode.codec_chain import CODECS
from chunkfold.kernels.decode.decode_rates import DecodeRates
from chunkfold.kernels.device.capabilities import CAPABILITIES
from chunkfold.kernels.device.host import all_devices
from chunkfold.kernels.tuning.decode_request import known_rates
from chunkfold.kernels.tuning.tuning_choice import chosen
from chunkfold.near_cores import cores_text, node_of, numa_nodes
from chunkfold.settings import NEAR_CORES, uses_near_cores
from chunkfold.units import rate_text, size_text
from chunkfold.workflows.as_json import json_text
from chunkfold.workflows.files.results_json import device_json
from chunkfold.workflows.terminal.consoles import lines, out
from chunkfold.workflows.terminal.style import show, table


@click.command()
@click.argument("spec", required=False)
@click.option("--verbose", "-v", is_flag=True, help="Print limits, extensions and tried variants.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def devices_command(spec: str | None, *, verbose: bool, as_json: bool) -> None:
    """List the OpenCL devices of this host, or those that SPEC names.

    A star marks devices that are used by default. --verbose tries every kernel variant on every
    device, and says which of them built and gave right results, the rates of equally good shapes,
    and the cores near each device.

    \b
    Examples:
      chunkfold devices
      chunkfold devices --verbose gpu
      chunkfold devices pocl:0:cpu --json
    """
    chosen, left_out = default_devices()
    found = list(all_devices()) if spec is None else find(spec)
    if as_json:
        click.echo(
            json_text([_as_json(d, default=d in chosen, verbose=verbose) for d in found], indent=2)
        )
        return
    show(out, _overview(found, chosen, left_out))
    if verbose:
        for device in found:
            out.print()
            out.print(f"[bold]{device.spec}[/]")
            show(out, _details(device))


def _overview(found: list[Device], chosen: list[Device], left_out: dict[Device, str]) -> Table:
    made = table("", "device", "name", "OpenCL", "driver", "#memory", "uuid", "")
    for device in found:
        made.add_row(
            "*" if device in chosen else "",
            device.spec,
            device.name,
            ".".join(map(str, device.version)),
            device.driver,
            size_text(device.global_bytes),
            device.uuid,
            f"left out: {left_out[device]}" if device in left_out else "",
        )
    return made


def _details(device: Device) -> Table:
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    rows = {
        "platform": f"{device.platform}, {device.vendor}",
        "OpenCL C": ", ".join(".".join(map(str, version)) for version in device.c_versions),
        "compute units": str(device.compute_units),
        "work-group": f"at most {device.max_work_group_size} work-items, best a multiple of "
        f"{device.preferred_multiple}",
        "local memory": size_text(device.local_bytes),
        "largest buffer": size_text(device.max_alloc_bytes),
        **{name: device.lacks(name) or "yes" for name in CAPABILITIES},
        "host memory": "shared" if device.unified_memory else "behind a link",
        "hardware": device.hardware,
        "NUMA node": node_words(device),
        "extensions": lines(textwrap.fill(" ".join(sorted(device.extensions)), 100)),
        "features": lines(textwrap.fill(" ".join(sorted(device.features)), 100)),
    }
    for one in known_decoding(device):
        told = f"{rate_text(one.device)}, a core of this host {rate_text(one.core)}"
        rows[f"decodes {one.codec}"] = one.failure or f"measured {told}"
    rows |= {f"  {name}": text for name, text in tried_variants(device).items()}
    for name, text in rows.items():
        made.add_row(name, text)
    return made


def node_words(device: Device) -> str:
    """Say near which cores a device is, as far as this host tells."""
    node = node_of(device.pci)
    if node is None:
        return "not known: this host does not say which cores are near it"
    nodes = numa_nodes()
    cores = cores_text(nodes[node].cores) if node in nodes else ""
    told = f"{node} of {len(nodes)}, cores {cores or 'none'}"
    return told if uses_near_cores() else f"{told}; {NEAR_CORES} is false: workers use any cores"


def known_decoding(device: Device) -> list[DecodeRates]:
    """Return what was measured of a device before, of codecs that it may decode."""
    able = not device.unified_memory
    return [one for codec in CODECS if able and (one := known_rates(device, codec)) is not None]


def tried_variants(device: Device) -> dict[str, str]:
    """Build and run a float32 sum with each variant; say what came of it."""
    accumulator = bind([as_monoid("sum")], [np.dtype("float32")], fp64=device.fp64).accumulator
    tried = {}
    for variant in VARIANTS:
        try:
            tried[variant] = f"ran right: {chosen(device, accumulator, variant)}"
        except BuildError as error:
            tried[variant] = f"fails: {str(error).splitlines()[0]}"
        except DeviceError as error:
            tried[variant] = f"no: {str(error).rsplit(': ', 1)[-1]}"
    return tried


def _as_json(device: Device, *, default: bool, verbose: bool) -> dict[str, Any]:
    tried: dict[str, Any] = {}
    if verbose:
        node = node_of(device.pci)
        nodes = numa_nodes()
        tried["numa_node"] = node
        tried["near_cores"] = sorted(nodes[node].cores) if node in nodes else None
        tried["decoding"] = list(map(asdict, known_decoding(device)))
        tried["variants"] = tried_variants(device)
    return device_json(device) | {"default": default} | tried
