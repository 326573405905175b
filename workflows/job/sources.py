"""From the patterns of a job to arrays, and what its outputs call them."""

from __future__ import annotations

import glob
import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from chunkfold.errors import JobError, MissingWarning
from chunkfold.printable import printable
from chunkfold.redaction import shown_address, without_secrets
from chunkfold.settings import StorageOptions
from chunkfold.sources.open_errors import is_store
from chunkfold.sources.opening import Unopened, open_each
from chunkfold.sources.source import Source
from chunkfold.stores.addresses import NO_OPTIONS, below, is_zarr, last_of, on_disk
from chunkfold.stores.obstore_clients import LISTED, open_store
from chunkfold.stores.remote import message_of, said_shortly

MARKS = frozenset("*?[")
"""What makes a source a pattern."""


def job_sources(
    patterns: Sequence[str],
    exclude: Sequence[str] = (),
    out: str = "",
    left_out: dict[str, str] | None = None,
    options: StorageOptions = NO_OPTIONS,
) -> dict[str, Source]:
    """Open every array that patterns name, by what outputs call it.

    That is its path within the group, or below the folder where a pattern's marks begin; of an
    array that is named itself, its own name. Coordinates of axes in a group are left out, and an
    earlier output of the job, at `out`, that a pattern matches. So are one that only consolidated
    metadata name, and one whose name is no UTF-8 where there are others, with a MissingWarning;
    why the latter is goes to `left_out`, by its name as messages spell it.

    Raises
    ------
    ChunkfoldError
        If a pattern matches nothing, an array cannot be opened, or two have the same name.
    """
    found: dict[str, Source] = {}
    unnamed = {} if left_out is None else left_out
    for name, source in _opened(patterns, exclude, out, options):
        if name != name.encode(errors="replace").decode():
            reason = f"{source.name!r} is not UTF-8: no output can hold that name; rename it"
            unnamed[printable(name)] = reason
        elif name in found and found[name].name != source.name:
            one, other = printable(found[name].name), printable(source.name)
            raise JobError(
                f"{one} and {other} would both be written as {name!r}: "
                "name the folder above them with a pattern, or run two jobs"
            )
        else:
            found[name] = source
    if not found:
        raise JobError(_why_none(patterns, exclude, unnamed))
    for reason in unnamed.values():
        warnings.warn(f"{reason}: the job continues without it", MissingWarning, stacklevel=2)
    return found


def _opened(
    patterns: Sequence[str], exclude: Sequence[str], out: str, options: StorageOptions
) -> Iterator[tuple[str, Source]]:
    """Yield every array that patterns name and `exclude` does not, by name; none of `out`."""
    for address, name, member in _members(patterns, out, options):
        # "*/lat" is "lat" of the only store too, whose arrays stand at the top.
        if any(fnmatchcase(at, one) for one in exclude for at in (name, f"/{name}")):
            continue
        if isinstance(member, Unopened):
            if not member.gone:
                raise member.error
            warnings.warn(
                f"{member.error}: the job continues without it", MissingWarning, stacklevel=3
            )
        elif not (_is_below(out, address) and _is_below(member.name, out)):
            yield name, member


def _why_none(patterns: Sequence[str], exclude: Sequence[str], unnamed: Mapping[str, str]) -> str:
    """Say why there is nothing to reduce."""
    if unnamed:
        return "; ".join(unnamed.values())
    if exclude:
        return f"exclude {', '.join(map(repr, exclude))} excludes all arrays of the sources"
    return (
        f"no array of {', '.join(patterns)} exists any more; coordinates of axes are omitted, "
        "unless they are named"
    )


def _members(
    patterns: Sequence[str], out: str, options: StorageOptions
) -> Iterator[tuple[str, str, Source | Unopened]]:
    """Yield the address of what patterns match, and every array in it, by name."""
    for pattern in patterns:
        for address, key in _matches(pattern):
            if address != pattern and address.rstrip("/") == out.rstrip("/"):
                continue
            for member in open_each(address, options):
                inner = below(shown_address(address), member.name)
                if inner and isinstance(member, Source) and member.of_axis:
                    continue
                name = "/".join(part for part in (key, inner) if part) or last_of(address)
                yield address, name, member


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def matching(pattern: str) -> list[str]:
    """Return the addresses that a pattern matches, sorted; what is none is an address itself.

    Raises
    ------
    JobError
        If it matches nothing.
    """
    here = "://" not in pattern and not pattern.startswith(("/", "~"))
    found = [address for address, _ in _matches(f"./{pattern}" if here else pattern)]
    return [address.removeprefix("./") for address in found] if here else found


def _matches(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield addresses that a pattern matches, and what stands in the place of its marks."""
    parts = pattern.split("/")
    web = pattern.lower().startswith("http")
    marks = MARKS - {"?"} if web else MARKS  # a web address may have a query
    first = next((n for n, part in enumerate(parts) if marks & set(part)), None)
    if first is None:
        yield pattern, ""
        return
    base = "/".join(parts[:first])
    remote = "://" in pattern
    keys = list(_remote(base, parts[first:]) if remote else _local(base, parts[first:]))
    if not keys:
        raise JobError(f"source {without_secrets(pattern)} matches no Zarr array or group")
    for key in keys:
        yield f"{base}/{key}", key


def _local(base: str, parts: Sequence[str]) -> Iterator[str]:
    root = Path(base or "/")
    found = on_disk(root)
    if isinstance(found, zipfile.Path):
        yield from _zipped(found, parts)
        return
    if not root.is_dir():
        raise JobError(f"source {'/'.join((base, *parts))} matches nothing: {root} is not a folder")
    keys = sorted(glob.glob("/".join(parts), root_dir=root, recursive=True))  # noqa: PTH207 # ** follows links there
    for key in _once(root, keys) if "**" in parts else keys:
        path = root / key
        if path.suffix == ".zip" or is_store(path):
            yield key
    yield from _within_stores(root, parts)
    for n in (n for n, part in enumerate(parts[:-1], 1) if part.endswith(".zip")):
        for key in sorted(glob.glob("/".join(parts[:n]), root_dir=root)):  # noqa: PTH207
            archive = on_disk(root / key)
            if isinstance(archive, zipfile.Path):
                yield from (f"{key}/{inner}" for inner in _zipped(archive, parts[n:]))


def _within_stores(root: Path, parts: Sequence[str]) -> Iterator[str]:
    """Yield what parts of a pattern match in what is no folder of Zarr, as `*.nc/air`.

    Behind the store's own name there are no marks.
    """
    last = max(n for n, part in enumerate(parts, 1) if MARKS & set(part))
    for n in range(last, len(parts)):
        for key in sorted(glob.glob("/".join(parts[:n]), root_dir=root)):  # noqa: PTH207
            if is_store(root / key) and not is_zarr(root / key):
                yield "/".join((key, *parts[n:]))


def _zipped(folder: zipfile.Path, parts: Sequence[str]) -> Iterator[str]:
    """Yield what parts of a pattern match in an archive, or in a folder of one."""
    part, *rest = parts
    for entry in sorted(folder.iterdir(), key=str) if folder.is_dir() else ():
        if not fnmatchcase(entry.name, part):
            continue
        if rest:
            yield from (f"{entry.name}/{inner}" for inner in _zipped(entry, rest))
        elif is_zarr(entry):
            yield entry.name


def _once(root: Path, keys: Sequence[str]) -> list[str]:
    """Leave out what links lead to again, or in a circle; what is there without them is kept."""
    base = os.path.realpath(root)
    found: dict[str, str] = {}
    for key in keys:
        place = os.path.realpath(root / key)
        if place not in found or os.path.normpath(f"{base}/{key}") == place:
            found[place] = key
    return sorted(found.values())


def _remote(base: str, parts: Sequence[str]) -> Iterator[str]:
    scheme, _, rest = base.partition("://")
    if scheme.lower() not in LISTED or not rest:
        raise JobError(
            f"source {without_secrets('/'.join((base, *parts)))}: patterns are for local paths and "
            "stores that can be listed (s3://bucket/..., gs://, az://); name the arrays"
        )
    import obstore

    try:
        with said_shortly():
            store = open_store(base)
            found = [""]
            for part in parts:
                found = [
                    below
                    for prefix in found
                    for below in obstore.list_with_delimiter(store, prefix or None)[
                        "common_prefixes"
                    ]
                    if fnmatchcase(below.rpartition("/")[2], part)
                ]
    except (OSError, ImportError) as error:
        shown = without_secrets("/".join((base, *parts)))
        raise JobError(f"source {shown} cannot be listed ({message_of(error)})") from error
    yield from sorted(found)
