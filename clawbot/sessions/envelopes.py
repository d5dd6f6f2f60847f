"""Removes the parts of messages that are not the words of user or model. Pure.

In messages of the user: what programs of the same family put around them, or send themselves (jobs, heartbeats, system
events, channels). The tables give the origin of each form; all patterns are matched at the start of a message.

In answers: repeated output of tools and quoted notes. References replace them, so that no session note quotes another
note and no search finds the same text twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clawbot.languages.tables import pattern_in
from clawbot.messages import AssistantMessage, Message, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.text.patterns import lazy_re

JOB_FORMS: tuple[tuple[str, str], ...] = (
    # The program and version in which it was seen; the start of what it sends as if it were the user.
    ("OpenClaw 2026.1 to 2026.9", r"\[(?:cron|hook|webhook):[^\]\n]+\]|\[Subagent (?:Context|Task)\]"),
    ("OpenClaw 2026.1 to 2026.7", r"Read HEARTBEAT\.md if it exists|Run the following periodic tasks"),
    ("OpenClaw 2026.8, 2026.9", r"Follow the heartbeat monitor scratch context|\[OpenClaw heartbeat poll\]"),
    ("OpenClaw 2026.1 to 2026.9", r"A scheduled (?:reminder has been|cron event was) triggered"),
    ("OpenClaw 2026.1 to 2026.9", r"An async command (?:you ran earlier|the user already approved) has completed"),
    ("OpenClaw 2026.1 to 2026.6", r"A new session was started via /new or /reset\.|You are running a boot check\."),
    (
        "OpenClaw 2026.2 to 2026.9",
        r"\[System(?: Message\]|: )|Continue where you left off\. The previous model attempt",
    ),
    ("OpenClaw 2026.1 to 2026.3", r'(?:\[sessionId: [^\]\n]+\] )?A (?:subagent task|cron job|background task) "'),
    ("OpenClaw 2026.4", r"\[Inter-session message\]|Agent-to-agent (?:message context|(?:reply|announce) step)"),
    ("OpenClaw 2026.4", r"OpenClaw runtime context \(internal\)|<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"),
    ("OpenClaw 2026.1 to 2026.9", r"Pre-compaction memory flush|\[?Post-compaction context refresh\]?"),
    ("OpenClaw 2026.1", r"Based on this conversation, generate a short 1-2 word filename slug"),
    ("OpenClaw 2026.2", r"SECURITY NOTICE: The following content is from an EXTERNAL|<<<EXTERNAL_UNTRUSTED_CONTENT"),
    ("nanobot 0.1", r"Read HEARTBEAT\.md in your workspace|\[Subagent '[^'\n]*' (?:completed|failed)"),
    ("ZeroClaw 0.1, PicoClaw 0.1", r"\[Heartbeat Task\]|# Heartbeat Check\b"),
    ("nanobot 0.1 and others", r"\[(?:SCHEDULED TASK|Scheduled (?:Run|[Tt]ask)|HEARTBEAT)\]:?"),
    ("LobsterAI 2026.3", rf"⏰\s*(?:{pattern_in('reminder')}|Reminder)\s*[:：]"),
)

_CHANNELS = (
    "Telegram|WhatsApp|Discord|Slack|Signal|iMessage|BlueBubbles|Google Chat|Matrix|MS ?Teams|Microsoft Teams|Teams"
    "|Mattermost|IRC|LINE|Nostr|Twitch|Zalo(?: Personal)?|Feishu|Lark|DingTalk|QQ(?: ?Bot)?|WeChat|Weixin|WeCom"
    f"|{pattern_in('channel')}|WebChat|Nextcloud Talk|Synology Chat|Email|SMS|Voice"
)
_CLOCK = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?"
_DAY = rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|{pattern_in('short_weekday')})"
_ZONE = r"(?:Z| ?[A-Z][A-Za-z0-9+:/_-]*)"

_CHANNEL = rf"\[(?:{_CHANNELS})\b[^\]\n]*(?:{_CLOCK}|\bid:|\+\d)[^\]\n]*\]"
_LABEL = r"[A-Z][\w /-]{2,60} \(untrusted[^)\n]{0,60}\):"

WRAPPINGS: tuple[tuple[str, str], ...] = (
    # The program and version in which it was seen; what it puts before the user's words.
    ("OpenClaw 2026.1 to 2026.9", rf"\[(?:{_DAY} {_CLOCK}{_ZONE}?|{_CLOCK}{_ZONE})\]"),
    ("Clawdbot 2026.1, OpenClaw 2026.1 to 2026.3", _CHANNEL),
    ("OpenClaw 2026.2 to 2026.9", rf"{_LABEL}\s*```\w*\n.*?\n```(?=\n|\Z)|{_LABEL}\n(?:#\d[^\n]*\n)+"),
    ("OpenClaw 2026.3 to 2026.9", r"Untrusted context \(metadata[^\n]*\n(?:[^\n]+\n)*"),
    ("OpenClaw 2026.1", r"\[media attached[^\]\n]*\]|To send an image back, [^\n]*"),
    ("OpenClaw 2026.1 to 2026.4", r"<media:\w+>|\[Forwarded from [^\]\n]*\]"),
    ("OpenClaw 2026.3, 2026.4", r"\[(?:Image|Audio|Video)[^\]\n]*\]\n(?:User text:|Transcript:)"),
    ("OpenClaw 2026.1", r"\[Replying to [^\]\n]*\]\n.*?\n\[/Replying\]"),
    ("OpenClaw 2026.3, Chinese builds", r"Skills store policy \(operator configured\):\n(?:\d+\. [^\n]*\n)+"),
    ("Clawdbot 2026.1", r"\[message_id: [^\]\n]*\]"),
)

BEHIND: tuple[tuple[str, str], ...] = (
    # The same for what it puts behind them.
    ("Clawdbot 2026.1", r"\[message_id: [^\]\n]*\]\s*"),
    ("OpenClaw 2026.3 to 2026.9", r"Untrusted context \(metadata, .*"),
)

# In a group of several people, the words may be anybody's.
_GROUP_LABEL = r"(?:id:-\d|@g\.us|\bgroup:|\bchannel id:|#[^\s\]]|" + pattern_in("group") + ")"
_GROUP = lazy_re(
    rf"(?=\[[^\]\n]*{_GROUP_LABEL}){_CHANNEL}"
    rf'|{_LABEL}\s*```\w*\n(?:(?!\n```).)*"(?:is_group_chat"\s*:\s*true|group_subject"\s*:)',
    re.DOTALL,
)
# System events come before the user's words, which begin after a blank line.
_EVENTS = lazy_re(rf"(?:System(?: \(untrusted\))?: ?\[{_CLOCK}[^\]\n]*\][^\n]*(?:\n(?![ \t]*\n)[^\n]*)*(?:\n\s*|\Z))+")
_JOBS = "|".join(form for _, form in JOB_FORMS)
_JOB = lazy_re(_JOBS)
_LATER_JOB = lazy_re(rf"^(?:{_JOBS})", re.MULTILINE)
_WRAPPING = lazy_re(rf"(?:{'|'.join(form for _, form in WRAPPINGS)})\s*", re.DOTALL)
_BEHIND = lazy_re(rf"\n(?:{'|'.join(form for _, form in BEHIND)})\Z", re.DOTALL)
# Several messages in one: OpenClaw 2026.1 to 2026.9.
_QUEUED = "messages while agent was busy]"
_NEXT = lazy_re(r"\n---\nQueued #\d+[^\n]*\n")
_MAX_WRAPPINGS = 32
# One word of letters after the slash, on one line: `/usr/bin/x is broken` is a message.
_COMMAND = lazy_re(r"/[A-Za-z][\w-]*(?:[ \t][^\n]*)?")


def is_command(text: str) -> bool:
    """Whether a user message, stripped of whitespace, is a slash command."""
    return _COMMAND.fullmatch(text) is not None


def users_text(message: UserMessage) -> str:
    """The text of the user in `message`; "" for a slash command and the prompt of a job."""
    text = "" if message.scheduled else (users_words(message.text) or "").strip()
    return "" if is_command(text) else text


def is_job(text: str) -> bool:
    """Whether the message `text` was sent by a job, a heartbeat, the system, another agent or a group of people."""
    return users_words(text) is None


def users_words(text: str) -> str | None:
    """The user's part of the message `text`, without what programs put around it; None if it is not the user's."""
    head, *queued = _NEXT.split(text) if _QUEUED in text else (text,)
    parts = queued if queued and _QUEUED in head else (text,)
    found = [words for words in map(_unwrapped, parts) if words is not None]
    return "\n\n".join(found) if found else None


def _unwrapped(text: str) -> str | None:
    """The user's words in one message, as `users_words`."""
    rest = text.lstrip()
    for _ in range(_MAX_WRAPPINGS):
        if _JOB.match(rest) or _GROUP.match(rest):
            return None
        if (found := _EVENTS.match(rest)) is not None:
            if found.end() == len(rest) or _LATER_JOB.search(rest, found.end()):
                return None
        elif (found := _WRAPPING.match(rest)) is None:
            break
        rest = rest[found.end() :]
    behind = _BEHIND.search(rest)
    return rest[: behind.start()].rstrip() if behind else rest


QUOTED = "[quoted: {source}]"
"""Replaces a quote: its source, `memory/2026-11-20.md:4`, or the name of a tool."""

PRINTED = "[output of {tool}: {lines}]"
"""Replaces the output of a tool."""

REFERENCE = r"\[(?:quoted|output of)[ :][^\]\n]*\]"
"""Matches either."""

_SAME_SHARE = 0.8  # share of matching lines in a code block: models sometimes omit or shorten one
_MAX_COMPARED = 500_000  # characters of one result that are compared; longer quotes fit in no window
_MIN_CHARS = 2  # minimum characters that identify a line
_BLOCK = lazy_re(
    r"^(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<code>(?:.*\n)*?)(?P=fence)[`~]*[ \t]*$|^(?P<quote>[ \t]*>.*(?:\n[ \t]*>.*)*)$",
    re.MULTILINE,
)
_SOURCE = lazy_re(
    r"^[ \t>]*[-–—]{1,2}[ \t]*`?(?P<source>[^\n`]{1,400}\.md(?:[:#]L?\d+(?:-L?\d+)?)?)`?[ \t]*$", re.MULTILINE
)
_LED_IN = lazy_re(rf"([:：])[ \t]*\n+(?={REFERENCE})")
_NAMED = lazy_re(r"`([^`\n]{1,400}\.md)`")
_FILE = lazy_re(r"[^/.]\.\w+(?::\d+)?$")
_QUOTE_MARK = lazy_re(r"^[ \t]*(?:>[ \t]?)+")
_EDGES = lazy_re(r"^[\W_]+|[\W_]+$")
_GREP_LINE = lazy_re(r"(?P<path>[^:\n]{1,400}\.\w{1,8}):(?P<line>\d{1,7}):(?P<text>.*)")


def without_echo(message: AssistantMessage, turn: Sequence[Message], *, quotes_only: bool = False) -> str:
    """The text of `message`, an answer in `turn`, with quotes of notes and tool input or output replaced by references.
    `quotes_only`: the answer was made by rules, and every quote in it is replaced. A quote is recognised if it names
    its note, or if all its lines are lines of a result; for code nearly all lines suffice."""
    text = message.text
    if ">" not in text and "```" not in text and "~~~" not in text:
        return text
    lines: dict[str, str] | None = None

    def replaced(found: re.Match[str]) -> str:
        nonlocal lines
        if lines is None:
            lines = dict(_lines(turn))
        if found["quote"] is None:
            return _of_code(found, lines)
        return _of_quote(found, lines, quotes_only=quotes_only)

    shown = _BLOCK.sub(replaced, text)
    if shown == text:
        return text
    return _LED_IN.sub(r"\1 ", re.sub(r"\n{3,}", "\n\n", shown)).strip()


def _of_quote(found: re.Match[str], lines: dict[str, str], *, quotes_only: bool) -> str:
    quote = found["quote"]
    if cited := _SOURCE.search(quote):
        return QUOTED.format(source=cited["source"])
    bare = [_QUOTE_MARK.sub("", line) for line in quote.splitlines()]
    keys = [key for line in bare if (key := _key(line))]
    if not keys:
        return ""
    if all(key in lines for key in keys):
        return QUOTED.format(source=lines[keys[0]])
    if not quotes_only:
        return quote
    named = _NAMED.findall(found.string, 0, found.start())
    return QUOTED.format(source=named[-1] if named else "the conversation")


def _of_code(found: re.Match[str], lines: dict[str, str]) -> str:
    code = found["code"].splitlines()
    keys = [key for line in code if (key := _key(line))]
    known = [key for key in keys if key in lines]
    if not keys or len(known) < _SAME_SHARE * len(keys):
        return found[0]
    source = lines[known[0]]
    if _FILE.search(source):
        return QUOTED.format(source=source)
    return PRINTED.format(tool=source, lines=f"{len(code):,} {'line' if len(code) == 1 else 'lines'}")


def _lines(turn: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """The input and output lines of the tools in `turn`: each normalised by `_key`, with its source."""
    sources: dict[str, str] = {}
    for message in turn:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                source = sources[call.id] = _source_of(call)
                for name, value in call.arguments.items():
                    if name != "path" and isinstance(value, str):
                        yield from _keys_in(value, source)
        elif isinstance(message, ToolResultMessage):
            yield from _printed(message, sources.get(message.tool_call_id, message.tool_name))


def _source_of(call: ToolCallBlock) -> str:
    """The source of a call's text: the file it was about, or the tool's output."""
    path = call.arguments.get("path")
    if isinstance(path, str) and len(path) <= _MAX_COMPARED and _FILE.search(path):
        return path
    return call.name


def _printed(message: ToolResultMessage, source: str) -> Iterator[tuple[str, str]]:
    text = message.text[:_MAX_COMPARED]
    found = _hits(message.details) or _results(text)
    if found is None:
        yield from _keys_in(text, source)
        return
    for result in found:
        snippet, path, first = result.get("snippet", result.get("text")), result.get("path"), result.get("startLine", 1)
        if isinstance(snippet, str) and isinstance(path, str) and isinstance(first, int):
            for number, line in enumerate(snippet.splitlines(), first):
                yield _key(line), f"{path}:{number}"


def _hits(details: Any) -> list[dict[str, Any]] | None:
    """The hits of a memory search whose answer is text; None for the output of another tool."""
    found = details.get("results") if isinstance(details, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else None


def _results(text: str) -> list[dict[str, Any]] | None:
    """The results of a memory search of an earlier version, or of a read; None for the output of another tool."""
    if not text.startswith("{"):
        return None
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    found = answer.get("results", [answer])
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else None


def _keys_in(text: str, source: str) -> Iterator[tuple[str, str]]:
    for line in text[:_MAX_COMPARED].splitlines():
        yield _key(line), source
        if found := _GREP_LINE.fullmatch(line):
            yield _key(found["text"]), f"{found['path']}:{found['line']}"


def _key(line: str) -> str:
    """A line normalised for comparison, without quote and list marks and whitespace; "" if it is too short."""
    words = " ".join(_EDGES.sub("", line).split()).casefold()
    return words if len(words) >= _MIN_CHARS else ""
