"""Renders a session note: the facts of the session, then each text with its time and speaker.

The first line of a text follows the time and speaker; the others are quoted with `> `. So no text can start a heading,
leave a fence open or imitate a speaker, and it still renders as Markdown. The date is in the heading, and repeated
before the time when it changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import NamedTuple

from clawbot.hooks import clean as safe
from clawbot.hooks import clean_line

# A first line that belongs to a list, a table, code, a quote or HTML.
_OPENS = re.compile(r"\s*(?:[#>|`~<*+=-]|\d+[.)]\s)")


class Text(NamedTuple):
    """A text of the conversation: its speaker (`user` or `assistant`), and its time if known."""

    role: str
    text: str
    at: datetime | None = None


class Span(NamedTuple):
    """The start and end of a conversation."""

    began: datetime
    ended: datetime


def local(timestamp: int, zone: tzinfo | None) -> datetime | None:
    """Return `timestamp` (milliseconds since the epoch) in `zone`; None if it is out of range."""
    try:
        return datetime.fromtimestamp(timestamp / 1000, zone) if timestamp > 0 else None
    except (OverflowError, ValueError, OSError):
        return None


def span_of(moments: Iterable[datetime | None], otherwise: datetime) -> Span:
    """From the first of `moments` to the last; `otherwise` if none is known."""
    known = sorted((moment for moment in moments if moment is not None), key=datetime.timestamp)
    return Span(known[0], known[-1]) if known else Span(otherwise, otherwise)


def title(span: Span, zone: str) -> str:
    """The heading of a note: `Session: 2026-11-20 14:00–15:10 (Europe/Berlin)`, with both dates if they differ."""
    began, ended = (f"{moment:%Y-%m-%d %H:%M}" for moment in span)
    if began == ended:
        return f"Session: {began} ({zone})"
    end = f"–{span.ended:%H:%M}" if span.began.date() == span.ended.date() else f" – {ended}"
    return f"Session: {began}{end} ({zone})"


def render(span: Span, zone: str, facts: Mapping[str, str], texts: Sequence[Text]) -> str:
    """Return the note of a conversation at `span`: `facts` by label, then `texts`, oldest first."""
    lines = [
        f"# {clean_line(title(span, zone))}",
        "",
        *(f"- **{label}**: {clean_line(fact)}" for label, fact in facts.items()),
    ]
    shown = [each for text in texts if (each := text._replace(text=clean(text.text))).text]
    stamps = _stamps(shown, span.began.date())
    blocks = [_block(f"{stamp}{each.role}", each.text) for stamp, each in zip(stamps, shown, strict=True)]
    return "\n\n".join(["\n".join(lines), "## Conversation Summary", *blocks]) + "\n"


def clean(text: str) -> str:
    """Return `text` without invisible characters, outer whitespace and lone surrogates, with LF line breaks."""
    text = safe(text).encode("utf-8", "replace").decode("utf-8")
    return "\n".join(line if line.strip() else "" for line in text.split("\n")).strip()


def _stamps(texts: Iterable[Text], day: date) -> Iterator[str]:
    """Yield the stamp of each text: the time, preceded by the date where it changes (from `day`)."""
    for text in texts:
        if text.at is None:
            yield ""
        elif text.at.date() == day:
            yield f"{text.at:%H:%M} "
        else:
            day = text.at.date()
            yield f"{text.at:%Y-%m-%d %H:%M} "


def _block(speaker: str, text: str) -> str:
    first, *rest = text.split("\n")
    if not rest:
        return f"{speaker}: {first}"
    if _OPENS.match(first):
        return "\n".join([f"{speaker}:", *map(_quoted, [first, *rest])])
    return "\n".join([f"{speaker}: {first}", *map(_quoted, rest)])


def _quoted(line: str) -> str:
    return f"> {line}" if line else ">"
