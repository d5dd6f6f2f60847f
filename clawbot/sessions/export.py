"""Exports a conversation to a new file: Markdown for people, JSON for programs."""

from __future__ import annotations

import html
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo
from pathlib import Path

import msgspec

from clawbot.clock import Clock, moment_of
from clawbot.errors import ClawbotError
from clawbot.guarded import reached
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.entries import mend
from clawbot.sessions.errors import store_errors
from clawbot.sessions.lines import ByteSource, lines_backwards
from clawbot.sessions.transcript import Transcript
from clawbot.text.sanitize import clean, clean_line
from clawbot.text.secrets import Redactor
from clawbot.text.thoughts import without_thoughts

_TICKS = re.compile("`+")
_SUMMARY_CHARS = 80
_PROBE = "end-of-message"


def to_markdown(
    items: Iterable[HistoryItem], title: str, zone: tzinfo | None, redactor: Redactor | None = None
) -> Iterator[str]:
    """The conversation as blocks of Markdown, each with its line break. Times are in `zone`. User messages are quoted
    and tool calls folded; no message can break out of its block. Secrets are redacted unless `redactor` keeps them."""
    yield from map((redactor or Redactor()).text, _markdown(items, title, zone))


def _markdown(items: Iterable[HistoryItem], title: str, zone: tzinfo | None) -> Iterator[str]:
    yield f"# {clean_line(title, _SUMMARY_CHARS) or 'Conversation'}\n"
    for item in items:
        time = f"{moment_of(item.timestamp, zone):%Y-%m-%d %H:%M}" if item.timestamp else ""
        if item.message is None:
            yield f"\n---\n\n*{_inline(item.note)}*{f' · {time}' if time else ''}\n"
            if item.compaction is not None:
                yield f"\n{_folded('Summary of the earlier conversation', item.compaction.summary)}"
            if item.quote is not None:
                yield f"\n{_folded('Notes quoted at the start', text_of(item.quote.content))}"
        else:
            cut = "*(interrupted)*\n" if item.interrupted else ""
            yield f"\n{_message(item.message, time)}{cut}"


def to_json(path: Path, redactor: Redactor | None = None) -> Iterator[bytes]:
    """The transcript at `path` as a JSON array, in parts: its lines unchanged, including unknown fields, but with
    secrets redacted unless `redactor` keeps them. Lines that are not JSON are left out. Raises SessionStoreError."""
    clean = redactor or Redactor()
    with store_errors("read", path), ByteSource.open(path) as source:
        spans = [(line.start, line.end) for line in lines_backwards(source, source.size)][::-1]
        lead = b"[\n"
        for start, end in spans:
            line = _json_line(source.read(start, end))
            if line is not None:
                yield lead + _without_secrets(line, clean)
                lead = b",\n"
    yield b"[]\n" if lead == b"[\n" else b"\n]\n"


def _json_line(raw: bytes) -> bytes | None:
    """`raw` if it is a valid JSON object, repaired if only its characters are broken."""
    raw = raw.strip()
    try:
        return raw if isinstance(msgspec.json.decode(raw), dict) else None
    except (ValueError, RecursionError):
        return mend(raw)


def _without_secrets(line: bytes, clean: Redactor) -> bytes:
    """A line of JSON with redacted texts; byte for byte unchanged if there was no secret."""
    before = clean.count
    value = clean.tree(msgspec.json.decode(line))
    return msgspec.json.encode(value) if clean.count > before else line


def _message(message: Message, time: str) -> str:
    if isinstance(message, UserMessage):
        return f"{_heading('You', time)}\n{_quoted(clean(message.shown))}\n"
    if isinstance(message, ToolResultMessage):
        state = "failed" if message.is_error else "answered"
        return _folded(f"{message.tool_name} {state}", message.text)
    if isinstance(message, BashExecutionMessage):
        seen = " (the model did not see it)" if message.exclude_from_context else ""
        return _folded(f"You ran{seen}: {message.command}", message.output)
    return f"{_heading(clean_line(message.speaker), time)}\n{''.join(_blocks(message))}"


def _blocks(message: AssistantMessage) -> Iterator[str]:
    for block in message.content:
        match block:
            case TextBlock(text=text) if answer := without_thoughts(text).strip():
                yield f"{_contained(clean(answer))}\n\n"
            case ToolCallBlock(name=name, arguments=arguments, malformed=malformed):
                shown = malformed or msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
                yield f"{_folded(f'Tool call: {name}', shown)}\n"
            case _:
                pass
    if message.error_message:
        yield f"*({_inline(message.error_message)})*\n\n"


def _heading(who: str, time: str) -> str:
    return f"## {who} · {time}\n" if time else f"## {who}\n"


def _folded(summary: str, text: str) -> str:
    text = clean(text)
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    heading = html.escape(clean_line(summary, _SUMMARY_CHARS))
    return f"<details><summary>{heading}</summary>\n\n{fence}\n{text}\n{fence}\n\n</details>\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _contained(text: str) -> str:
    """`text`, quoted if it leaves something open (a code block, a comment) that would swallow what follows."""
    # Deferred: importing the parser (90 ms) takes longer than all other session commands.
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(f"{text}\n\n{_PROBE}")
    last = tokens[-2] if len(tokens) > 1 else None
    closed = last is not None and last.type == "inline" and last.level == 1 and last.content == _PROBE
    return text.strip("\n") if closed else _quoted(text)


def _inline(text: str) -> str:
    return html.escape(clean_line(text)).replace("*", "\\*")


def default_target(workspace: Path, session_key: str, form: str, now: datetime) -> Path:
    """The default path of an export: a new file in the workspace's `exports` folder."""
    # Keys of other programs may contain anything except spaces: `telegram:group:../5`.
    name = re.sub(r"[^\w.-]+", "-", session_key).lstrip(".")
    return workspace / "exports" / f"{name}-{now:%Y-%m-%d-%H%M%S}.{form}"


def write_export(
    transcript: Path, target: Path, form: str, clock: Clock, below: Path, *, title: str = "", with_secrets: bool = False
) -> int:
    """Write the session at `transcript`, called `title`, to `target` as "md" or "json"; returns the number of redacted
    secrets. Blocks. Raises ClawbotError if `target` exists or can't be written: an export never replaces a file, and
    follows no link in the folder `below`."""
    redactor = Redactor(keep=with_secrets)
    if form == "json":
        data = b"".join(to_json(transcript, redactor))
    else:
        with Transcript.open(transcript, clock=clock, writable=False) as opened:
            items = opened.history(limit=sys.maxsize)
            data = "".join(to_markdown(items, title, clock.now().tzinfo, redactor)).encode()
    target = target.expanduser()
    try:
        folder, name = reached(target, below)
        created = folder.create(name, data)
    except OSError as error:
        raise ClawbotError(
            f"{target} can't be written: {error.strerror or error}.",
            hint="Name another path, or remove what is in the way.",
        ) from error
    if not created:
        is_file = (found := folder.state(name)) is not None and stat.S_ISREG(found.st_mode)
        what = "exists already" if is_file else "is not a regular file: an export needs a new one"
        raise ClawbotError(f"{target} {what}.", hint="Name another path.")
    return redactor.count
