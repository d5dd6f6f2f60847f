"""What programs of the same family put around messages, or send in the user's place: jobs, heartbeats, system events,
channels. Pure.

The tables say where each form was seen. All patterns are matched at the start of a message.
"""

from __future__ import annotations

import re

from clawbot.languages.tables import pattern_in
from clawbot.messages import UserMessage
from clawbot.text.patterns import lazy_re

JOB_FORMS: tuple[tuple[str, str], ...] = (
    # The program and version in which it was seen; the start of what it sends in the user's place.
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
_MOST_WRAPPINGS = 32
# One word of letters after the slash, on one line: `/usr/bin/x is broken` is a message.
_COMMAND = lazy_re(r"/[A-Za-z][\w-]*(?:[ \t][^\n]*)?")


def is_command(text: str) -> bool:
    """Whether a user message, stripped of whitespace, is a slash command."""
    return _COMMAND.fullmatch(text) is not None


def users_text(message: UserMessage) -> str:
    """What the user said in `message`; "" for a slash command and the prompt of a job."""
    text = "" if message.scheduled else (users_words(message.text) or "").strip()
    return "" if is_command(text) else text


def is_job(text: str) -> bool:
    """Whether the message `text` was sent by a job, a heartbeat, the system, another agent or a group of people."""
    return users_words(text) is None


def users_words(text: str) -> str | None:
    """What the user said in the message `text`, without what programs put around it; None if it is not the user's."""
    head, *queued = _NEXT.split(text) if _QUEUED in text else (text,)
    parts = queued if queued and _QUEUED in head else (text,)
    found = [words for words in map(_unwrapped, parts) if words is not None]
    return "\n\n".join(found) if found else None


def _unwrapped(text: str) -> str | None:
    """The user's words in one message, as `users_words`."""
    rest = text.lstrip()
    for _ in range(_MOST_WRAPPINGS):
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
