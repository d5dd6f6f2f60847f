"""The tool that replaces a passage of a file: exactly, in one place or in all."""

from __future__ import annotations

import difflib
from typing import Annotated

from msgspec import Meta

from clawbot.tools.arguments import Arguments
from clawbot.tools.files import CHANGE_BYTES, PathArgument, changed, encode
from clawbot.tools.folder_tool import FolderTool
from clawbot.tools.protocol import ToolError, ToolOutcome
from clawbot.tools.text import compare, decode, describe_binary, is_binary

NAMED_MATCHES = 10
SEARCHED_LINES = 20000  # how far the search for a similar line goes: about 0.1 s
SIMILAR_CHARS = 200


class EditArguments(Arguments, frozen=True):
    """Arguments of `edit`."""

    path: PathArgument
    old: Annotated[str, Meta(description="The text to replace, exactly as it is in the file.", min_length=1)]
    new: Annotated[str, Meta(description="The text to put there.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence instead of the only one.")] = False


class EditTool(FolderTool[EditArguments]):
    """`edit`: exact replacement. Works on bytes, so what is not replaced stays as it is, valid UTF-8 or not."""

    name = "edit"
    description = (
        "Replace text in a file of the workspace. `old` must match exactly and only once, unless replace_all is set."
    )
    read_only = False
    arguments = EditArguments

    def act(self, arguments: EditArguments) -> ToolOutcome:
        """Replace and write the file atomically."""
        place = self._folder.locate_for_change(arguments.path)
        before = self._folder.read(place, CHANGE_BYTES)
        if before is None:
            raise ToolError(f"{place.shown} does not exist. Use `write` to make it.")
        if is_binary(before):
            raise ToolError(f"{place.shown} is no text: {describe_binary(place.shown, len(before))}.")
        after, count = replace(before, arguments, place.shown)
        self._folder.replace(place, after)
        change = compare(decode(before)[0], decode(after)[0], place.shown)
        places = "" if count == 1 else f" in {count} places"
        return changed(place, f"Edited {place.shown}{places} ({change.summary} lines).", change)


def replace(data: bytes, arguments: EditArguments, shown: str) -> tuple[bytes, int]:
    """`data` with the passage replaced, and how often. In a file with CRLF line ends, those of `old` and `new` are
    taken as such. Raises ToolError that says where the passage is, if not in one place."""
    old, new = encode(arguments.old), encode(arguments.new)
    if old == new:
        raise ToolError("`old` and `new` are the same: nothing to change.")
    if data.count(b"\r\n") * 2 > data.count(b"\n"):
        new = _crlf(new)
        old = old if old in data else _crlf(old)
    count = data.count(old)
    if count == 0:
        raise ToolError(f"`old` is not in {shown}. {_nearest(data, arguments.old)}")
    if count > 1 and not arguments.replace_all:
        lines = _lines_of(data, old)
        named = ", ".join(str(line) for line in lines[:NAMED_MATCHES]) + (", …" if len(lines) > NAMED_MATCHES else "")
        raise ToolError(
            f"`old` is {count} times in {shown}, on lines {named}. "
            "Add lines around it until it is unique, or set replace_all."
        )
    return data.replace(old, new), count


def _crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _lines_of(data: bytes, wanted: bytes) -> list[int]:
    """The line numbers on which `wanted` begins; one more than are named at most."""
    found: list[int] = []
    position = data.find(wanted)
    while position >= 0 and len(found) <= NAMED_MATCHES:
        found.append(data.count(b"\n", 0, position) + 1)
        position = data.find(wanted, position + len(wanted))
    return found


def _nearest(data: bytes, wanted: str) -> str:
    """Where something similar to the first line of `wanted` stands, as the hint of an error."""
    first = next((line.strip() for line in wanted.splitlines() if line.strip()), "")[:SIMILAR_CHARS]
    lines = [line.strip()[:SIMILAR_CHARS] for line in decode(data)[0].split("\n")[:SEARCHED_LINES]]
    if first and first in lines:
        number = lines.index(first) + 1
        return f"Its first line is line {number}, but white space or what follows differs: read the file there again."
    near = difflib.get_close_matches(first, set(lines) - {""}, n=1, cutoff=0.6) if first else []
    if near:
        return f"The nearest is line {lines.index(near[0]) + 1}: {near[0]}"
    return "Nothing in it is similar: read the file again."
