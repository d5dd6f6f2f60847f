"""The chips below the user's words: what is attached to the message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clawbot.text.sanitize import clean_line, isolate
from clawbot.tui.render.items import TEXT_INDENT, Item, Page, indented
from clawbot.tui.render.lines import StyledLine, StyledSpan, ellipsis, width_of
from clawbot.tui.render.verbs import summary_words

APART = "  "


@dataclass
class ChipsItem(Item):
    """The names of what is attached, each in a field of its own, as many in a line as there is room for."""

    names: tuple[str, ...]

    def lines(self, page: Page) -> list[StyledLine]:
        """One line or several."""
        room = page.width - TEXT_INDENT
        rows: list[list[StyledSpan]] = [[]]
        used = 0
        for name in self.names:
            chip = f" @{ellipsis(isolate(clean_line(_told(name))), max(1, room - 3))} "
            width = width_of(chip)
            if rows[-1] and used + len(APART) + width > room:
                rows.append([])
                used = 0
            if rows[-1]:
                rows[-1].append(StyledSpan(APART))
                used += len(APART)
            rows[-1].append(StyledSpan(chip, "code-inline"))
            used += width
        return indented([StyledLine(tuple(row)) for row in rows])


def _told(name: str) -> str:
    """A name with how much of it is attached (`a.md · 12 lines`)."""
    file, between, size = name.rpartition(" · ")
    return f"{file}{between}{summary_words(size)}"


def chips(names: Sequence[str]) -> list[Item]:
    """The item for `names`, if there are any."""
    return [ChipsItem(tuple(names))] if names else []
