"""What a job file says: pydantic models, which check what can be checked without opening data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    model_validator,
)

from chunkfold.kernels import Monoid
from chunkfold.planning.coarsening import BOUNDARIES
from chunkfold.planning.option_values import DECODE, MODES, ON_BAD_CHUNK, ON_MISSING_CHUNK
from chunkfold.planning.options import Options
from chunkfold.sources.coordinate_positions import METHODS
from chunkfold.workflows.as_zarr import check_results
from chunkfold.workflows.job.toml_tables import Address, Kubernetes, Local, Slurm, Table
from chunkfold.workflows.job.values import (
    Count,
    LabelValue,
    Nbytes,
    Seconds,
    Text,
    Texts,
    condition,
    dtype_name,
    listed,
    reductions,
    selectable,
)
from chunkfold.workflows.labels import of_each, with_bins
from chunkfold.workflows.parsing import Located, axis, named_reductions, wheres
from chunkfold.workflows.selecting import labels_of, parse_selection

VERSION = 1
"""Of job files: raised when an older chunkfold would misread one."""


class Reduction(Table):
    """What is computed of every array."""

    statistics: Annotated[Texts, AfterValidator(reductions)]
    """Names of reductions, as `chunkfold reduce --op` has them; all in one read."""
    axes: Annotated[list[int | str], BeforeValidator(listed), Field(min_length=1)] | None = None
    """Axes to reduce, by number or name; all of them without it."""
    coarsen: Annotated[dict[Text, Count], Field(min_length=1)] | None = None
    """Elements of a window along each axis, `{ y = 2, x = 2 }`; `axes` are reduced whole."""
    boundary: Literal[BOUNDARIES] = "exact"  # type: ignore[valid-type] # one list for all
    """Where elements are no multiple of windows: "exact" refuses that, "trim" leaves the last ones
    out, "pad" makes a shorter window of them."""
    keepdims: bool = Options.keepdims
    """Keep reduced axes with size one."""
    select: Annotated[str, AfterValidator(selectable)] | None = None
    """Part of each array, by positions as in NumPy's brackets: "0:100, ..., 3", "[0, 3, 5]", or
    "days.npy", a file, relative to the job file's folder."""
    sel: dict[Text, LabelValue] | None = None
    """Part of each array, by coordinates: {time = "2001-01:2010-12", lat = [30, 60]}."""
    sel_method: Literal[METHODS] | None = None  # type: ignore[valid-type] # as below
    """Of values that a coordinate has not: "nearest", "pad" or "backfill"."""
    sel_tolerance: int | float | str | None = None
    """How far away that may be."""
    allow_empty: bool = Options.allow_empty
    """Let `select` and `sel` take nothing; else that is an error."""
    edges: Text | None = None
    """Of a histogram's bins: "0,10,100", or LOW:HIGH:BINS."""
    sketch: int | float | None = None
    """Relative tolerance of quantiles, which one read then finds: 0.01; exact without it."""
    ddof: int | float = Options.ddof
    """Variances divide by count - ddof."""
    skipna: bool = False
    """Take elements that are NaN or NaT for absent."""
    where: Annotated[str, AfterValidator(condition)] | None = None
    """Take elements for absent of which this does not hold: "x > 300"."""
    mask: Text | None = None
    """Zarr of bools along some axes: elements count where they are true; an address or a path,
    relative to the job file's folder."""
    weights: Text | None = None
    """Zarr of weights along some axes, in sums, means, variances, deviations, histograms and
    quantiles."""
    by: Annotated[Texts, Field(min_length=1)] | None = None
    """Labels whose elements are groups: names of coordinates or of parts of their dates ("lat",
    "time.month"), or paths, relative to the job file's folder, or URLs, which have a "/" in them or
    end in .npy or .zarr. Of several all combinations are groups."""
    by_axis: list[int | str | list[int | str]] | int | str | None = None
    """Axes that labels are along; of several a list for each, [] for those that their names say."""
    bins: list[int | float | str | list[int | float]] | str | None = None
    """Edges of intervals that group labels: [-90, 0, 90], or "-90,0,90"; of several a list or a
    text for each, "" for none. Without labels of the elements themselves."""
    groups: list[int | float | str | bool | list[int | float | str | bool]] | None = None
    """Labels of the groups, in this order: of several a list for each, [] for those that there
    are."""
    resample: dict[str, str] | None = None
    """Spans of a calendar that group an axis of dates: {time = "1MS"}."""
    min_count: Annotated[int, Field(ge=0)] = Options.min_count
    """Results of fewer elements that are there are NaN or NaT."""
    initial: int | float | None = None
    """What sums, products, minima and maxima begin with."""
    mask_and_scale: bool = Options.mask_and_scale
    """Unpack values by `scale_factor`, `add_offset`, `_FillValue`, `missing_value`, as xarray."""
    mode: Literal[MODES] = Options.mode  # type: ignore[valid-type] # one list of modes for all
    """"exact" or "fast"."""
    dtype: Annotated[str, AfterValidator(dtype_name)] | None = None
    """Cast elements to this first, and the result to it."""

    @property
    def windows(self) -> dict[int | str, int] | None:
        """Windows as the library has them: axes by number or name."""
        given = self.coarsen
        return None if given is None else {axis(name): size for name, size in given.items()}

    @property
    def ops(self) -> list[str | Monoid]:
        """The statistics as the library has them."""
        return named_reductions(self.statistics, self.edges, self.sketch)

    @property
    def labels(self) -> dict[str, Any]:
        """The options of labels as the library has them."""
        by, one = self.by or [], len(self.by or []) < 2

        def each(given: Any) -> list[Any]:
            return [] if given is None else [given] if one else listed(given)

        return {
            "by": with_bins(by, each(self.bins)),
            "by_axis": of_each("by_axis", each(self.by_axis), len(by)),
            "groups": of_each("groups", each(self.groups), len(by)),
            "resample": self.resample,
        }

    @model_validator(mode="after")
    def _known(self) -> Reduction:
        _ = self.ops, self.labels
        return self


_SAME = (
    "boundary", "sel_method", "sel_tolerance", "allow_empty", "keepdims", "ddof", "skipna",
    "min_count", "initial", "mask_and_scale", "mode", "dtype",
)  # fmt: skip
"""Keys of `reduce` that are called as the library's options."""
_COMMON = ("select", "sel", "sel_method", "sel_tolerance", "allow_empty")
"""Those that say what is read."""


class Output(Table):
    """Where results go."""

    path: Text
    """Path, relative to the job file's folder, or URL: .zarr, .nc, .json, .csv or .parquet."""
    overwrite: bool = False
    """Whether an output that exists goes, once the new one is made."""
    manifest: Text | None = None
    """Where the run's manifest goes; beside the output without it."""
    report: Text | None = None
    """Where a report goes, as one HTML page; nowhere without it."""


Cluster: TypeAlias = Annotated[Local | Address | Slurm | Kubernetes, Field(discriminator="kind")]
CLUSTERS: Mapping[str, type[BaseModel]] = {
    "local": Local,
    "address": Address,
    "slurm": Slurm,
    "kubernetes": Kubernetes,
}
"""By their `kind`."""


class Limits(Table):
    """What a job may take."""

    memory: Nbytes | None = None
    """Of a worker, above an idle one: "2 GiB"."""
    time: Seconds | None = None
    """Of its runs together, once its workers are there: "2 h"."""
    worker_losses: Count | None = None
    """Workers that a block may lose before the job ends; those that are sent away do not count."""
    decode: Literal[DECODE] = Options.decode  # type: ignore[valid-type] # as above
    """Who decodes compressed chunks: "host", "device", or "auto": whoever is faster."""
    on_bad_chunk: Literal[ON_BAD_CHUNK] = Options.on_bad_chunk  # type: ignore[valid-type] # as above
    """"stop", or "skip": chunks that cannot be read are left out, and told."""
    on_missing_chunk: Literal[ON_MISSING_CHUNK] = Options.on_missing_chunk  # type: ignore[valid-type]
    """"fill", or "stop": a chunk that is not stored ends the run of its array before it reads."""


class Job(Table):
    """A job file."""

    version: Literal[1] = Field(alias="schema")
    """Of this format: 1."""
    name: str = ""
    """What messages and manifests call it; the file's name without it."""
    sources: Texts
    """Paths, relative to the job file's folder, or URLs: of arrays, of groups (all their arrays),
    or patterns with * ? [ ], and ** for folders at any depth of a local path."""
    exclude: Texts | None = None
    """Patterns of arrays to leave out, by the names that outputs have for them."""
    allow_targets: Texts | None = None
    """Prefixes of addresses to which references may lead, beside their own server or folder: paths,
    relative to the job file's folder, or URLs. Links of HDF5 files likewise."""
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
            for key in _COMMON:
                if isinstance(own, dict) and key in own:
                    raise ValueError(
                        f"questions.{name}.{key} says what all questions read: write it below "
                        "[reduce]"
                    )
        each = {
            name: {**common, **own} if isinstance(own, dict) and isinstance(common, dict) else own
            for name, own in several.items()
        }
        return {**{key: given[key] for key in given if key != "reduce"}, "questions": each}

    @model_validator(mode="after")
    def _fits(self) -> Job:
        if not self.asked:
            raise ValueError("nothing is asked: there is no [reduce], nor [questions.NAME]")
        options = self.options
        for one in [options] if isinstance(options, Options) else options.values():
            check_results(self.output.path, one)
        return self

    @property
    def asked(self) -> dict[str, Reduction]:
        """What is computed, by the names of questions; "" if it is one."""
        return self.questions or ({} if self.reduce is None else {"": self.reduce})

    def asking(self, of: Callable[[Reduction], Reduction]) -> dict[str, Any]:
        """Return what to change, so that something else is asked instead of each."""
        changed = {name: of(one) for name, one in self.asked.items()}
        return {"reduce": changed[""]} if "" in changed else {"questions": changed}

    @property  # a copy with other paths has other options
    def options(self) -> Options | dict[str, Options]:
        """What is asked of each array, as the library has it: one question, or several by name."""
        each = {name: self._options(one) for name, one in self.asked.items()}
        return each.get("", each)

    def _options(self, asked: Reduction) -> Options:
        limits = self.limits
        return Options(
            asked.ops,
            axis=asked.axes,
            selection=parse_selection(asked.select),
            sel=labels_of(asked.sel),
            decode=limits.decode,
            memory=limits.memory,
            allow_targets=self.allow_targets,
            on_bad_chunk=limits.on_bad_chunk,
            on_missing_chunk=limits.on_missing_chunk,
            where=wheres(asked.where, asked.mask),
            weights=None if asked.weights is None else Located(asked.weights),
            coarsen=asked.windows,
            **asked.labels,
            **{name: getattr(asked, name) for name in _SAME},
        )
