"""Pydantic models of a job file, which check all that needs no data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, create_model, model_validator

from chunkfold.errors import RemarkWarning
from chunkfold.planning.option_values import Section
from chunkfold.planning.options import Options
from chunkfold.workflows.files.as_zarr import check_results
from chunkfold.workflows.job.toml_tables import Address, Kubernetes, Local, Slurm, Table
from chunkfold.workflows.job.values import TYPES, Count, Seconds, Text, Texts, listed
from chunkfold.workflows.options.written_options import (
    SHARED,
    WrittenOption,
    in_sections,
    library_options,
)

VERSION = 1
"""Version of job files: it grows when an older chunkfold would misread one."""


_Rows = Mapping[str, WrittenOption]
_SELECTION = in_sections(Section.SELECTION)
_OWN = in_sections(Section.OPERATION, Section.GROUPS) | _SELECTION
_RUNNING = in_sections(Section.RUNNING)


def _keys(name: str, rows: _Rows) -> Any:
    """Return a table whose keys are rows of the table of written options."""
    keys: dict[str, Any] = {}
    for one, row in rows.items():
        kind = Literal[row.kind] if isinstance(row.kind, tuple) else row.kind
        kind = TYPES.get(one) or (int | float if kind is float else kind)
        default = ... if one == "op" else row.default
        about = f"{row.help} {row.in_toml}".strip()
        optional = kind | None if default is None else kind
        keys[row.key or one] = (optional, Field(default, description=about))
    return create_model(name, __base__=Table, **keys)


def _loaded(table: BaseModel, rows: _Rows) -> dict[str, Any]:
    return {name: row.load(getattr(table, row.key or name)) for name, row in rows.items()}


class Reduction(_keys("ReductionKeys", _OWN)):  # type: ignore[misc] # keys are rows of a table
    """The reductions of every array."""

    @property
    def library(self) -> dict[str, Any]:
        """The library's options of it."""
        given = _loaded(self, _OWN)
        for name in ("bins", "by_axis", "groups"):  # those of one label are written without a list
            value, several = given[name], len(given["by"]) > 1
            given[name] = [] if value is None else listed(value) if several else [value]
        return library_options(given)

    @model_validator(mode="after")
    def _known(self) -> Reduction:
        _ = self.library
        return self


class Output(Table):
    """Places of the results."""

    path: Text
    """Path, relative to the job file's folder, or URL: .zarr, .nc, .json, .csv or .parquet."""
    overwrite: Annotated[bool, Field(description=SHARED["overwrite"])] = False
    manifest: Text | None = None
    """Path or URL of the run's manifest; next to the output without it."""
    report: Annotated[Text | None, Field(description=SHARED["report"])] = None


Cluster: TypeAlias = Annotated[Local | Address | Slurm | Kubernetes, Field(discriminator="kind")]
CLUSTERS: Mapping[str, type[BaseModel]] = {
    "local": Local,
    "address": Address,
    "slurm": Slurm,
    "kubernetes": Kubernetes,
}
"""By their `kind`."""


class Limits(_keys("LimitsKeys", _RUNNING)):  # type: ignore[misc] # as above
    """Limits of a job."""

    time: Seconds | None = None
    """Time limit of its runs together, once its workers have joined: "2 h"."""
    ledger_keep: Seconds | None = None
    """Age from which on files of the ledger are removed when the job is done: "90 d"."""
    worker_losses: Annotated[Count | None, Field(description=SHARED["worker_losses"])] = None


class Job(Table):
    """A job file."""

    version: Literal[1] = Field(alias="schema")
    """Version of this format: 1."""
    name: str = ""
    """Name in messages and manifests; the file's name without it."""
    sources: Texts
    """Paths, relative to the job file's folder, or URLs: of arrays, of groups (all their arrays),
    or patterns with * ? [ ], and ** for folders at any depth of a local path."""
    exclude: Texts | None = None
    """Patterns of arrays to leave out, by the names that outputs have for them."""
    allow_targets: Annotated[
        Texts | None,
        Field(
            description=f"{SHARED['allow_targets']} Paths, relative to the job file's folder, or "
            "URLs."
        ),
    ] = None
    reduce: Reduction | None = None
    """One question of every array."""
    questions: Annotated[dict[Text, Reduction], Field(min_length=1)] | None = None
    """Several, by the names that their results go by, which one read answers: each has the keys of
    `reduce`, and what `reduce` has beside them counts for those that do not say otherwise."""
    output: Output
    cluster: Cluster = Local()
    limits: Limits = Limits()

    @model_validator(mode="before")
    @classmethod
    def _common(cls, given: Any) -> Any:
        """Give every question what `reduce` has for all."""
        several = given.get("questions") if isinstance(given, dict) else None
        if not isinstance(several, dict):
            return given
        common = given.get("reduce", {})
        for name, own in several.items():
            for key in (row.key or name for name, row in _SELECTION.items()):
                if isinstance(own, dict) and key in own:
                    raise ValueError(
                        f"questions.{name}.{key} applies to what all questions read: write it "
                        "below [reduce]"
                    )
        each = {
            name: {**common, **own} if isinstance(own, dict) and isinstance(common, dict) else own
            for name, own in several.items()
        }
        own = [isinstance(one, dict) and "statistics" in one for one in several.values()]
        if isinstance(common, dict) and "statistics" in common and all(own):
            message = (
                "reduce.statistics are never computed, because every question has its own "
                "statistics: omit them, or make them a question"
            )
            warnings.warn(message, RemarkWarning, stacklevel=1)
        return {**{key: given[key] for key in given if key != "reduce"}, "questions": each}

    @model_validator(mode="after")
    def _fits(self) -> Job:
        if not self.asked:
            raise ValueError("the job computes nothing: add [reduce] or [questions.NAME]")
        options = self.options
        for one in [options] if isinstance(options, Options) else options.values():
            check_results(self.output.path, one)
        return self

    @property
    def asked(self) -> dict[str, Reduction]:
        """The reductions by the names of questions; "" if there is one."""
        return self.questions or ({} if self.reduce is None else {"": self.reduce})

    def asking(self, of: Callable[[Reduction], Reduction]) -> dict[str, Any]:
        """Return what to change, so that something else is asked instead of each."""
        changed = {name: of(one) for name, one in self.asked.items()}
        return {"reduce": changed[""]} if "" in changed else {"questions": changed}

    @property  # a copy with other paths has other options
    def options(self) -> Options | dict[str, Options]:
        """The library's options for each array: those of one question, or of several by name."""
        each = {name: self._options(one) for name, one in self.asked.items()}
        return each.get("", each)

    def _options(self, asked: Reduction) -> Options:
        running = _loaded(self.limits, _RUNNING)
        return Options(allow_targets=self.allow_targets, **running, **asked.library)
