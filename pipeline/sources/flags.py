"""Names of codes, as attributes of the CF conventions give them (1.11, section 3.5).

`flag_values` lists codes, and `flag_meanings` a word for each.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkfold.errors import PlanError

_VALUES, _MEANINGS, _MASKS = "flag_values", "flag_meanings", "flag_masks"


@dataclass(frozen=True)
class Flags:
    """Codes, each with its name."""

    names: Mapping[int, str]

    def known(self, values: np.ndarray) -> np.ndarray:
        """Return where integers are codes that have a name."""
        return np.isin(values, np.array([*self.names]))

    def codes(self, groups: Any, name: str) -> Any:
        """Return the codes of groups that are given by their names, or by their codes.

        Raises
        ------
        PlanError
            If one is neither; `name` is that of the labels.
        """
        if isinstance(groups, str) or not isinstance(groups, Iterable):
            return groups
        known = [*self.names, *self.names.values()]
        given = np.asarray(groups).tolist() if hasattr(groups, "__array__") else list(groups)
        other = next((one for one in given if one not in known), None)
        if other is not None:
            near = difflib.get_close_matches(str(other), self.names.values(), n=1)
            hint = f"did you mean {near[0]!r}? The names" if near else "the names"
            raise PlanError(f"groups has {other!r}, which {name} does not name; {hint} are {self}")
        codes = dict(zip(known, [*self.names] * 2, strict=True))
        return [codes[one] for one in given]

    def called(self, codes: np.ndarray) -> np.ndarray:
        """Return the names of codes."""
        return np.array([self.names[code] for code in codes.tolist()])

    def __str__(self) -> str:
        return ", ".join(f"{code} ({name})" for code, name in self.names.items())


def flags_of(attributes: Mapping[str, Any]) -> Flags | None:
    """Return the names of codes; None if there are none, or they do not fit each other.

    >>> print(flags_of({"flag_values": [0, 1], "flag_meanings": "sea land"}))
    0 (sea), 1 (land)
    >>> flags_of({"flag_values": [0, 1], "flag_meanings": "sea"})
    """
    if not {_VALUES, _MEANINGS} <= attributes.keys() or _MASKS in attributes:
        return None
    codes, said = np.asarray(attributes[_VALUES]).reshape(-1), attributes[_MEANINGS]
    names = said.split() if isinstance(said, str) else list(map(str, np.ravel(said)))
    numbers = codes.dtype.kind in "iu" and len({*codes.tolist()}) == len(codes)
    if not numbers or len(names) != len(codes) or len({*names}) != len(names):
        return None
    return Flags(dict(zip(codes.tolist(), names, strict=True)))


def flag_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what attributes say of the names of codes."""
    return {key: attributes[key] for key in (_VALUES, _MEANINGS, _MASKS) if key in attributes}


def without_flags(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of names themselves: those of codes but what names them."""
    return {key: said for key, said in attributes.items() if key not in flag_attributes(attributes)}
