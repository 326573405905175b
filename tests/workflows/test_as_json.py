"""Whatever is written as JSON, any parser reads: numbers, and names that are no UTF-8."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from chunkfold.workflows.as_json import json_text

pytestmark = pytest.mark.unoptimised

TEXTS = st.text(st.characters())  # halves of letters among them
VALUES = st.recursive(
    st.one_of(TEXTS, st.floats(), st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXTS, inner)),
)


def strictly(text: str) -> Any:
    """Read JSON as RFC 8259 has it, of Unicode letters only."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not readable JSON")

    read = json.loads(text, parse_constant=refuse)
    json.dumps(read, ensure_ascii=False).encode()
    return read


@given(VALUES)
def test_any_parser_reads_it(value: Any):
    strictly(json_text(value))


@given(st.text())
def test_letters_stay(text: str):
    assert strictly(json_text({text: [text]})) == {text: [text]}


def test_what_is_no_letter_is_spelled():
    assert strictly(json_text([os.fsdecode(b"a\xff"), "\ud83d"])) == ["a\\xff", "\\ud83d"]


@pytest.fixture
def odd(tmp_path: Path) -> str:
    """A group whose name is no UTF-8, of one array that is well, and one that is not."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/s\xff.zarr")
    group = zarr.open_group(path, mode="w")
    for name in ("a", "cut"):
        group.create_array(name, data=np.arange(8.0), chunks=(4,))
    (Path(path) / "cut" / "c" / "1").write_bytes(b"no")
    return path


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("reduce", "STORE/a", "--json"), 0),
        (("plan", "STORE/a", "--json"), 0),
        (("normalize", "STORE/a"), 0),
        (("describe", "STORE", "--json", "--on-bad-chunk", "skip"), 3),
        (("reduce", "STORE/no", "--json-lines"), 2),
        (("reduce", "STORE/cut", "--json-lines", "--on-bad-chunk", "skip"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_commands_tell_names_that_are_no_utf_8(odd: str, here, words: tuple[str, ...], code: int):
    ended, out, err = here(*(word.replace("STORE", odd) for word in words))
    assert ended == code
    told = err.splitlines() if "--json-lines" in words else [out]
    assert "s\\\\xff.zarr" in "".join(told)
    assert [strictly(one) for one in told]
