"""Cores near devices: which they are, how workers share them, and how a worker keeps to its own.

Memory follows: Linux puts a page on the NUMA node of the thread that first writes to it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

SYSFS = Path("/sys")


class NumaNode(NamedTuple):
    """A NUMA node of this host."""

    cores: frozenset[int]
    """Numbers of its cores, as the kernel counts them; hyperthreads count."""
    distances: Mapping[int, int]
    """Distances of these cores to the memory of each node, by its number; 10 is the least."""


class CoreShare(NamedTuple):
    """The cores on which a device or worker may run, and its share of them."""

    cores: frozenset[int]
    """Cores on which it may run; others may run on them, too."""
    own: int
    """The number of cores, divided by those that share them; rounded down."""


def numa_nodes(sysfs: Path | None = None) -> dict[int, NumaNode]:
    """Return this host's NUMA nodes by their numbers; none if Linux does not tell."""
    found = {}
    for folder in ((sysfs or SYSFS) / "devices/system/node").glob("node[0-9]*"):
        with suppress(OSError, ValueError):  # a node that goes meanwhile, or is told otherwise
            distances = map(int, (folder / "distance").read_text("ascii").split())
            cores = parse_cores((folder / "cpulist").read_text("ascii"))
            found[int(folder.name.removeprefix("node"))] = cores, tuple(distances)
    # A node tells the distances of all that are there, in their order.
    numbers = sorted(found)
    return {
        number: NumaNode(cores, dict(zip(numbers, distances, strict=False)))
        for number, (cores, distances) in sorted(found.items())
    }


def node_of(pci: str, sysfs: Path | None = None) -> int | None:
    """Return the NUMA node of the device at a PCI address; None if it is not known."""
    if not pci:
        return None
    try:
        file = (sysfs or SYSFS) / "bus/pci/devices" / pci / "numa_node"
        number = int(file.read_text("ascii"))
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def parse_cores(text: str) -> frozenset[int]:
    """Read a list of cores as Linux writes it.

    Raises
    ------
    ValueError
        If the text is no such list.

    >>> sorted(parse_cores("0-2,8,10-11"))
    [0, 1, 2, 8, 10, 11]
    """
    spans = [part.split("-") for part in text.strip().split(",") if part]
    return frozenset(core for span in spans for core in range(int(span[0]), int(span[-1]) + 1))


def cores_text(cores: Collection[int]) -> str:
    """Write a list of cores as Linux does.

    >>> cores_text({11, 0, 1, 2, 8, 10})
    '0-2,8,10-11'
    """
    spans: list[list[int]] = []
    for core in sorted(cores):
        if spans and core == spans[-1][1] + 1:
            spans[-1][1] = core
        else:
            spans.append([core, core])
    return ",".join(f"{a}-{b}" if a < b else f"{a}" for a, b in spans)


def share_cores(
    places: Sequence[int | None], nodes: Mapping[int, NumaNode], allowed: frozenset[int]
) -> list[CoreShare]:
    """Share cores out to devices, or to workers, by the NUMA nodes of each.

    A node's cores are shared by the devices on it, and by those whose node is not known. Cores of a
    node without devices go to the nearest nodes with devices.

    Parameters
    ----------
    places
        Node of each; None if it is not known.
    nodes
        All nodes of the host, by their numbers.
    allowed
        Cores that this process may use: no others are shared out.
    """
    here = {number: found for number, node in nodes.items() if (found := node.cores & allowed)}
    known = [place if place in here else None for place in places]
    used = {place for place in known if place is not None}
    serves = {number: _nearest(number, nodes[number], used) for number in here}
    shares = []
    for place in known:
        if place is None:
            shares.append(CoreShare(allowed, len(allowed) // len(places)))
            continue
        mine = {number: cores for number, cores in here.items() if place in serves[number]}
        count = sum(
            Fraction(len(cores), sum(one is None or one in serves[number] for one in known))
            for number, cores in mine.items()
        )
        shares.append(CoreShare(frozenset().union(*mine.values()), int(count)))
    return shares


def _nearest(number: int, node: NumaNode, used: Collection[int]) -> Collection[int]:
    """Return the nodes of `used` that are nearest to one: itself, if it is one of them."""
    if number in used or not used:
        return {number}
    far = {other: node.distances.get(other, 255) for other in used}  # 255: out of reach, to Linux
    return {other for other, distance in far.items() if distance == min(far.values())}


def keep_to(cores: frozenset[int]) -> None:
    """Keep all threads of this process, and those that they start, to some cores.

    A thread that is not allowed on any of them keeps its affinity, and none gets more cores.
    """
    kept = set[int]()
    with suppress(OSError):  # where /proc is not there
        while left := {int(name) for name in os.listdir("/proc/self/task")} - kept:  # noqa: PTH208
            for thread in left:
                with suppress(OSError):  # it has ended
                    if wanted := cores & os.sched_getaffinity(thread):
                        os.sched_setaffinity(thread, wanted)
            kept |= left  # one that was just started may still have what its parent had
