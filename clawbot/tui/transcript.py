"""From events to items of the page: what becomes visible how (`restoring` makes the same of what is stored)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from clawbot.agent.events import (
    CompactionFinished,
    Level,
    MessageFinished,
    NotesQuoted,
    Notice,
    SessionChanged,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from clawbot.tui.render.housekeeping import QuoteItem, SummaryItem, is_quiet
from clawbot.tui.render.items import (
    Item,
    MarkItem,
    NoteHit,
    NoticeItem,
    PieceItem,
    SpeakerItem,
    ToolItem,
    UserItem,
)
from clawbot.tui.render.sanitize import clean

if TYPE_CHECKING:
    from clawbot.tui.render.pieces import Piece

INTERRUPTED = "interrupted"
UNSENT = "not sent, and not stored"
CUT = "cut off at the model's length limit"
WHOLE = "the history is whole"
YOU = "You"
AGENT = "Clawbot"


def clock_time(moment: datetime) -> str:
    """The time of day beside a name."""
    return f"{moment:%H:%M}"


def took(milliseconds: int) -> str:
    """A duration in few characters: 12 ms, 3.4 s, 75 s."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 10_000 else f"{milliseconds / 1000:.0f} s"


def user_items(text: str, moment: datetime) -> list[Item]:
    """What the user said."""
    return [SpeakerItem(YOU, clock_time(moment), "you"), UserItem(text)]


def agent_items(moment: datetime) -> list[Item]:
    """The line above a reply."""
    return [SpeakerItem(AGENT, clock_time(moment))]


def piece_items(pieces: Sequence[Piece], *, first: bool) -> list[Item]:
    """Markdown; `first` when the speaker stands right above."""
    return [PieceItem(piece, first and number == 0) for number, piece in enumerate(pieces)]


def notice_item(notice: Notice) -> Item:
    """Something that happened beside the talk."""
    return NoticeItem(notice.level, notice.text, notice.path or "", notice.line)


def tool_item(event: ToolStarted, *, joined: bool) -> ToolItem:
    """A call that runs."""
    return ToolItem(event.name, event.title, event.arguments, joined=joined)


def finish_tool(item: ToolItem, event: ToolFinished) -> None:
    """The call has answered."""
    parts = [part for part in (event.summary, took(event.duration_ms)) if part]
    item.right = " · ".join(parts)
    item.output = event.output
    item.is_error = event.is_error
    take_details(item, event.details)


def take_details(item: ToolItem, details: Any) -> None:
    """What the call has for the eye."""
    item.diff = diff_of(details)
    item.hits = note_hits(details)
    item.excerpt = note_excerpt(details)
    item.notes = note_remarks(details)


def diff_of(details: Any) -> str:
    """What a tool changed in a file, as a unified diff; empty for other tools."""
    diff = details.get("diff") if isinstance(details, dict) else None
    return diff if isinstance(diff, str) else ""


def note_hits(details: Any) -> tuple[NoteHit, ...]:
    """The notes that a memory search brought back: `results` with path, line and snippet."""
    results = details.get("results") if isinstance(details, dict) else None
    hits = []
    for result in results if isinstance(results, list) else []:
        if isinstance(result, dict) and isinstance(result.get("path"), str):
            line = result.get("startLine", result.get("line", 1))
            text = str(result.get("snippet", result.get("text", "")))
            hits.append(NoteHit(result["path"], line if isinstance(line, int) else 1, text))
    return tuple(hits)


def note_excerpt(details: Any) -> NoteHit | None:
    """The lines of a note that were read."""
    excerpt = details.get("excerpt") if isinstance(details, dict) else None
    if not isinstance(excerpt, dict) or not isinstance(excerpt.get("path"), str):
        return None
    line = excerpt.get("startLine", 1)
    return NoteHit(excerpt["path"], line if isinstance(line, int) else 1, str(excerpt.get("text", "")))


def note_remarks(details: Any) -> tuple[str, ...] | None:
    """What a memory tool says about what it brought back; None for other tools."""
    notes = details.get("notes") if isinstance(details, dict) else None
    return tuple(str(note) for note in notes) if isinstance(notes, list) else None


def ending_items(event: TurnEnded) -> list[Item]:
    """How a turn ended, when that is worth a line."""
    if event.status == "failed":
        text = " ".join(part for part in (event.error or "The turn failed.", event.hint or "") if part)
        return [NoticeItem("error", text)]
    return []


def stop_mark(event: MessageFinished) -> list[Item]:
    """A word under a reply that did not end by itself."""
    if event.stop_reason == "aborted":
        return [MarkItem(INTERRUPTED)]
    return [MarkItem(CUT)] if event.stop_reason == "length" else []


def summary_item(event: CompactionFinished, last: Item | None) -> Item:
    """Earlier turns are summarised: the divider below `last`."""
    from clawbot.tui.render.markdown import markdown_pieces

    pieces = markdown_pieces(clean(event.summary))
    return SummaryItem(pieces, before=event.tokens_before, after=event.tokens_after, joined=is_quiet(last))


def quote_item(event: NotesQuoted, last: Item | None) -> Item:
    """Notes are quoted at the beginning of the session: the line below `last`."""
    from clawbot.tui.render.markdown import markdown_pieces

    pieces = markdown_pieces(clean(event.text))
    return QuoteItem(pieces, files=len(event.files), characters=len(event.text), joined=is_quiet(last))


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
    from clawbot.tui.render.markdown import markdown_pieces

    return piece_items(markdown_pieces(clean(text)), first=False)
