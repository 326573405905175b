"""Types of values in a job file, which read and check them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from dask.utils import parse_timedelta
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
)

from chunkfold.errors import PlanError
from chunkfold.kernels import as_monoid
from chunkfold.kernels.expressions.parsed import parsed
from chunkfold.units import size_bytes
from chunkfold.workflows.options.parsing import named, words
from chunkfold.workflows.options.selecting import parse_label, parse_selection

_SIZE = re.compile(r"\s*[0-9]{1,9}(\.[0-9]+)?\s*[kKMGTP]?i?B\s*")
_TIME = re.compile(r"\s*[0-9]{1,6}(\.[0-9]+)?\s*(ms|s|m|h|d)\s*")
_LONGEST_S = 10 * 365 * 86400.0


def selectable(text: str) -> str:
    """Read a selection."""
    parse_selection(text)
    return text


def label(given: Any) -> Any:
    """Read a value of a coordinate, or several; TOML has dates of its own."""
    if isinstance(given, list):
        return [label(one) for one in given]
    if isinstance(given, date):  # times are such, too
        return given.isoformat()
    if isinstance(given, str):
        parse_label(given)
    return given


def with_dots(given: Any) -> Any:
    """Join what TOML takes apart: names with a dot that stand in no quotes, as time.season."""
    if not isinstance(given, dict):
        return given
    found: dict[str, Any] = {}
    for key, value in given.items():
        parts = value if isinstance(value, dict) else {}
        found |= {f"{key}.{part}": one for part, one in parts.items()} or {key: value}
    return found


def condition(text: str) -> str:
    """Read a condition."""
    parsed(text)
    return text


def _nbytes(text: Any) -> int:
    """Read a size; never a bare number, which would leave its unit open."""
    sound = isinstance(text, str) and _SIZE.fullmatch(text)
    nbytes = size_bytes(text) if sound else 0
    if nbytes <= 0:
        raise PlanError(f"give a size with its unit, such as '2 GiB', not {text!r}")
    return nbytes


def _seconds(text: Any) -> float:
    sound = isinstance(text, str) and _TIME.fullmatch(text)
    seconds = float(parse_timedelta(text, default=False)) if sound else 0.0
    if not 0 < seconds < _LONGEST_S:
        raise PlanError(f"give a time with its unit, such as '90 m' or '2 h', not {text!r}")
    return seconds


def listed(value: Any) -> Any:
    """Take one for a list of one."""
    return value if isinstance(value, list) else [value]


def dtype_name(name: str) -> str:
    """Read the name of a dtype."""
    try:
        np.dtype(name)
    except (TypeError, ValueError, SyntaxError):
        raise PlanError(f"{name!r} is not a dtype") from None
    return name


_TEXT = {"type": "string"}
Text = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
Word = Annotated[str, Field(pattern=r"^[\w.:/@+-]+$")]
Texts = Annotated[
    list[Text],
    BeforeValidator(listed),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}),
]
LabelValue = Annotated[str | int | float | list[str | int | float], BeforeValidator(label)]
KubeName = Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Nbytes = Annotated[int, BeforeValidator(_nbytes), WithJsonSchema(_TEXT)]
Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema(_TEXT)]


def reductions(given: list[str]) -> list[str]:
    """Take apart what is joined by commas, and look every name up."""
    names = words(tuple(given))
    for name in names:
        found = as_monoid(named(name))
        if found.inputs != 1:
            raise PlanError(f"{found.name} takes two arrays; a job reduces one at a time")
    return names


_AXES = int | str | list[int | str]
_EDGES = list[int | float]
_LABEL = int | float | str | bool
TYPES: Mapping[str, Any] = MappingProxyType(
    {
        "op": Annotated[Texts, AfterValidator(reductions)],
        "edges": Text,
        "selection": Annotated[str, AfterValidator(selectable)],
        "sel": Annotated[dict[Text, LabelValue], BeforeValidator(with_dots)],
        "sel_tolerance": int | float | str,
        "axis": Annotated[list[int | str], BeforeValidator(listed), Field(min_length=1)],
        "coarsen": Annotated[dict[Text, Count], Field(min_length=1)],
        "min_count": Annotated[int, Field(ge=0)],
        "where": Annotated[str, AfterValidator(condition)],
        "mask": Text,
        "weights": Text,
        "dtype": Annotated[str, AfterValidator(dtype_name)],
        "by": Annotated[Texts, Field(min_length=1)],
        "bins": list[int | float | str | _EDGES] | str,
        "by_axis": list[_AXES] | int | str,
        "groups": list[_LABEL | list[_LABEL]],
        "resample": dict[str, str],
        "memory": Nbytes,
    }
)
"""Types of options in job files, by their names, where TOML has more than a text for them."""


def distinct_paths(claims: dict[str, str]) -> dict[str, str]:
    """See that no two claims are at one path."""
    if len(set(claims.values())) < len(claims):
        raise PlanError("two claims cannot have the same path")
    return claims


def scheduler(text: str) -> str:
    """Read a scheduler's address."""
    if not re.fullmatch(r"(\w+://)?[^\s/]+:[0-9]+/?", text):
        raise PlanError(f"give a scheduler's address, such as 'tcp://10.0.0.1:8786', not {text!r}")
    return text


def slurm_time(text: str) -> str:
    """Read a time of Slurm."""
    if not re.fullmatch(r"([0-9]+-)?[0-9]+(:[0-9]+){0,2}", text):
        raise PlanError(f"give a time as Slurm writes it, such as '02:00:00', not {text!r}")
    return text
