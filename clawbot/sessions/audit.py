"""What a transcript records of the gate: which entries were offered to memory, by what, and what came of it.

A record is a `custom` entry of the type `OFFER`. One offer has a record when it begins, one before each write, and one
when it ends: what a crash left open can be told from the file that was to be written (reference sheet 8.5).
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.sessions.entries import CustomEntry

OFFER = "clawbot.memory-offer"

Exit = Literal["threshold", "overflow", "manual", "reset", "quit"]
Phase = Literal["begin", "write", "end"]
# The last four are final: the entries are never offered again. After the others they are.
Result = Literal["", "failed", "interrupted", "written", "nothing", "skipped", "abandoned"]
FINAL = frozenset({"written", "nothing", "skipped", "abandoned"})


class MemoryWrite(Struct, frozen=True, rename="camel"):
    """Text at the end of a memory file: `size` bytes from `offset` on, lines `line` to `end_line` (from 1) of `path`,
    which is relative to the workspace. `digest` is the SHA-256 of the bytes, in hexadecimal."""

    path: str
    offset: int
    size: int
    line: int
    end_line: int
    digest: str


class Offer(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One record of an offer. `offer` is the same in all records of it; `first` and `last` are the ids of the entries
    that were offered, `messages` how many; `by` is what took them (`flush`, the name of a hook), `model` which model
    that asked. `reply` is what a silent turn said, `tokens` what it cost; `transcript_bytes` is the size of the
    transcript then. `recovered`: the program died before the end, which was told from the file afterwards."""

    offer: str
    phase: Phase
    exit: Exit
    by: str
    first: str = ""
    last: str = ""
    messages: int = 0
    result: Result = ""
    writes: tuple[MemoryWrite, ...] = ()
    model: str = ""
    reply: str = ""
    error: str = ""
    tokens: int = 0
    transcript_bytes: int = 0
    recovered: bool = False


def offer_of(entry: CustomEntry) -> Offer | None:
    """The record in `entry`; None for an entry of another type and for one that makes no sense."""
    if entry.custom_type != OFFER:
        return None
    try:
        return msgspec.convert(entry.data, Offer)
    except ValueError:
        return None
