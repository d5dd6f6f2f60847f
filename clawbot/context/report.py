"""What `/context` shows: where the tokens of the window go, and how that fits with what the provider counted."""

from __future__ import annotations

from msgspec import Struct

from clawbot.context.prompt import FileSize, Size


class ContextPart(Struct, frozen=True, rename="camel"):
    """A share of the window. `name` is what the user reads; `key` one of system, bootstrap, tools, summary, messages,
    toolResults, unaccounted, free, reserve."""

    key: str
    name: str
    tokens: int


class Tokens(Struct, frozen=True):
    """How many tokens a named thing takes."""

    name: str
    tokens: int


class LastFlush(Struct, frozen=True, rename="camel"):
    """The last silent turn: when (ISO 8601), what came of it, and where it wrote (`path` empty: nowhere)."""

    at: str
    result: str
    path: str = ""
    line: int = 0
    end_line: int = 0
    bytes: int = 0


class ContextReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The window, in tokens. `parts` sum up to `window` unless the context is larger. `window_source` says where the
    window is known from, as a half sentence; `assumed` that nobody knows it. `unaccounted` is what the provider counted
    beyond the parts. `flush_at` and `compact_at` are marks in the window, 0 when they never come."""

    model: str
    window: int
    window_source: str
    assumed: bool
    parts: tuple[ContextPart, ...]
    used: int
    exact: bool
    stale: bool
    reported: int
    unaccounted: int
    reserve: int
    flush_at: int
    compact_at: int
    compactions: int
    messages: int
    last_flush: LastFlush | None = None
    bootstrap_files: tuple[Tokens, ...] = ()
    tools: tuple[Tokens, ...] = ()
    sections: tuple[Size, ...] = ()
    files: tuple[FileSize, ...] = ()
    pruned: int = 0
