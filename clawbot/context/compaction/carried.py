"""What a summary carries over literally, whatever the model writes: the user's last messages, files read and changed,
and names (paths, URLs, hashes, versions, quoted titles).

Pure, but slow on long texts: call it in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from clawbot.context.truncate import head_and_tail
from clawbot.languages.tables import pattern_in
from clawbot.llm.tokens import Count
from clawbot.messages import OFFLINE, AssistantMessage, Message, ToolResultMessage, UserMessage, quotes_notes
from clawbot.sessions.silence import names_token, spoken
from clawbot.text.identifiers import identifiers, titles
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import MARK, secret_values, without_secrets

LAST_HEADING = "## Last user messages (verbatim)"
MESSAGE_CHARS = 600
REQUEST_CHARS = 800
"""Maximum characters of the request of a split turn."""

SHORTER = (400, 200, 100)
"""Lengths to which the last message is truncated if there is little room, in characters."""

READING = frozenset({"read"})
CHANGING = frozenset({"write", "append", "edit"})
FILES_HEADING = "## Files read and changed"

MOST = 12
MIN_CHARS, MAX_CHARS = 3, 120
SCANNED = 300_000
"""Characters at the end of a conversation that are examined: earlier names are in an earlier summary or obsolete."""

LINE_CHARS = 2_000
"""Maximum length of an examined line: longer ones are data. Also bounds how long a search blocks the interpreter."""

USER_WEIGHT, ASSISTANT_WEIGHT = 3, 2

_INFORMATIVE = lazy_re(r"[/:@#_~]|\.\w|\d[a-f]|[a-f]\d|[A-Z]-\d")
_MEASURE = lazy_re(r"\d+(?:[.,]\d+)?\s?\D{0,6}")
_PORT = lazy_re(rf"(?:{pattern_in('port')})\D{{0,4}}(\d{{2,5}})\b", re.IGNORECASE | re.ASCII)
_MARKED = MARK.split(maxsplit=1)[0]  # in a name, of which a part was a secret
_COMMAND = lazy_re(r"\s")


def carry(
    messages: Sequence[Message],
    *,
    preserve: int,
    most: int,
    count: Count,
    split: bool = False,
    earlier: Sequence[str] = (),
) -> str:
    """The section that quotes the user's last `preserve` messages in at most `most` tokens by `count`; fewer, or the
    last one truncated, if necessary. With `split` the last one is the request of the running turn, and is quoted in any
    case. `earlier` were quoted by the previous compaction and fill the remaining room. "" without any. Blocks."""
    spoken = (message for message in messages if isinstance(message, UserMessage) and not quotes_notes(message))
    texts = [text for text in (*earlier, *(message.text.strip() for message in spoken)) if text]
    last = texts[max(0, len(texts) - max(preserve, int(split))) :]
    if not last:
        return ""
    request = head_and_tail(last[-1], REQUEST_CHARS if split else MESSAGE_CHARS)
    quoted = [*(head_and_tail(text, MESSAGE_CHARS) for text in last[:-1]), request]
    tries = [quoted[start:] for start in range(len(quoted))] + [[head_and_tail(last[-1], chars)] for chars in SHORTER]
    return next((text for text in map(_quotes, tries) if count(text) <= most), "")


def quoted_in(summary: str) -> tuple[str, list[str]]:
    """Return the model's own part of `summary`, and the messages quoted in it."""
    lines = summary.split("\n")
    end = next((at for at, line in enumerate(lines) if line in (LAST_HEADING, FILES_HEADING)), len(lines))
    messages: list[list[str]] = [[]]
    if end < len(lines) and lines[end] == LAST_HEADING:
        for line in lines[end + 1 :]:
            if line.startswith(">"):
                messages[-1].append(line[1:].removeprefix(" "))
            elif messages[-1]:
                messages.append([])
    return "\n".join(lines[:end]).strip(), ["\n".join(quoted) for quoted in messages if quoted]


def _quotes(quoted: Sequence[str]) -> str:
    return "\n\n".join(
        [LAST_HEADING, *("\n".join(f"> {line}" if line else ">" for line in text.split("\n")) for text in quoted)]
    )


class FileLists(Struct, frozen=True):
    """Paths as the tools were given them, sorted; what was changed is not listed as read."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    def as_details(self) -> dict[str, list[str]]:
        """Return the form in which a compaction entry keeps them."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}


def file_lists(messages: Iterable[Message], details: Any = None) -> FileLists:
    """The files of successful tool calls in `messages`, and those in `details`, the data of the previous compaction
    entry (invalid data is ignored)."""
    messages = list(messages)
    failed = {
        message.tool_call_id for message in messages if isinstance(message, ToolResultMessage) and message.is_error
    }
    calls = [
        call
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
        if call.id not in failed and isinstance(call.arguments.get("path"), str)
    ]
    modified = _listed(details, "modifiedFiles") | {call.arguments["path"] for call in calls if call.name in CHANGING}
    read = _listed(details, "readFiles") | {call.arguments["path"] for call in calls if call.name in READING}
    return FileLists(tuple(sorted(read - modified)), tuple(sorted(modified)))


def show_files(lists: FileLists, most: int, count: Count) -> str:
    """Return the section that lists them, in at most `most` tokens by `count`; "" without files or room."""
    for share in (len(lists.read) + len(lists.modified), 40, 15, 5, 2):
        lines = [_files_line("Changed", lists.modified, share), _files_line("Read", lists.read, share)]
        text = "\n".join([FILES_HEADING, "", *filter(None, lines)])
        if any(lines) and count(text) <= most:
            return text
    return ""


def _files_line(label: str, paths: Sequence[str], share: int) -> str:
    if not paths:
        return ""
    more = f", and {len(paths) - share:,} more" if len(paths) > share else ""
    return f"- {label}: {', '.join(paths[:share])}{more}"


def _listed(details: Any, name: str) -> set[str]:
    paths = details.get(name) if isinstance(details, dict) else None
    return {path for path in paths if isinstance(path, str)} if isinstance(paths, list) else set()


def wanted_identifiers(messages: Iterable[Message], max_tokens: int, count: Count) -> list[str]:
    """Up to `MOST` names in messages of user and assistant, the most important that fit in `max_tokens`, ordered by
    their last mention. Without secrets and the silent token."""
    scores: dict[str, float] = {}
    newest = list(_newest(messages))
    secrets = secret_values(text for text, _ in newest)
    for text, weight in newest:
        for name in _names(without_secrets(text, secrets)[0]):
            scores[name] = scores.get(name, 0) + weight
    chosen: list[str] = []
    for name in sorted(scores, key=lambda name: -scores[name]):
        max_tokens -= count(f"- {name}\n")
        if len(chosen) == MOST or max_tokens < 0:
            break
        if not names_token(name) and _MARKED not in name:
            chosen.append(name)
    return [name for name in reversed(scores) if name in chosen]


def missing_identifiers(wanted: Iterable[str], text: str) -> list[str]:
    """Return the `wanted` names that `text` lacks."""
    return [name for name in wanted if name not in text]


def _newest(messages: Iterable[Message]) -> Iterable[tuple[str, int]]:
    room = SCANNED
    for message in reversed(list(messages)):
        # The offline model's text is phrases and quotes of notes, as is the session's beginning: no names that
        # the session was about.
        if quotes_notes(message) or (isinstance(message, AssistantMessage) and message.provider == OFFLINE):
            continue
        if isinstance(message, UserMessage | AssistantMessage) and room > 0:
            of_user = isinstance(message, UserMessage)
            text = (message.text if of_user else spoken(message.text))[-room:]
            room -= len(text)
            yield text, USER_WEIGHT if of_user else ASSISTANT_WEIGHT


def _names(text: str) -> list[str]:
    """Return the names in a message, last first: combined, they are in conversation order."""
    found: dict[str, None] = {}
    for full in text.split("\n"):
        line = full[:LINE_CHARS]
        found |= dict.fromkeys(filter(_is_informative, identifiers(line)))
        found |= dict.fromkeys([*titles(line), *_PORT.findall(line)])
    return list(reversed(found))


def _is_informative(name: str) -> bool:
    """Numbers with units and commands in backticks are left to the model."""
    if not MIN_CHARS <= len(name) <= MAX_CHARS or _COMMAND.search(name):
        return False
    return not _MEASURE.fullmatch(name) and _INFORMATIVE.search(name) is not None
