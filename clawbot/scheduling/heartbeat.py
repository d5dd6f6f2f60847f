"""What a job tells the model, and when a heartbeat is not worth a turn (reference sheet 21). Pure."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta

from clawbot.scheduling.jobs import Job
from clawbot.scheduling.ledger import Record

FILE_NAME = "HEARTBEAT.md"
HEARTBEAT_PROMPT = (
    "This is a heartbeat: nobody has said anything. Read HEARTBEAT.md in the workspace if it is there, and follow it "
    "strictly. Do not infer tasks from earlier conversations and do not repeat old ones. "
    "If nothing needs attention, reply with NO_REPLY."
)
BUSY = "a turn is running"
NO_FILE = f"there is no {FILE_NAME}"
EMPTY_FILE = f"{FILE_NAME} holds no tasks"
DUPLICATE = "the same reply as last time"
# The same words within this time are news no more.
DUPLICATE_FOR = timedelta(hours=24)

# Blank, a heading, a list item or a checkbox with nothing behind it, a rule, a comment on a line of its own.
_NOTHING = re.compile(r"\s*(?:#{1,6}(?:\s.*)?|(?:[-*+]|\d+[.)])(?:\s+\[[ xX]?\])?\s*|[-*_]{3,}\s*|<!--.*-->\s*)?")


def prompt_of(job: Job, now: datetime) -> str:
    """What the model is told for `job` at `now` (in the user's zone): its prompt, and what time it is."""
    text = job.prompt or HEARTBEAT_PROMPT
    zone = job.zone or now.tzname() or "UTC"
    return f"{text}\n\nCurrent time: {now:%A}, {now.day} {now:%B %Y}, {now:%H:%M} ({zone})"


def skip_reason(text: str | None, *, busy: bool) -> str:
    """Why a heartbeat is left out, "" when it is not. `text` is that of HEARTBEAT.md, None without such a file; `busy`
    says that a turn is running.

    That it is switched off, or not in its hours, is seen before (`planner.due_moment`).
    """
    if busy:
        return BUSY
    if text is None:
        return NO_FILE
    return EMPTY_FILE if is_empty(text) else ""


def is_empty(text: str) -> bool:
    """Whether a HEARTBEAT.md asks for nothing: blank lines, headings, list items without words."""
    return all(_NOTHING.fullmatch(line) for line in text.removeprefix("\ufeff").splitlines())


def digest_of(reply: str) -> str:
    """By what a reply is known again, however it is broken into lines; "" for an empty one."""
    words = " ".join(reply.split())
    return hashlib.sha256(words.encode("utf-8", "replace")).hexdigest() if words else ""


def is_duplicate(record: Record | None, reply: str, now: datetime) -> bool:
    """Whether `reply` says what was shown within the last 24 hours."""
    if record is None or record.replied is None or record.reply_digest != digest_of(reply):
        return False
    return timedelta(0) <= now - record.replied < DUPLICATE_FOR
