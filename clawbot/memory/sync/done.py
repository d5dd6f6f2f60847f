"""Counts what a round of a sync has done."""

from __future__ import annotations

from msgspec import Struct


class Done(Struct):
    """What was done so far: files, and pieces that were written or got a vector."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    pieces: int = 0
    embedded: int = 0
