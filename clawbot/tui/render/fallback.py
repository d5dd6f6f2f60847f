"""Shows as plain text what can't be drawn: an error of the renderer ends no session, and is logged and shown."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import astuple
from rich.cells import chop_cells

from clawbot.text.interface import _
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.render.items import Item, Page
from clawbot.tui.render.lines import StyledLine, StyledSpan

MAX_CHARS = 20_000  # of an item that is shown as plain text

log = logging.getLogger(__name__)
T = TypeVar("T")


def attempt(make: Callable[[], T], instead: Callable[[str], T]) -> T:
    """Return what `make` returns. If it raises, log the error and return `instead` of the line that reports it."""
    try:
        return make()
    except Exception as error:
        log.exception("A part of the page is shown as plain text")
        reason = clean_line(str(error), 200) or type(error).__name__
        return instead(_("Shown as plain text, since it could not be drawn: {error}").format(error=reason))


def drawn(item: Item, page: Page) -> list[StyledLine]:
    """Return the lines of `item`; its text and the error if it can't be drawn."""
    return attempt(lambda: item.lines(page), lambda report: _plain(item, report, page.width))


def _plain(item: Item, report: str, width: int) -> list[StyledLine]:
    text = clean("\n".join(_texts(item))[:MAX_CHARS])
    rows = [part for row in text.split("\n") for part in chop_cells(row, width)]
    return [StyledLine((StyledSpan(row, style),)) for row, style in [*((row, "") for row in rows), (report, "mark")]]


def _texts(value: object) -> Iterator[str]:
    """The texts in an item, without names of styles."""
    match value:
        case StyledSpan():
            yield value.text
        case str():
            yield value
        case tuple() | list():
            for part in value:
                yield from _texts(part)
        case Struct():
            yield from _texts(astuple(value))
        case Item() if is_dataclass(value):
            yield from _texts([getattr(value, field.name) for field in fields(value) if field.name != "style"])
