"""Finds the parts of an answer that only repeat the output of a tool or a quoted note.

The transcript already holds what a tool printed, and the note what it says. Both are replaced by references, so that no
session note quotes another note and no search finds the same text twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clawbot.messages import AssistantMessage, Message, ToolCallBlock, ToolResultMessage
from clawbot.text.patterns import lazy_re

QUOTED = "[quoted: {place}]"
"""Replaces a quote: its source, `memory/2026-11-20.md:4`, or the name of a tool."""

PRINTED = "[output of {tool}: {lines}]"
"""Replaces the output of a tool."""

REFERENCE = r"\[(?:quoted|output of)[ :][^\]\n]*\]"
"""Matches either."""

_SAME_SHARE = 0.8  # share of matching lines in a code block: models sometimes omit or shorten one
_LOOKED_AT = 500_000  # characters of one result that are compared; longer quotes fit in no window
_SHORTEST = 2  # minimum characters that identify a line
_BLOCK = lazy_re(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<code>(?:.*\n)*?)(?P=fence)[`~]*[ \t]*$|^(?P<quote>[ \t]*>.*(?:\n[ \t]*>.*)*)$",
    re.MULTILINE,
)
_SOURCE = lazy_re(
    r"^[ \t>]*[-–—]{1,2}[ \t]*`?(?P<place>[^\n`]{1,400}\.md(?:[:#]L?\d+(?:-L?\d+)?)?)`?[ \t]*$", re.MULTILINE
)
_LED_IN = lazy_re(rf"([:：])[ \t]*\n+(?={REFERENCE})")
_NAMED = lazy_re(r"`([^`\n]{1,400}\.md)`")
_FILE = lazy_re(r"[^/.]\.\w+(?::\d+)?$")
_QUOTE_MARK = lazy_re(r"^[ \t]*(?:>[ \t]?)+")
_EDGES = lazy_re(r"^[\W_]+|[\W_]+$")
_PLACED = lazy_re(r"(?P<path>[^:\n]{1,400}\.\w{1,8}):(?P<line>\d{1,7}):(?P<text>.*)")


def without_echo(message: AssistantMessage, turn: Sequence[Message], *, quotes_only: bool = False) -> str:
    """The text of `message`, an answer in `turn`, with quotes of notes and tool input or output replaced by references.
    `quotes_only`: the answer was made by rules, and every quote in it is replaced.

    A quote is recognised if it names its note, or if all its lines are lines of a result; for code nearly all lines
    suffice.
    """
    text = message.text
    if ">" not in text and "```" not in text and "~~~" not in text:
        return text
    lines: dict[str, str] | None = None

    def replaced(found: re.Match[str]) -> str:
        nonlocal lines
        if lines is None:
            lines = dict(_lines(turn))
        if found["quote"] is None:
            return _of_code(found, lines)
        return _of_quote(found, lines, quotes_only=quotes_only)

    shown = _BLOCK.sub(replaced, text)
    if shown == text:
        return text
    return _LED_IN.sub(r"\1 ", re.sub(r"\n{3,}", "\n\n", shown)).strip()


def _of_quote(found: re.Match[str], lines: dict[str, str], *, quotes_only: bool) -> str:
    quote = found["quote"]
    if source := _SOURCE.search(quote):
        return QUOTED.format(place=source["place"])
    bare = [_QUOTE_MARK.sub("", line) for line in quote.splitlines()]
    keys = [key for line in bare if (key := _key(line))]
    if not keys:
        return ""
    if all(key in lines for key in keys):
        return QUOTED.format(place=lines[keys[0]])
    if not quotes_only:
        return quote
    named = _NAMED.findall(found.string, 0, found.start())
    return QUOTED.format(place=named[-1] if named else "the conversation")


def _of_code(found: re.Match[str], lines: dict[str, str]) -> str:
    code = found["code"].splitlines()
    keys = [key for line in code if (key := _key(line))]
    known = [key for key in keys if key in lines]
    if not keys or len(known) < _SAME_SHARE * len(keys):
        return found[0]
    place = lines[known[0]]
    if _FILE.search(place):
        return QUOTED.format(place=place)
    return PRINTED.format(tool=place, lines=f"{len(code):,} {'line' if len(code) == 1 else 'lines'}")


def _lines(turn: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """The input and output lines of the tools in `turn`: each normalised by `_key`, with its source."""
    places: dict[str, str] = {}
    for message in turn:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                place = places[call.id] = _place_of(call)
                for name, value in call.arguments.items():
                    if name != "path" and isinstance(value, str):
                        yield from _placed(value, place)
        elif isinstance(message, ToolResultMessage):
            yield from _printed(message, places.get(message.tool_call_id, message.tool_name))


def _place_of(call: ToolCallBlock) -> str:
    """The source of a call's text: the file it was about, or the tool's output."""
    path = call.arguments.get("path")
    if isinstance(path, str) and len(path) <= _LOOKED_AT and _FILE.search(path):
        return path
    return call.name


def _printed(message: ToolResultMessage, place: str) -> Iterator[tuple[str, str]]:
    text = message.text[:_LOOKED_AT]
    found = _results(text)
    if found is None:
        yield from _placed(text, place)
        return
    for result in found:
        snippet, path, first = result.get("snippet", result.get("text")), result.get("path"), result.get("startLine", 1)
        if isinstance(snippet, str) and isinstance(path, str) and isinstance(first, int):
            for number, line in enumerate(snippet.splitlines(), first):
                yield _key(line), f"{path}:{number}"


def _results(text: str) -> list[dict[str, Any]] | None:
    """The results of a memory search or read; None for the output of another tool."""
    if not text.startswith("{"):
        return None
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    found = answer.get("results", [answer])
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else None


def _placed(text: str, place: str) -> Iterator[tuple[str, str]]:
    for line in text[:_LOOKED_AT].splitlines():
        yield _key(line), place
        if found := _PLACED.fullmatch(line):
            yield _key(found["text"]), f"{found['path']}:{found['line']}"


def _key(line: str) -> str:
    """A line normalised for comparison, without quote and list marks and whitespace; "" if it is too short."""
    words = " ".join(_EDGES.sub("", line).split()).casefold()
    return words if len(words) >= _SHORTEST else ""
