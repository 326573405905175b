"""From a TOML file to a job: variables, overrides, and errors that name file, line and key."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from chunkfold.errors import JobError
from chunkfold.kernels import Monoid
from chunkfold.workflows.job.job_keys import KeyPath, dotted, expanded, line_of, override
from chunkfold.workflows.job.schema import CLUSTERS, VERSION, Job, Reduction
from chunkfold.workflows.job.sources import MARKS
from chunkfold.workflows.options.parsing import MONOIDS
from chunkfold.workflows.options.selecting import with_paths

_MOST_BYTES = 1 << 20
_CODE = {field.name for field in fields(Monoid)} | {"monoid", "kernel", "source", "code"}
"""Keys by which somebody would declare a reduction."""
_NO_CODE = (
    "a job file holds no code: put a Monoid into an installed package, under the entry point "
    f"{MONOIDS}, and name it in reduce.statistics"
)


def load_job(path: str | Path, overrides: Sequence[str] = ()) -> Job:
    """Read a job file; its relative paths become paths from where the file is.

    Parameters
    ----------
    path
        Of the TOML file.
    overrides
        Each "key=value": a dotted key, and a TOML value or plain text.

    Raises
    ------
    JobError
        If it cannot be read or anything in it is wrong; a line for each thing that is.
    """
    file = Path(path)
    text = _read(file)
    try:
        raw = tomllib.loads(text)
    except RecursionError:
        raise JobError(f"{file}: is nested too deeply for a job file") from None
    except ValueError as error:  # TOMLDecodeError is one, and huge integers raise another
        raise JobError(f"{file}: {_with_line_first(str(error), text)}") from None
    described = _Described(file, text)
    for given in overrides:
        described.overridden[override(raw, given)] = f"--set {given}"
    problems = list(_refused(raw))
    raw = expanded(raw, (), problems)
    if not problems:
        raw.setdefault("name", file.stem)
        if isinstance(raw.get("cluster"), dict):
            raw["cluster"].setdefault("kind", "local")
        try:
            return _anchored(Job.model_validate(raw), file.parent)
        except ValidationError as error:
            problems = [_problem(raw, one) for one in error.errors()]
    raise JobError("\n".join(described.sentence(*problem) for problem in problems))


def _read(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise JobError(
                f"{file}: is larger than {_MOST_BYTES >> 20} MiB: this is not a job file"
            )
        return file.read_text("utf-8")
    except FileNotFoundError:
        raise JobError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"{file}: cannot be read as a job file ({error})") from None


def _with_line_first(message: str, text: str) -> str:
    """Turn "... (at line 3, column 4)" into "line 3: ...", and show the line."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message, re.DOTALL)
    if not found:
        return message
    line = text.split("\n")[int(found[2]) - 1].strip()
    return f"line {found[2]}: {found[1]}: {line[:80]}"


class _Described:
    """A job file as messages name places in it."""

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text = file, text
        self.overridden: dict[KeyPath, str] = {}

    def sentence(self, place: KeyPath, problem: str) -> str:
        """Say what is wrong, and where."""
        for length in range(len(place), 0, -1):
            if place[:length] in self.overridden:
                return f"{self.file}, {self.overridden[place[:length]]}: {problem}"
        line = line_of(self.text, place) if place else 0
        where = f"{self.file}:{line}" if line else str(self.file)
        return f"{where}: {dotted(place)}: {problem}" if place else f"{where}: {problem}"


def _refused(raw: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield what is not to be read on with: a file of the future, and code."""
    version = raw.get("schema")
    if version is None:
        yield (), f"it has no schema; begin it with: schema = {VERSION}"
    elif not isinstance(version, int) or isinstance(version, bool) or version < 1:
        yield ("schema",), f"is {version!r}; job files of this chunkfold have: schema = {VERSION}"
    elif version > VERSION:
        yield (
            ("schema",),
            f"is {version}, but this chunkfold knows job files of schema {VERSION}: update it",
        )
    yield from _code_in(("reduce",), raw.get("reduce"))
    several = raw.get("questions")
    for name, asked in several.items() if isinstance(several, dict) else ():
        yield from _code_in(("questions", name), asked)


def _code_in(place: KeyPath, asked: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield where a reduction has code, as files had once."""
    if not isinstance(asked, dict):
        return
    for key in asked:
        if key in _CODE - set(Reduction.model_fields):
            yield (*place, key), _NO_CODE
    named = asked.get("statistics")
    for number, value in enumerate(named if isinstance(named, list) else [named]):
        if _is_code(value):
            yield (*place, "statistics", number), _NO_CODE


def _is_code(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, str) and not re.match(r"[\w ,$:{}-]*$", value)
    )


def _problem(raw: Any, error: Any) -> tuple[KeyPath, str]:
    """Say in a sentence what pydantic found, and where."""
    place = _place(raw, error["loc"])
    kind, given = error["type"], error["input"]
    if kind == "extra_forbidden":
        return place, "is no such key" + _nearest(str(place[-1]), _keys(raw, place[:-1]))
    if kind == "missing":
        return place, "is missing"
    if kind == "union_tag_invalid":
        tag = str(error["ctx"]["tag"])
        return (*place, "kind"), f"is {tag!r}; use one of: " + ", ".join(map(repr, CLUSTERS))
    if kind == "value_error":
        return place, str(error["ctx"]["error"])
    wanted = error["msg"].removeprefix("Input should be ")
    if wanted != error["msg"]:
        return place, f"is {_shown(given)}, but should be {wanted}"
    return place, f"is {_shown(given)}: {wanted[0].lower()}{wanted[1:]}"


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _place(raw: Any, loc: Sequence[str | int]) -> KeyPath:
    """Return the keys of a location, without what pydantic puts between.

    That is the kind of cluster that it took a table for, and alternatives of a value's type.

    >>> _place({"reduce": {"axes": ["x", 1.5]}}, ("reduce", "axes", 1, "int"))
    ('reduce', 'axes', 1)
    """
    place: KeyPath = ()
    node = raw
    for number, part in enumerate(loc):
        if number == 1 and place == ("cluster",) and part in CLUSTERS:
            continue
        if isinstance(node, dict):
            place, node = (*place, part), node.get(part)
        elif isinstance(node, list) and isinstance(part, int):
            place, node = (*place, part), node[part]
    return place


def _keys(raw: Any, place: KeyPath) -> list[str]:
    """Return the keys that a table may have."""
    model: type[BaseModel] = Job
    for key in place:
        if key == "cluster":
            model = CLUSTERS[raw["cluster"]["kind"]]
        elif str(key) in model.model_fields:
            model = _model_in(model.model_fields[str(key)].annotation) or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the table that an annotation allows, by itself or as entries; None if it is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = map(_model_in, get_args(annotation))
    return next((one for one in found if one is not None), None)


def _nearest(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; use one of: {', '.join(known)}"


def _is_path(label: str) -> bool:
    """Return whether labels name a file or a store, rather than an array next to the data.

    >>> _is_path("time.month"), _is_path("zones.npy"), _is_path("masks.zarr/zones")
    (False, True, True)
    """
    return "/" in label or label.endswith((".npy", ".zarr"))


def _anchored(job: Job, folder: Path) -> Job:
    """Make its relative paths relative to the folder that the job file is in."""
    base = folder.resolve()

    def absolute(path: str) -> str:
        chain, joint, last = path.rpartition("::")  # of what lies in an archive, say
        if joint:
            return f"{chain}{joint}{absolute(last)}"
        if "://" in path:
            return path
        return str(base / os.path.expanduser(path))  # noqa: PTH111 # raises for no user

    sources = [absolute(source) for source in job.sources]
    if MARKS & set(str(base)) and any(source.startswith(f"{base}/") for source in sources):
        raise JobError(
            f"{base} has one of {' '.join(sorted(MARKS))} in its name, which in a source are marks "
            "of a pattern: rename it, or put the job file elsewhere"
        )
    allowed = None if job.allow_targets is None else [absolute(one) for one in job.allow_targets]
    output = {"path": absolute(job.output.path)}
    for name in ("manifest", "report"):
        given = getattr(job.output, name)
        if given is not None:
            output[name] = absolute(given)

    def located(asked: Reduction) -> Reduction:
        held: dict[str, Any] = {
            name: absolute(given)
            for name in ("mask", "weights")
            if (given := getattr(asked, name)) and (_is_path(given) or (base / given).exists())
        }
        if asked.by is not None:
            held["by"] = [absolute(one) if _is_path(one) else one for one in asked.by]
        if asked.select is not None:
            held["select"] = with_paths(asked.select, absolute)
        changed: Reduction = asked.model_copy(update=held)
        return changed

    cluster = {
        name: str(base / os.path.expanduser(given))  # noqa: PTH111 # as above
        for name in ("tls_ca_file", "tls_cert", "tls_key")
        if (given := getattr(job.cluster, name, None)) is not None
    }
    limits = {} if job.limits.ledger is None else {"ledger": absolute(job.limits.ledger)}
    return job.model_copy(
        update={
            "sources": sources,
            "limits": job.limits.model_copy(update=limits),
            "allow_targets": allowed,
            **job.asking(located),
            "output": job.output.model_copy(update=output),
            "cluster": job.cluster.model_copy(update=cluster),
        }
    )
