"""What is printed is seen, and does nothing."""

from __future__ import annotations

import re
import unicodedata

import pytest

from chunkfold.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("air/température_2m ☂ 日本", "air/température_2m ☂ 日本"),
        ("a\x1b[2J", "a\\x1b[2J"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nwrote b\r\tc", "a\\nwrote b\\r\\tc"),
        ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\x85d"),
        ("\u202egpj.exe\u2066\u200f", "\\u202egpj.exe\\u2066\\u200f"),
        ("ad\u200bmin\ufeff\u2060", "ad\\u200bmin\\ufeff\\u2060"),
        ("a\u3164b\ufe0f", "a\\u3164b\\ufe0f"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("a b", "a b"),
    ],
)
def test_what_is_not_seen_is_spelled(text: str, shown: str):
    assert printable(text) == shown


def test_no_character_of_a_kind_is_left_out():
    every = "".join(map(chr, [*range(0x10000), *range(0xE0000, 0xE0200)]))
    left = printable(every)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", left)
    kinds = {unicodedata.category(one) for one in set(left)}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not {
        one for one in left if unicodedata.bidirectional(one) in ("RLO", "LRO", "RLE", "RLI")
    }
