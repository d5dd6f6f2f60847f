"""From events to items of the page: what becomes visible how (`restoring` makes the same of what is stored)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clawbot.agent.events import (
    CompactionFinished,
    Level,
    SessionChanged,
)
from clawbot.text.sanitize import clean
from clawbot.tui.render.housekeeping import QuoteItem, SummaryItem, is_quiet
from clawbot.tui.render.items import (
    Item,
    NoteHit,
    NoticeItem,
    PieceItem,
    SpeakerItem,
    ToolItem,
    UserItem,
)

if TYPE_CHECKING:
    from clawbot.tui.render.markdown_blocks import MarkdownBlock

INTERRUPTED = "interrupted"
UNSENT = "not sent, and not stored"
CUT = "cut off at the model's length limit"
WHOLE = "the history is whole"
YOU = "You"
AGENT = "Clawbot"


def took(milliseconds: int) -> str:
    """A duration in few characters: 12 ms, 3.4 s, 75 s."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 10_000 else f"{milliseconds / 1000:.0f} s"


def user_items(text: str, moment: datetime, entry_id: str = "") -> list[Item]:
    """What the user said, and as which entry it is stored, if it is."""
    return [SpeakerItem(YOU, f"{moment:%H:%M}", "you", entry_id), UserItem(text)]


def agent_items(moment: datetime) -> list[Item]:
    """The line above a reply."""
    return [SpeakerItem(AGENT, f"{moment:%H:%M}")]


def piece_items(pieces: Sequence[MarkdownBlock], *, first: bool) -> list[Item]:
    """Markdown; `first` when the speaker stands right above."""
    return [PieceItem(piece, first and number == 0) for number, piece in enumerate(pieces)]


def take_details(item: ToolItem, details: Any) -> None:
    """What the call has for the eye: what it changed in a file, as a unified diff; the notes that a search brought
    back, or the lines of one; and what it says about them (None for other tools)."""
    found = details if isinstance(details, dict) else {}
    diff, results, notes = found.get("diff"), found.get("results"), found.get("notes")
    item.diff = diff if isinstance(diff, str) else ""
    hits = map(_note_hit, results if isinstance(results, list) else ())
    item.hits = tuple(hit for hit in hits if hit is not None)
    item.excerpt = _note_hit(found.get("excerpt"))
    item.notes = tuple(map(str, notes)) if isinstance(notes, list) else None


def _note_hit(found: Any) -> NoteHit | None:
    """A place in a note as a tool names it; None for what is none."""
    if not isinstance(found, dict) or not isinstance(found.get("path"), str):
        return None
    line = found.get("startLine", found.get("line", 1))
    text = str(found.get("snippet", found.get("text", "")))
    return NoteHit(found["path"], line if isinstance(line, int) else 1, text)


def summary_item(summary: str, before: int, after: int, last: Item | None) -> SummaryItem:
    """Earlier turns are summarised, which had so many tokens `before`: the divider below `last`."""
    return SummaryItem(_parsed(summary), before=before, after=after, joined=is_quiet(last))


def quote_item(text: str, files: int, last: Item | None) -> QuoteItem:
    """Notes of so many `files` are quoted at the beginning of the session: the line below `last`."""
    return QuoteItem(_parsed(text), files=files, characters=len(text), joined=is_quiet(last))


def session_line(event: SessionChanged, idle_minutes: int | None) -> str:
    """That the conversation goes on in another session, and why. `idle_minutes` is the pause that ends one."""
    session = f"session {event.session_id[:8]}"
    match event.reason:
        case "daily":
            return f"new day · {session}"
        case "idle":
            minutes = f"quiet minute{'' if idle_minutes == 1 else 's'}"
            pause = f"{idle_minutes:,} {minutes}" if idle_minutes else "a quiet while"
            return f"after {pause} · {session}"
        case reason:
            return f"{session} · {reason}"


def unsummarised_item(event: CompactionFinished) -> Item:
    """Earlier turns could not be summarised, or the user stopped it. Only who asked for it is warned."""
    if event.status == "interrupted":
        return NoticeItem("info", f"Summarising was stopped; {WHOLE}.")
    reason = f" {event.error}" if event.error else ""
    level: Level = "info" if event.trigger == "threshold" else "warning"
    return NoticeItem(level, f"Earlier turns could not be summarised; {WHOLE}.{reason}")


def text_items(text: str) -> list[Item]:
    """A whole Markdown text that nobody says: the output of a command, a welcome."""
    return piece_items(_parsed(text), first=False)


def _parsed(text: str) -> Sequence[MarkdownBlock]:
    # Markdown comes in after the first paint.
    from clawbot.tui.render.markdown import markdown_pieces

    return markdown_pieces(clean(text))
