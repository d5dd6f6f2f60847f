"""What the files in a folder of sessions are: transcripts, known by their first lines, or files of other programs."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from clawbot.sessions.entries import ENTRY_TYPES, PADDING, Header, as_object, decode_header
from clawbot.sessions.lines import HEAD_BYTES, ByteSource
from clawbot.sessions.names import SUFFIX
from clawbot.sessions.offsets import ENTRY_START, HEADER

EMPTY = "empty files"
ZEROED = "files of zero bytes, as a power cut leaves them"
CLAUDE_CODE = "Claude Code transcripts"

FOREIGN_FORMS: tuple[tuple[str, str, str], ...] = (
    # What the file is; the program and version that it was seen in; a pattern found in its first lines.
    (CLAUDE_CODE, "Claude Code 1.0 to 2.1", r'"(?:parentUuid|leafUuid|isSidechain)"\s*:|"file-history-'),
    ("Codex rollouts", "Codex 0.44", r'"type"\s*:\s*"(?:session_meta|response_item|turn_context|event_msg)"'),
    ("Codex rollouts", "Codex 0.2", r'"record_type"\s*:\s*"state"|"instructions"\s*:.{0,9000}"git"\s*:'),
    ("ChatGPT exports", "chatgpt.com, 2023 to 2026", r'"mapping"\s*:\s*\{|"current_node"\s*:'),
    ("Claude.ai exports", "claude.ai, 2024 to 2026", r'"chat_messages"\s*:'),
    ("Gemini CLI sessions", "Gemini CLI 0.1 to 0.20", r'"projectHash"\s*:'),
    ("Copilot CLI events", "Copilot CLI 0.0.3", r'"type"\s*:\s*"session\.start"'),
    ("OpenClaw trajectories", "OpenClaw 2026.4", r'"traceSchema"\s*:'),
    ("OpenClaw job logs", "OpenClaw 2026.1", r'"jobId"\s*:.{0,900}"action"\s*:'),
    ("prompt histories", "Claude Code 2.0, Codex 0.44", r'"pastedContents"\s*:|\A\s*\{"session_id":"[^"]*","ts":'),
    (
        "training data",
        "OpenAI and Hugging Face formats",
        r'\A\s*\{\s*"(?:messages|prompt|instruction|conversations)"\s*:',
    ),
    ("other JSON", "", r"\A\s*[\[{]"),
)


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEADER_START = b'{"type":"session",'
_TOLD_BYTES = 10  # of its beginning: as much as no other program writes


class SeenFile(NamedTuple):
    """What is known of a file: `kind` is "" for a transcript, else what it is; `first` is the id of its first entry."""

    kind: str
    header: Header | None = None
    first: str = ""
    size: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the file may become a transcript."""
        return self.kind in (EMPTY, ZEROED)


def recognise(source: ByteSource, size: int, name: str) -> SeenFile:
    """A transcript begins with a header whose version is a number, or, if that is lost, with an entry that has an id
    and a parent. Damaged lines decide nothing, lines of other shapes only without one of an entry."""
    head = source.read(0, HEAD_BYTES)
    header: Header | None = None
    strange = False
    for raw in head.split(b"\n"):
        found = decode_header(raw) if header is None else None
        value = None if found or ENTRY_START.match(raw) else as_object(raw)
        if found and (found.timestamp or found.cwd):
            header = found
        elif first := _entry_in(raw, value, header):
            return SeenFile("", header, first, size)
        strange = strange or (value is not None and value.get("type") != HEADER)
        if strange and header is None:
            break
    if strange or (header is None and size > len(head)):
        end = ENTRY_START.search(source.read(max(0, size - HEAD_BYTES), size)) if not strange else None
        return SeenFile("", None, end[1].decode(), size) if end else SeenFile(_kind_of(head), size=size)
    return SeenFile("" if header else _blank_kind(head, name), header, size=size)


def _entry_in(raw: bytes, value: dict[str, Any] | None, header: Header | None) -> str:
    """The id of the entry in a line with the JSON `value`, or behind a torn one; "" if there is none."""
    if value is None:
        entry = ENTRY_START.search(raw)
        return entry[1].decode() if entry else ""
    known = str(value.get("type")) in ENTRY_TYPES
    linked = isinstance(value.get("id"), str) and isinstance(value.get("parentId", 0), str | None)
    # After a header also one of version 1, or of a later type.
    is_entry = known and linked if header is None else known or (linked and isinstance(value.get("type"), str))
    return str(value.get("id") or value.get("timestamp") or "?") if is_entry else ""


def _blank_kind(head: bytes, name: str) -> str:
    """What a file is whose lines are no JSON: an empty one under a name that only we give, and one with the beginning
    of a header, are transcripts that a crash left."""
    is_new = _UUID.fullmatch(name.removesuffix(SUFFIX)) if not head.strip() else _is_begun(head)
    return "" if is_new and b"\0" not in head else _kind_of(head)


def _is_begun(head: bytes) -> bool:
    """Whether `head` has a header that was never finished."""
    rest = head.strip(PADDING + b"\n")
    return len(rest) >= _TOLD_BYTES and (rest.startswith(_HEADER_START) or _HEADER_START.startswith(rest))


def _kind_of(head: bytes) -> str:
    is_blank = not head.strip(PADDING + b"\n")
    if b"\0" in head and (is_blank or _is_begun(head)):
        return ZEROED
    if is_blank:
        return EMPTY
    text = head.decode("utf-8", "replace")
    return next((kind for kind, _, form in FOREIGN_FORMS if re.search(form, text, re.DOTALL)), "other files")
