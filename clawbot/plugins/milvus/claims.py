"""Claims: which machine holds which file in which version, and what of it is still to be deleted. Pure.

A claim belongs to one owner (a machine) and one path of an agent; only its owner writes it. It names the blocks of the
file. Pieces are shared: they live as long as any claim names their block. A deleted file leaves a tombstone.

Writing a version takes three steps, each complete before the next: the claim names the new blocks as `pending`; the
pieces are written; the claim has them as `blocks`, and what it no longer needs as `dropped`. Deleting takes three more:
the claim names them as `dropped`; all claims of the path are read; what nobody names is deleted, and the claim forgets
it. Two machines that meet on a block each write before they read, so at least one of them sees the other.
"""

from __future__ import annotations

import datetime as dt
from base64 import b85decode, b85encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clawbot.memory.store.records import DayRun
from clawbot.memory.values import Source
from clawbot.plugins.milvus.pieces import BLOCK, MOST_TEXT_BYTES, storable

_ID_BYTES = 8

MOST_BLOCKS = 3_000
"""Blocks of one file, so that a claim with those before and after a change fits into its field: 96,000 pieces."""

State = Literal["live", "gone"]


class Version(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file as it was read, and its blocks. `chunks` counts its pieces, `chars` their characters."""

    size: int
    mtime_ns: int
    digest: bytes
    source: Source
    blocks: tuple[int, ...] = ()
    chunks: int = 0
    chars: int = 0
    day: dt.date | None = None
    days: tuple[DayRun, ...] = ()
    speakers: tuple[str, ...] = ()


class Claim(Struct, frozen=True, kw_only=True):
    """What `owner` holds of the file `path` of `agent`: `version`, None for a tombstone or before the first one.

    `pending` blocks are being written, `dropped` ones are to be deleted. `at` is the time of the last change, in
    milliseconds of its owner's clock.
    """

    agent: str
    owner: str
    path: str
    at: int
    version: Version | None = None
    pending: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """The primary key: of this owner and path alone."""
        told = msgspec.msgpack.encode((self.agent, self.owner, storable(self.path)))
        return blake2b(told, digest_size=16).hexdigest()

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.version.blocks if self.version is not None else ()

    @property
    def needs(self) -> frozenset[int]:
        """The blocks that must not be deleted."""
        return frozenset((*self.blocks, *self.pending))


def begun(claim: Claim, blocks: Sequence[int], at: int) -> Claim:
    """`claim` before the missing ones of `blocks` are written."""
    pending = tuple(dict.fromkeys((*claim.pending, *(each for each in blocks if each not in claim.blocks))))
    dropped = tuple(each for each in claim.dropped if each not in blocks)
    return msgspec.structs.replace(claim, pending=pending, dropped=dropped, at=at)


def settled(claim: Claim, version: Version | None, at: int) -> Claim:
    """`claim` after all blocks of `version` were written (None: the file is deleted): the rest is to be deleted."""
    kept = set(version.blocks) if version is not None else set()
    left = dict.fromkeys((*claim.dropped, *claim.blocks, *claim.pending))
    return msgspec.structs.replace(
        claim, version=version, pending=(), dropped=tuple(each for each in left if each not in kept), at=at
    )


def forgotten(claim: Claim, at: int) -> Claim:
    """`claim` after its dropped blocks were deleted."""
    return msgspec.structs.replace(claim, dropped=(), at=at)


def deletable(claim: Claim, others: Iterable[Claim]) -> frozenset[int]:
    """The dropped blocks of `claim` that none of `others`, the claims of its path, needs."""
    needed = frozenset[int]().union(*(other.needs for other in others if other.id != claim.id))
    return frozenset(claim.dropped) - needed


def contested(claim: Claim, others: Iterable[Claim]) -> frozenset[int]:
    """The pending blocks of `claim` that another owner may be deleting now: they are written again later."""
    dropped = frozenset[int]().union(*(other.dropped for other in others if other.id != claim.id))
    return frozenset(claim.pending) & dropped


def encode_claim(claim: Claim) -> Mapping[str, Any]:
    """The row of `claim`."""
    version = claim.version
    plain = None if version is None else msgspec.to_builtins(msgspec.structs.replace(version, blocks=()))
    packed = [b85encode(_packed(each)).decode() for each in (claim.blocks, claim.pending, claim.dropped)]
    body = msgspec.json.encode((plain, *packed)).decode()
    path = storable(claim.path)
    named = {"id": claim.id, "agent": claim.agent, "owner": claim.owner, "path": path}
    return {**named, "at": claim.at, "state": "gone" if version is None else "live", "body": body}


def decode_claim(row: Mapping[str, Any]) -> Claim:
    """The claim of a row. Raises ValueError for one that can't be."""
    plain, *packed = msgspec.json.decode(row["body"])
    blocks, pending, dropped = (_unpacked(b85decode(each)) for each in packed)
    version = None
    if plain is not None:
        version = msgspec.structs.replace(msgspec.convert(plain, Version), blocks=blocks)
    named = {name: str(row[name]) for name in ("agent", "owner", "path")}
    return Claim(**named, at=int(row["at"]), version=version, pending=pending, dropped=dropped)


def fits(claim: Claim) -> bool:
    """Whether the claim fits into a row."""
    total = len(claim.blocks) + len(claim.pending) + len(claim.dropped)
    return total <= 2 * MOST_BLOCKS and len(str(encode_claim(claim)["body"])) <= MOST_TEXT_BYTES


def most_pieces() -> int:
    """The largest number of pieces of one file."""
    return MOST_BLOCKS * BLOCK


def _packed(ids: Iterable[int]) -> bytes:
    return b"".join(each.to_bytes(_ID_BYTES, "big") for each in ids)


def _unpacked(data: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(data[at : at + _ID_BYTES], "big") for at in range(0, len(data), _ID_BYTES))
