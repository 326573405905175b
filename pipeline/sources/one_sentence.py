"""The last net under what opens sources: what nobody expected becomes one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from chunkfold.errors import ChunkfoldError, ClusterError, SourceError, TargetError, runs_short
from chunkfold.redaction import shown_address
from chunkfold.stores.remote import message_of

P = ParamSpec("P")
T = TypeVar("T")


def in_one_sentence(opening: Callable[P, T]) -> Callable[P, T]:
    """Wrap what opens a source, its first argument: what it raises names that, in one sentence.

    Libraries raise what they like of metadata that somebody else wrote.
    """

    @wraps(opening)
    def wrapped(*given: P.args, **more: P.kwargs) -> T:
        name = _name_of(given[0] if given else None)
        try:
            return opening(*given, **more)
        except (SourceError, TargetError) as error:
            if not name or name in str(error) or type(error) not in (SourceError, TargetError):
                raise
            raise type(error)(f"{name}: {error}") from error
        except (ChunkfoldError, ImportError):
            raise
        except Exception as error:
            said = f"{name or 'the source'}: cannot be opened: its metadata, or what holds them, "
            said += f"are not what any reader expects ({type(error).__name__}: "
            kind = ClusterError if runs_short(error) else SourceError
            raise kind(f"{said}{message_of(error)})") from error

    return wrapped


def _name_of(source: Any) -> str:
    return shown_address(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else ""
