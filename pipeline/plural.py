"""Counts in messages, with a noun in the singular or the plural."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which takes an "s" unless the count is 1.

    >>> counted(1, "worker"), counted(2_000, "task"), counted(0, "chunk")
    ('1 worker', '2,000 tasks', '0 chunks')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
