"""Merges two changes of one text, line by line: what both versions changed differently is a conflict."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from msgspec import Struct

from clawbot.text.encoding import encoding_of

Lines = Sequence[str]
_Edit = tuple[int, int, Lines]  # of a base: the lines from, to (exclusive), and what replaces them


class Merged(Struct, frozen=True):
    """The merged content; with `conflict` it has both versions between marks."""

    data: bytes
    conflict: bool = False


def merge(base: bytes, mine: bytes, other: bytes) -> Merged:
    """Apply what leads from `base` to `other` to `mine`. Where both insert at one position, the text of `other` is
    first. The encoding, the line breaks and the end of `mine` remain, except where `other` changed the end."""
    encodings = [encoding_of(data) for data in (mine, base, other) if data]
    names = {encoding.name for encoding in encodings}
    name, mark = (encodings[0].name, encodings[0].mark) if encodings else ("utf-8", b"")
    texts = [data.removeprefix(encoding_of(data).mark) for data in (base, mine, other)]
    # Bytes that are no text remain as they are.
    errors = "surrogateescape" if name == "utf-8" else "surrogatepass"
    try:
        rows = [data.decode(name, errors) for data in texts]
    except UnicodeError:
        rows = []
    if len(names) > 1 or [row.encode(name, errors) for row in rows] != texts:
        return Merged(mine, conflict=True)
    line_break = "\r\n" if any("\r\n" in row for row in rows) else "\n"
    ends = [row.endswith("\n") for row in rows]
    lines = [split_lines(row + line_break if row and not row.endswith("\n") else row) for row in rows]
    merged, conflict = _merged(lines[0], lines[1], lines[2], line_break)
    text = "".join(merged)
    is_others = ends[1] == ends[0] and rows[0] and rows[2]
    if not (ends[2] if is_others else ends[1]) and not conflict:
        text = text.removesuffix(line_break)
    return Merged(mark + text.encode(name, errors) if text else b"", conflict)


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` with their ends; only LF ends a line."""
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [rest for rest in [text.rpartition("\n")[2]] if rest]


def changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """Return the first and the last line of `after` (from 1) that `before` does not have in that form; where lines were
    only removed, the line that follows them, twice."""
    old, new = (split_lines(data.decode(encoding_of(data).name, "replace")) for data in (before, after))
    edits = _edits(old, new)
    if not edits:
        return 0, 0
    grown = 0
    spans = []
    for start, end, lines in edits:
        spans.append((start + grown + 1, start + grown + max(len(lines), 1)))
        grown += len(lines) - (end - start)
    return spans[0][0], spans[-1][1]


def _merged(base: Lines, mine: Lines, other: Lines, line_break: str) -> tuple[list[str], bool]:
    merged: list[str] = []
    at, conflict = 0, False
    for region in _regions(_edits(base, mine), _edits(base, other)):
        merged += base[at : region.start]
        at = region.end
        now, wanted = (_applied(base, region.start, region.end, edits) for edits in region.sides)
        ours, theirs = region.sides
        if not ours or now == wanted:
            merged += wanted
        elif not theirs:
            merged += now
        elif region.start == region.end:
            merged += [*wanted, *now]
        else:
            conflict = True
            marks = [f"{mark}{line_break}" for mark in ("<<<<<<< now", "=======", ">>>>>>> undone")]
            merged += [marks[0], *now, marks[1], *wanted, marks[2]]
    return [*merged, *base[at:]], conflict


class _Region(Struct):
    """The lines of a base from `start` to `end` (exclusive), with the edits of each side that concern them."""

    start: int
    end: int
    sides: tuple[list[_Edit], list[_Edit]]


def _regions(left: list[_Edit], right: list[_Edit]) -> list[_Region]:
    """Return what is changed, in order: by one side, or by both where they overlap. An insertion comes before what is
    changed at the same line."""
    found: list[_Region] = []
    both = [(edit, 0) for edit in left] + [(edit, 1) for edit in right]
    for edit, side in sorted(both, key=lambda each: each[0][:2]):
        start, end, _lines = edit
        last = found[-1] if found else None
        if last and ((start, end) == (last.start, last.end) or (start < last.end and end > last.start)):
            last.end = max(last.end, end)
            last.sides[side].append(edit)
        else:
            found.append(_Region(start, end, ([edit], []) if not side else ([], [edit])))
    return found


def _applied(base: Lines, start: int, end: int, edits: list[_Edit]) -> list[str]:
    """The lines of the region with `edits`."""
    lines: list[str] = []
    for first, last, new in edits:
        lines += [*base[start:first], *new]
        start = last
    return [*lines, *base[start:end]]


def _edits(base: Lines, other: Lines) -> list[_Edit]:
    """What leads from `base` to `other`. Equal lines at both ends are passed over first: most changes are small."""
    shorter = min(len(base), len(other))
    head = next((at for at in range(shorter) if base[at] != other[at]), shorter)
    tail = next((at for at in range(shorter - head) if base[-1 - at] != other[-1 - at]), shorter - head)
    old, new = base[head : len(base) - tail], other[head : len(other) - tail]
    found = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(head + start, head + end, new[a:b]) for tag, start, end, a, b in found if tag != "equal"]
