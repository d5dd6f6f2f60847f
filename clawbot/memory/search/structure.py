"""The structure around a line of a note: the headings, the lead line and the items that it belongs to, and the list
below a heading or a lead line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from clawbot.memory.search.protocols import ChunkReader
from clawbot.memory.store.records import ChunkRow, depth_of
from clawbot.memory.values import NoteLine, indentation

BELOW = 12
"""Chunks read below a heading or a lead line."""

_ABOVE = 8
"""Chunks first read above an item; twice as many each time, while its parent is missing."""
_ROUNDS = 5
_MAX_CHARS = 160


def leads(row: ChunkRow) -> bool:
    """Return whether a list directly below the line belongs to it: a heading, text that ends with a colon, or a
    paragraph without a blank line behind it."""
    is_open = row.kind in ("prose", "dialogue") and row.end_line - row.start_line == row.text.count("\n")
    return row.kind == "heading" or is_open or row.text.rstrip("*_` ").endswith((":", "："))


def read_structure(reader: ChunkReader, ids: Collection[int], rows: dict[int, ChunkRow]) -> None:
    """Add to `rows`, which has those of `ids`, what is around them. Blocks."""
    known = [rows[number] for number in ids if number in rows]
    wanted = {row.id + distance for row in known if leads(row) for distance in range(1, BELOW + 1)}
    read = set(rows)
    for step in range(_ROUNDS):
        wanted |= {missing for row in known for missing in _missing(row, rows, read, step)}
        if not (wanted := wanted - read):
            return
        rows.update((row.id, row) for row in reader.rows(sorted(wanted)))
        read |= wanted


def _missing(row: ChunkRow, rows: Mapping[int, ChunkRow], read: Collection[int], step: int) -> Iterator[int]:
    """Yield the ids to read next for what `row` belongs to."""
    above = row.heading
    while above is not None and above in rows:
        above = rows[above].heading
    if above is not None:
        yield above
    if row.kind == "item":
        *_, last = row, *_items_above(row, rows)
        number = last.id - 1
        is_open = number not in read and (not step or depth_of(last.flags) > 0)
        yield from range(max(number - (_ABOVE << step) + 1, (row.heading or 0) + 1), number + 1) if is_open else ()


def _items_above(row: ChunkRow, rows: Mapping[int, ChunkRow]) -> Iterator[ChunkRow]:
    """Yield the items directly above `row`, nearest first, and what precedes the first of them."""
    number = row.id - 1
    while (above := rows.get(number)) and above.heading == row.heading and above.kind != "heading":
        yield above
        if above.kind != "item":
            return
        number -= 1


class Structure(Struct, frozen=True):
    """The known lines of notes by id, from which the context of a result is taken."""

    rows: Mapping[int, ChunkRow]

    def above(self, number: int) -> tuple[NoteLine, ...]:
        """Return the lines that the line `number` belongs to, outermost first, as far as they are known: each the first
        one of its chunk, at most 160 characters."""
        row = self.rows[number]
        found: list[ChunkRow] = []
        if row.kind == "item":
            depth = depth_of(row.flags)
            for each in _items_above(row, self.rows):
                if each.kind == "item" and depth_of(each.flags) < depth:
                    found.append(each)
                    depth = depth_of(each.flags)
                elif each.kind != "item" and leads(each):
                    found.append(each)
        heading = row.heading
        while heading is not None and heading in self.rows:
            found.append(self.rows[heading])
            heading = self.rows[heading].heading
        return tuple(NoteLine(each.start_line, each.text.split("\n", 1)[0][:_MAX_CHARS]) for each in reversed(found))

    def below(self, first: int, last: int, chars: int) -> tuple[NoteLine, ...]:
        """Return the list that belongs to the lines `first` to `last` and follows them, at most `chars` characters with
        the line that leads it. Each line is indented by a blank for the lead line and each item above it."""
        lead = self.rows[first if leads(self.rows[first]) else last]
        above = lead.id if lead.kind == "heading" else lead.heading
        depth = depth_of(lead.flags) if lead.kind == "item" else -1
        found: list[ChunkRow] = []
        room = chars - len(lead.text)
        while leads(lead) and (row := self.rows.get(last + 1 + len(found))) and len(row.text) <= room:
            top = found[0] if found else row
            is_next = depth_of(row.flags) > depth_of(top.flags) or _marker(row) == _marker(top)
            if row.kind != "item" or row.heading != above or depth_of(row.flags) <= depth or not is_next:
                break
            found.append(row)
            room -= len(row.text)
        return tuple(each for row in found for each in _lines_of(row, indentation(self.above(row.id))))


def _marker(row: ChunkRow) -> str:
    """Return what distinguishes the items of one list from those of the next: the sign, or that they are numbered."""
    return "1" if row.text[:1].isdigit() else row.text[:1]


def _lines_of(row: ChunkRow, indent: str) -> Iterator[NoteLine]:
    lines = enumerate(row.text.split("\n"), row.start_line)
    return (NoteLine(number, indent + text) for number, text in lines if text.strip())
