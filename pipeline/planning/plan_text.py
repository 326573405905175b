"""The text of a plan: lines for people, and the same as a table for notebooks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from chunkfold.kernels.accumulator.traits import traits_of
from chunkfold.planning.folding import RolledUp
from chunkfold.planning.grouping import OwnKeys
from chunkfold.planning.leaves import repeats
from chunkfold.plural import counted
from chunkfold.printable import printable
from chunkfold.units import size_text

if TYPE_CHECKING:
    from chunkfold.planning.plan import Plan


_MENTIONED = 1.05
"""Times that chunks are decoded, from which on the text mentions it."""
_INDENT = 10
"""Columns that headings take."""


def lines_of(plan: Plan) -> list[str]:
    """Say what a plan is: lines of a heading, or of none, and a text next to it."""
    told = itertools.chain(
        *_described(plan),
        *(_asked(one, plan) for one in plan.asked_plans),
        _cut(plan),
        _beside(_one_by_one(plan)),
        _beside(plan.remarks()),
        _beside(_repeated(plan)),
        _work(plan),
    )
    return list(map(printable, told))


def html_of(plan: Plan) -> str:
    """Return the same lines as rows of a table."""
    rows = (
        f"<tr><th style='text-align:left'>{escape(line[:_INDENT].strip())}</th>"
        f"<td style='text-align:left'>{escape(line[_INDENT:])}</td></tr>"
        for line in lines_of(plan)
    )
    return f"<table>{''.join(rows)}</table>"


def _work(plan: Plan) -> Iterator[str]:
    """Say who does how much of it, and in how much memory."""
    memory = plan.memory
    yield (
        f"blocks    {counted(len(plan.blocks), 'task')}, {counted(plan.terms.workers, 'worker')} "
        f"({counted(plan.threads, 'task')} at a time, {counted(plan.readers, 'reader thread')}"
        + (f", {plan.terms.requests} requests in flight)" if memory.fetching else ")")
    )
    if plan.ledger is not None:
        known = sum(one.known for one in plan.blocks)
        more = [one.accumulator.nbytes for one in plan.all_plans if one.request.unasked]
        yield (
            f"ledger    {plan.ledger.name}: has {known:,} of {counted(len(plan.blocks), 'block')}"
            + "".join(f"; statistics of {size_text(one)} a block" for one in more)
        )
    used, because = plan.device_decoding
    if because:
        yield f"decoding  on the {'device' if used else 'host'}: {because}"
    tree = plan.largest_tree
    combines = f"{counted(tree.height, 'level')} of combines, {tree.fan_in} partials each"
    tiles = counted(plan.layout.tiles, "tile")
    yield f"tree      {combines if tree.height else 'nothing to combine'}; {tiles} of outputs"
    yield (
        f"memory    at most {size_text(memory.total)} a worker: "
        f"staging {size_text(memory.staging)}, decoding {size_text(memory.decoding)}, "
        + (f"fetching {size_text(memory.fetching)}, " if memory.fetching else "")
        + f"accumulators {size_text(memory.accumulators)}"
    )


def _beside(told: Iterator[str]) -> Iterator[str]:
    return (" " * _INDENT + one for one in told)


def _described(plan: Plan) -> Iterator[list[str]]:
    """Say of each input what it is, and what its elements stand for."""
    for source, packing, value in plan.unpacked:
        told = plan.unapplied(source)
        if packing is not None:
            read = f"unpacked to {value}: {packing}"
            told.insert(0, read if packing.makes_floats else f"read as {packing}")
        yield [*source.described(), *_beside(iter(told))]


def _asked(plan: Plan, first: Plan) -> Iterator[str]:
    """Say what is asked, and what comes of it; `first` is the plan of all questions."""
    if first.request.questions:
        yield f"question  {plan.request.question}"
    question = plan.questions[0]
    if isinstance(question, RolledUp):
        finer = first.all_plans[question.roll_up.finer].request.question
        yield f"made of   the partials of each result of {finer}: no pass over the data"
    yield from _reduced(plan)
    yield from _held(plan)
    yield from _grouped(plan)
    yield f"answer    {_answer(plan)}"
    yield from _results(plan)


def _answer(plan: Plan) -> str:
    """Say what may be expected of the results' last bits."""
    rounding = plan.rounding
    if not rounding:
        return "exact: the same bits for any chunks, devices and workers"
    others = "" if len(rounding) == len(plan.ops) else "; the others exact"
    return f"{', '.join(rounding)} rounded in every operation{others}"


def _reduced(plan: Plan) -> Iterator[str]:
    """Say what is made of how much."""
    layout = plan.layout
    windows = ", ".join(f"{layout.axes[n].window:,} along {n}" for n in layout.coarsened)
    over = ["all axes" if not layout.kept else f"axes {layout.reduced}"]
    if windows:
        over = [f"windows of {windows}", *(over if layout.reduced else [])]
    yield (
        f"reduce    {', '.join(plan.ops)} over {' and '.join(over)} of {layout.shape}: "
        f"{layout.elements:,} elements, {size_text(plan.scan.nbytes)}"
    )
    if choosers := plan.request.choosers(plan.terms):
        names = ", ".join(one.name for one in choosers)
        yield f"reads     1: for {names} a block keeps all elements of its outputs"
    several = [one.name for one in plan.bound.statistics if one.monoid.reads > 1]
    if several:
        yield (
            f"reads     {plan.own_reads} at most, for {', '.join(several)}: "
            f"{size_text(plan.own_reads * plan.scan.nbytes)} in all"
        )


def _cut(plan: Plan) -> Iterator[str]:
    """Say into what the work is cut."""
    unstored = (
        f"; {plan.scan.unstored:,} of them have no stored chunks" if plan.scan.unstored else ""
    )
    yield f"leaves    {plan.layout.leaves:,} of at most {size_text(plan.scan.leaf_bytes)}{unstored}"


def _results(plan: Plan) -> Iterator[str]:
    """Say how many results there are, and what holds all of them, if something does."""
    outputs = plan.groups * plan.layout.outputs
    streamed = plan.request.streamed
    if streamed is not None:
        levels = f", and {counted(streamed.coarser, 'coarser level')}" * (streamed.coarser > 0)
        named = ", ".join(plan.request.options.names)
        yield (
            f"results   {outputs:,} of {named}{levels}: they are written tile by tile, and none "
            "is kept"
        )
    elif outputs > 1:
        whole = size_text(outputs * plan.accumulator.nbytes)
        yield (
            f"results   {outputs:,} of each op: put together at the client, in {whole} at most"
            + " (project writes them tile by tile)" * (not plan.request.questions)
        )


def _held(plan: Plan) -> Iterator[str]:
    """Say which inputs lack axes."""
    for one in plan.request.broadcast:
        axes = "axis" if len(one.axes) == 1 else "axes"
        along = f"along {axes} {', '.join(map(str, one.axes))}" if one.axes else "one for all"
        yield f"broadcast {one.name}, {one.values.dtype}, {along}: {size_text(one.values.nbytes)}"


def _grouped(plan: Plan) -> Iterator[str]:
    """Say which groups there are."""
    if plan.grouping is None:
        return
    grouping, along = plan.grouping, plan.grouping.keys.axes
    told = [_labels(one.groups) for one in grouping.labels]
    if len(told) > 1:
        each = (f"{one.axis} ({text})" for one, text in zip(grouping.labels, told, strict=True))
        told = [f"{plan.groups:,}: {' x '.join(each)}"]
    by = f"by labels along {'axis' if len(along) == 1 else 'axes'} {', '.join(map(str, along))}"
    if isinstance(plan.request.keys, OwnKeys):
        by = "by the elements' own values"
    yield f"groups    {told[0]}, {by}: {plan.groups * plan.layout.outputs:,} accumulators"


def _labels(groups: np.ndarray) -> str:
    return f"{len(groups):,}, from {groups[0]} to {groups[-1]}"


def _one_by_one(plan: Plan) -> Iterator[str]:
    """Say what is made and folded although it is not stored: it takes as long as if it were."""
    parts = plan.accumulator.components
    traits = [(part.origin, traits_of(part)) for part in parts]
    names = dict.fromkeys(
        name for name, one in traits if (one.reads_index if plan.grouping else not one.takes_first)
    )
    if names and plan.scan.unstored:
        yield (
            f"fill values of {plan.scan.unstored:,} of them are reduced one by one: "
            f"{', '.join(names)} may read each index"
        )


def _repeated(plan: Plan) -> Iterator[str]:
    """Say which inputs are decoded more than once, since their chunks do not meet."""
    for source in plan.sources:
        times = repeats(source, plan.layout)
        if times >= _MENTIONED:
            yield f"chunks of {source.name} are decoded {times:.1f} times: they cross leaves"


def memory_hint(plan: Plan) -> str:
    """Say what else helps where accumulators are most of it."""
    histograms = any(op.endswith("histogram") for op in plan.ops)
    helps = ["make fewer groups"] * (plan.groups > 1)
    helps += ["keep fewer outputs"] * (plan.layout.outputs > 1)
    helps += ["give a histogram edges"] * histograms
    if 2 * plan.memory.accumulators < plan.memory.total or not helps:
        return ""
    return f"; accumulators take {size_text(plan.memory.accumulators)}: {', and '.join(helps)}"
