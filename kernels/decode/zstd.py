"""Decode Zstandard frames (RFC 8878) on a device: the stages of `cl/zstd`, many chunks at once."""

from __future__ import annotations

import numpy as np
import pyopencl as cl

from chunkfold.kernels.decode.workspace import StageInput, Workspace
from chunkfold.kernels.program.device_context import DeviceContext

_CHUNK = np.dtype(
    [(name, "u8") for name in ("from", "size", "to", "capacity", "literals", "sequences")]
    + [(name, "u4") for name in ("block", "blocks", "flags", "checksum")]
    + [("error", "i4"), ("late", "i4")]
)
"""`chunk_t` of `cl/zstd/format.clh`."""
_BLOCK_BYTES = 128
"""Of `block_t`."""
_HAS_CHECKSUM = 1
_LEAST_BLOCK, _MORE_BLOCKS = 1024, 8
"""A chunk has a block for so many of its bytes at most, and so many more."""
_LEAST_ROOM = 1 << 20
"""Bytes that a few chunks may take, however small they are."""
_SEQUENCE_BLOCKS = ((48 << 10, 16), (24 << 10, 8), (0, 2))
"""Blocks of a work-group that decodes sequences, by the local memory that they take."""
_SEQUENCE_LANES, _LITERAL_BLOCKS, _STREAMS = 2, 4, 4
_MATCH_LANES, _COPY_LANES, _HEADER_LANES = 512, 64, 32
_CHECKSUM_CHUNKS, _BYTE_LANES = 8, 256
_FEW, _LONG_BLOCKS = 64, 16
"""Fewer chunks, of so many blocks on average, are put together block by block."""
_LONG = _LONG_BLOCKS << 16
"""Chunks of fewer bytes never are."""
_FORMAT, _BITS, _FSE = ("bytes.clh", "zstd/format.clh"), "zstd/bits.clh", "zstd/fse.clh"


class Zstd:
    """The kernels of a device."""

    def __init__(self, opened: DeviceContext) -> None:
        local = opened.device.local_bytes
        self._sequence_blocks = next(n for least, n in _SEQUENCE_BLOCKS if local >= least)
        self._match_lanes = min(_MATCH_LANES, opened.device.max_work_group_size)

        def kernel(name: str, *files: str, **options: int) -> cl.Kernel:
            given = tuple(f"-D{option}={value}" for option, value in options.items())
            return cl.Kernel(opened.standalone(*_FORMAT, *files, options=given), name)

        blocks = self._sequence_blocks
        self._headers = kernel("headers", "zstd/headers.cl")
        self._sequences = kernel(
            "sequences", _BITS, _FSE, "zstd/tables.clh", "zstd/sequences.cl", BLOCKS=blocks
        )
        self._offsets = kernel("offsets", "zstd/offsets.cl")
        self._literals = kernel(
            "literals", _BITS, _FSE, "zstd/huffman.clh", "zstd/literals.cl", BLOCKS=_LITERAL_BLOCKS
        )
        self._stored = kernel("stored_blocks", "zstd/stored.cl")
        batches = {"LANES": self._match_lanes}
        self._matches = kernel("match_copies", "zstd/batches.clh", "zstd/matches.cl", **batches)
        self._origins = kernel("match_origins", "zstd/batches.clh", "zstd/origins.cl", **batches)
        self._bytes = kernel("found_bytes", "zstd/bytes.cl")
        self._checksums = kernel("checksums", "zstd/checksums.cl")

    def decode(self, workspace: Workspace, given: StageInput) -> bool:
        """Decode chunks; False if one is not as the format says, or refused.

        Those that have a checksum go to multiples of 16.
        """
        stored, places, sizes, decoded, to, nbytes = given
        count = np.uint32(len(places))
        chunks = workspace.pinned("chunks", len(places), _CHUNK)
        chunks["from"], chunks["size"], chunks["to"], chunks["capacity"] = places, sizes, to, nbytes
        table = workspace.buffer("chunks", chunks.nbytes)
        headers = (len(places),), (_HEADER_LANES,)
        workspace.write(table, chunks)
        workspace.launch(self._headers, *headers, stored, table, count, table, np.uint32(0))
        workspace.read(table, chunks)
        checked = chunks["flags"] & _HAS_CHECKSUM
        wrong = (chunks["error"] != 0) | (chunks["blocks"] == 0) | (checked & (to % 16 > 0))
        if wrong.any() or _claims_too_much(chunks):
            return False
        totals = {name: int(chunks[name].sum()) for name in ("blocks", "literals", "sequences")}
        total = totals["blocks"]
        blocks = workspace.buffer("blocks", total * _BLOCK_BYTES)
        literals = workspace.buffer("literals", totals["literals"])
        matches = workspace.buffer("matches", 8 * totals["sequences"])
        firsts = workspace.buffer("firsts", 4 * totals["sequences"])
        for name, place in (("blocks", "block"), *((n, n) for n in ("literals", "sequences"))):
            chunks[place] = np.cumsum(chunks[name]) - chunks[name]
        workspace.write(table, chunks)
        workspace.launch(self._headers, *headers, stored, table, count, blocks, np.uint32(1))
        each, lanes = np.uint32(total), self._sequence_blocks * _SEQUENCE_LANES
        groups = -(-total // self._sequence_blocks)
        workspace.launch(
            *(self._sequences, (groups * lanes,), (lanes,)),
            *(stored, blocks, each, table, matches, firsts),
        )
        workspace.launch(self._offsets, *headers, blocks, table, count)
        lanes = _LITERAL_BLOCKS * _STREAMS
        groups = -(-total // _LITERAL_BLOCKS)
        workspace.launch(
            *(self._literals, (groups * lanes,), (lanes,)),
            *(stored, blocks, each, table, literals, decoded),
        )
        workspace.launch(
            *(self._stored, (total * _COPY_LANES,), (_COPY_LANES,)),
            *(stored, blocks, table, decoded),
        )
        long = total >= _LONG_BLOCKS * len(places) and chunks["capacity"].min() >= _LONG
        if long and len(places) < _FEW:
            found = matches, firsts, literals
            self._copy_by_block(workspace, stored, blocks, total, table, found, decoded, chunks)
        else:
            workspace.launch(
                *(self._matches, (len(places) * self._match_lanes,), (self._match_lanes,)),
                *(stored, blocks, table, matches, firsts, literals, decoded),
            )
        if checked.any():
            groups = -(-len(places) // _CHECKSUM_CHUNKS)
            lanes = 4 * _CHECKSUM_CHUNKS
            workspace.launch(self._checksums, (groups * lanes,), (lanes,), table, count, decoded)
        workspace.read(table, chunks)
        return not (chunks["error"].any() or chunks["late"].any())

    def _copy_by_block(
        self,
        workspace: Workspace,
        stored: cl.Buffer,
        blocks: cl.Buffer,
        total: int,
        table: cl.Buffer,
        sequences: tuple[cl.Buffer, cl.Buffer, cl.Buffer],
        decoded: cl.Buffer,
        chunks: np.ndarray,
    ) -> None:
        """Put literals and matches together, each block by itself: chunks are too few."""
        origins = workspace.buffer("origins", 4 * int((chunks["to"] + chunks["capacity"]).max()))
        workspace.launch(
            *(self._origins, (total * self._match_lanes,), (self._match_lanes,)),
            *(stored, blocks, table, *sequences, decoded, origins),
        )
        rounds = int(chunks["blocks"].max()).bit_length() + 1
        left = workspace.buffer("left", 4 * rounds)
        workspace.write(left, workspace.pinned("left", rounds, np.dtype(np.uint32)))
        for number in range(rounds):
            workspace.launch(
                *(self._bytes, (total * _BYTE_LANES,), (_BYTE_LANES,)),
                *(blocks, table, origins, decoded, left, np.uint32(number)),
            )


def _claims_too_much(chunks: np.ndarray) -> bool:
    """Tell whether chunks say that they have more of anything than those of their size can need.

    A match has three bytes at least; blocks may be small, but nobody writes many such.
    """
    rooms = chunks["capacity"].astype(np.int64)
    blocks, literals, sequences = (
        chunks[name].astype(np.int64) for name in ("blocks", "literals", "sequences")
    )
    most = rooms + 16 * blocks
    needed = blocks * _BLOCK_BYTES + literals + (8 + 4) * sequences
    return bool(
        (blocks > rooms // _LEAST_BLOCK + _MORE_BLOCKS).any()
        or (literals > most).any()
        or (3 * sequences > most).any()
        or needed.sum() + chunks.nbytes > _table_bytes(int(rooms.sum()))
    )


def zstd_stage_bytes(nbytes: int, chunk_bytes: int) -> int:
    """Return the most bytes that chunks take of a device; `nbytes` are those of all, decoded."""
    return _table_bytes(nbytes) + (4 * nbytes if chunk_bytes >= _LONG else 0)


def _table_bytes(nbytes: int) -> int:
    each = nbytes + (8 + 4) * nbytes // 3 + nbytes // _LEAST_BLOCK * (_BLOCK_BYTES + 16 * 5)
    return each + _LEAST_ROOM
