"""What is stored in Milvus: the passages of files, and claims, by which a machine holds a file in a version. Pure.

A file is cut into blocks of `BLOCK` consecutive passages. The id of a block is a hash of the content of its passages,
and the id of a passage is that of its block and its position in it: the same text on two machines is the same row,
whoever writes it first. A file that grows at its end gets a new last block and keeps the others.

A claim belongs to one owner (a machine) and one path of an agent; only its owner writes it. It names the blocks of the
file. Passages are shared: they exist as long as any claim names their block. A deleted file leaves a tombstone.

Writing a version takes three steps, each complete before the next: the claim names the new blocks as `pending`; the
passages are written; the claim has them as `blocks`, and what it no longer needs as `dropped`. Deleting takes three
more: the claim names them as `dropped`; all claims of the path are read; what nobody names is deleted, and the claim
forgets it. Two machines that meet on a block each write before they read, so at least one of them sees the other.
"""

from __future__ import annotations

import datetime as dt
import re
from base64 import b85decode, b85encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clawbot.languages.stems import stem
from clawbot.memory.store.records import KINDS, ChunkRecord, ChunkRow, DayRun, Identity
from clawbot.memory.values import Source
from clawbot.text.tokens import words_of

LAYOUT = 1
"""Increment when the same passage is stored in another form than before: another collection is used then."""

BLOCK_BITS = 5
BLOCK = 1 << BLOCK_BITS
"""Passages of a block: what a change at the end of a file writes again."""

_HASH_BITS = 58
"""Bits of a block's id, so that the id of a passage fits into a signed integer. Among a million blocks, two are
the same by chance once in 600,000 times."""

MAX_WORDS_CHARS = 60_000
MAX_TEXT_BYTES = 60_000
MAX_SPEAKER_CHARS = 60
"""What fits into the text fields (65,535 bytes)."""

_MAX_WORD = 40
_PLAIN = re.compile(r"[a-z0-9]+")
_NO_HEADING = -1
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


class Block(Struct, frozen=True):
    """Consecutive passages of a file, the first being the passage `first` (an ordinal)."""

    id: int
    first: int
    passages: tuple[ChunkRecord, ...]


class StoredPassage(Struct, frozen=True):
    """A passage as read: the fields of a row. `heading` is an ordinal of its file, -1 without one; `speaker` "" for
    none; `words` as written by `terms_of`."""

    id: int
    agent: str
    ordinal: int
    start_line: int
    end_line: int
    kind: int
    heading: int
    flags: int
    speaker: str
    text: str
    words: str
    vector: bytes = b""

    def row(self, chunk_id: int, speaker: int | None) -> ChunkRow:
        """As the chunk `chunk_id` of a search, with the number of its speaker."""
        above = None if self.heading == _NO_HEADING else chunk_id - self.ordinal + self.heading
        lines = (self.start_line, self.end_line)
        return ChunkRow(chunk_id, *lines, KINDS[self.kind], above, speaker, self.flags, self.text)


def collection_name(prefix: str, identity: Identity) -> str:
    """Return the collection of one way to cut, index and embed. Vectors of two models never meet."""
    parts = (LAYOUT, *identity.text_part, *(identity.vector_part if identity.vectors else ()))
    digest = blake2b(msgspec.json.encode(parts), digest_size=6).hexdigest()
    return f"{prefix}_{digest}"


def blocks_of(agent: str, path: str, passages: Sequence[ChunkRecord]) -> list[Block]:
    """The blocks of the file `path` of `agent`, in order."""
    found = []
    for first in range(0, len(passages), BLOCK):
        part = tuple(passages[first : first + BLOCK])
        found.append(Block(_block_id(agent, path, first, part, [_above(passages, each) for each in part]), first, part))
    return found


def _above(passages: Sequence[ChunkRecord], passage: ChunkRecord) -> str:
    return passages[passage.heading].text if passage.heading is not None else ""


def _block_id(agent: str, path: str, first: int, passages: Sequence[ChunkRecord], above: Sequence[str]) -> int:
    data = msgspec.msgpack.encode((agent, storable(path), first, [_hashed(passage) for passage in passages], above))
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big") >> 64 - _HASH_BITS


def _hashed(passage: ChunkRecord) -> tuple[Any, ...]:
    fixed = (passage.start_line, passage.end_line, passage.kind, passage.heading, passage.flags)
    return (*fixed, storable(passage.text), storable(passage.indexed), storable(passage.speaker or ""))


def passage_id(block: int, position: int) -> int:
    """The id of the passage `position` (from 0) of `block`."""
    return block << BLOCK_BITS | position


def block_of(passage: int) -> int:
    """The block of the passage `passage` (an id)."""
    return passage >> BLOCK_BITS


def as_rows(
    agent: str, source: Source, block: Block, vectors: Sequence[Sequence[float]]
) -> Iterator[Mapping[str, Any]]:
    """The rows of a block's passages, with their vectors."""
    for number, (passage, vector) in enumerate(zip(block.passages, vectors, strict=True)):
        yield {
            "id": passage_id(block.id, number),
            "agent": agent,
            "source": source,
            "block": block.id,
            "ordinal": block.first + number,
            "start_line": passage.start_line,
            "end_line": passage.end_line,
            "kind": _NUMBERS[passage.kind],
            "heading": _NO_HEADING if passage.heading is None else passage.heading,
            "flags": passage.flags,
            "speaker": speaker_of(passage),
            "text": storable(passage.text),
            # Each term once: its score is how rare it is, not how often it is used here.
            "words": " ".join(terms_of(passage.indexed))[:MAX_WORDS_CHARS],
            "dense": vector,
        }


def speaker_of(passage: ChunkRecord) -> str:
    """Who speaks, as stored; "" for nobody."""
    return storable(passage.speaker or "")[:MAX_SPEAKER_CHARS]


def storable(text: str) -> str:
    """Return `text` without lone surrogates, cut to what a field holds."""
    if text.isascii() and len(text) <= MAX_TEXT_BYTES:
        return text
    return text.encode("utf-8", "replace")[:MAX_TEXT_BYTES].decode("utf-8", "ignore")


def terms_of(text: str) -> list[str]:
    """The different terms of `text`, as any tokenizer of Milvus keeps them: stemmed, and in plain letters and digits.

    Tokenizers differ between Lite and a server in what they take for a word outside ASCII.
    """
    return list(dict.fromkeys(_term(stem(word)) for word in words_of(storable(text))))


def _term(word: str) -> str:
    if len(word) <= _MAX_WORD and _PLAIN.fullmatch(word):
        return word
    data = word.encode()
    return f"x{data.hex()}" if len(data) <= _MAX_WORD // 2 else f"y{blake2b(data, digest_size=12).hexdigest()}"


def word_of(term: str) -> str:
    """Return the word that `terms_of` wrote as `term`; for a long one the term itself."""
    try:
        return bytes.fromhex(term[1:]).decode() if term[:1] == "x" and len(term) > 1 else term
    except ValueError:
        return term


def quoted(text: str) -> str:
    """Return `text` as a string of a filter expression."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def within(agents: Iterable[str], *conditions: str) -> str:
    """Return the filter for what `agents` hold, and all of `conditions`. Every query has it: the agent is the fence."""
    names = ", ".join(quoted(agent) for agent in sorted(set(agents)))
    return " and ".join((f"agent in [{names}]", *conditions))


def one_of(field: str, values: Iterable[int] | Iterable[str]) -> str:
    """Return the condition that `field` has one of `values`."""
    return f"{field} in [{', '.join(quoted(each) if isinstance(each, str) else str(each) for each in values)}]"


_ID_BYTES = 8

MAX_BLOCKS = 3_000
"""Blocks of one file, so that a claim with those before and after a change fits into its field: 96,000 passages."""

State = Literal["live", "gone"]


class Version(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file as it was read, and its blocks. `chunks` counts its passages, `chars` their characters."""

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
        data = msgspec.msgpack.encode((self.agent, self.owner, storable(self.path)))
        return blake2b(data, digest_size=16).hexdigest()

    @property
    def blocks(self) -> tuple[int, ...]:
        return self.version.blocks if self.version is not None else ()

    @property
    def needs(self) -> frozenset[int]:
        """The blocks that must not be deleted."""
        return frozenset((*self.blocks, *self.pending))


def begun(claim: Claim, blocks: Sequence[int], at: int) -> Claim:
    """Return `claim` before the missing ones of `blocks` are written."""
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
    """Return `claim` after its dropped blocks were deleted."""
    return msgspec.structs.replace(claim, dropped=(), at=at)


def deletable(claim: Claim, others: Iterable[Claim]) -> frozenset[int]:
    """Return the dropped blocks of `claim` that none of `others`, the claims of its path, needs."""
    needed = frozenset[int]().union(*(other.needs for other in others if other.id != claim.id))
    return frozenset(claim.dropped) - needed


def contested(claim: Claim, others: Iterable[Claim]) -> frozenset[int]:
    """Return the pending blocks of `claim` that another owner may be deleting now: they are written again later."""
    dropped = frozenset[int]().union(*(other.dropped for other in others if other.id != claim.id))
    return frozenset(claim.pending) & dropped


def encode_claim(claim: Claim) -> Mapping[str, Any]:
    """Return the row of `claim`."""
    version = claim.version
    plain = None if version is None else msgspec.to_builtins(msgspec.structs.replace(version, blocks=()))
    packed = [b85encode(_packed(each)).decode() for each in (claim.blocks, claim.pending, claim.dropped)]
    body = msgspec.json.encode((plain, *packed)).decode()
    path = storable(claim.path)
    named = {"id": claim.id, "agent": claim.agent, "owner": claim.owner, "path": path}
    return {**named, "at": claim.at, "state": "gone" if version is None else "live", "body": body}


def decode_claim(row: Mapping[str, Any]) -> Claim:
    """Return the claim of a row. Raises ValueError for one that can't be."""
    plain, *packed = msgspec.json.decode(row["body"])
    blocks, pending, dropped = (_unpacked(b85decode(each)) for each in packed)
    version = None
    if plain is not None:
        version = msgspec.structs.replace(msgspec.convert(plain, Version), blocks=blocks)
    named = {name: str(row[name]) for name in ("agent", "owner", "path")}
    return Claim(**named, at=int(row["at"]), version=version, pending=pending, dropped=dropped)


def fits(claim: Claim) -> bool:
    """Return whether the claim fits into a row."""
    total = len(claim.blocks) + len(claim.pending) + len(claim.dropped)
    return total <= 2 * MAX_BLOCKS and len(str(encode_claim(claim)["body"])) <= MAX_TEXT_BYTES


def max_passages() -> int:
    """The largest number of passages of one file."""
    return MAX_BLOCKS * BLOCK


def _packed(ids: Iterable[int]) -> bytes:
    return b"".join(each.to_bytes(_ID_BYTES, "big") for each in ids)


def _unpacked(data: bytes) -> tuple[int, ...]:
    return tuple(int.from_bytes(data[at : at + _ID_BYTES], "big") for at in range(0, len(data), _ID_BYTES))
