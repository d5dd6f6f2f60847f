"""The message roles, content blocks and tool descriptions shared by llm, sessions, context and tools.

The JSON names (camelCase, `role` and `type` tags) are those of transcript format version 3, so messages are stored as
they are. Python's collector does not scan them (`gc=False`): they hold no cycles, and a long session has a million.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from clawbot.text.patterns import lazy_re
from clawbot.text.thoughts import without_thoughts

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]

OFFLINE = "offline"
"""The provider name of rule-based answers: their quotes contain nothing that the model itself wrote."""

_SURROGATES = lazy_re("[\ud800-\udfff]+")


class TextBlock(Struct, frozen=True, gc=False, tag_field="type", tag="text", omit_defaults=True):
    """Visible text, as Markdown. In a message of the user `attached` names what it is the content of (`a.py:1-9 · 9
    lines`): the model reads it, but the user did not type it. `path` and `digest` (`version_of`) are of the workspace
    file that it shows completely."""

    text: str
    attached: str = ""
    path: str = ""
    digest: str = ""


class ThinkingBlock(Struct, frozen=True, gc=False, tag_field="type", tag="thinking", omit_defaults=True):
    """The model's reasoning, or `data`, as it came in `field` ("": `reasoning_content`); `signature` goes back."""

    thinking: str
    signature: str | None = None
    field: str = ""
    data: Any = None


class ToolCallBlock(Struct, frozen=True, gc=False, tag_field="type", tag="toolCall"):
    """One tool call by the model.

    `malformed` holds the raw argument text if it was not a JSON object; `arguments` is then empty, and the call must be
    answered with an error result instead of being run. `extra` are further fields, which its model wants to see again.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    malformed: str | None = None
    extra: dict[str, Any] | UnsetType = UNSET


class ImageBlock(Struct, frozen=True, gc=False, tag_field="type", tag="image", rename="camel", omit_defaults=True):
    """A picture: `data` is base64. `attached` is its name as for a TextBlock."""

    data: str
    mime_type: str
    attached: str = ""


class Cost(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The cost of a call in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The provider's report for one call, in tokens.

    `input` excludes tokens read from or written to the provider's cache, so the size of the prompt is `input +
    cache_read + cache_write`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost | None = None

    @property
    def prompt_tokens(self) -> int:
        """The entire prompt, in tokens."""
        return self.input + self.cache_read + self.cache_write


UserBlock = TextBlock | ImageBlock
AssistantBlock = TextBlock | ThinkingBlock | ToolCallBlock


class UserMessage(Struct, frozen=True, gc=False, tag_field="role", tag="user", rename="camel"):
    """A message of the user. `timestamp` is in milliseconds since the epoch, here and below. `scheduled` marks the
    prompt of a job; `unsent_id` is the id under which the text waited on disk (`sessions/unsent.py`). `planning`: it
    was sent in plan mode, which a model reads behind it."""

    content: str | list[UserBlock]
    timestamp: int = 0
    scheduled: bool | UnsetType = UNSET
    unsent_id: str | UnsetType = UNSET
    planning: bool | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The words of the message: the text blocks without what is attached, joined by line breaks."""
        return text_of(self.content)

    @property
    def sent(self) -> str:
        """What the model reads: the text blocks with what is attached, apart by a blank line before each of these."""
        if isinstance(self.content, str):
            return self.content
        blocks = [block for block in self.content if isinstance(block, TextBlock)]
        return "\n".join(f"\n{block.text}" if block.attached else block.text for block in blocks)

    @property
    def shown(self) -> str:
        """The text; if there is none, what is attached, in brackets by its name or kind."""
        blocks = self.content if isinstance(self.content, list) else ()
        kinds = (b.attached or (b.mime_type if isinstance(b, ImageBlock) else "") for b in blocks)
        return self.text or " ".join(f"[{kind}]" for kind in kinds if kind)

    @property
    def attached(self) -> tuple[str, ...]:
        """The names of what is attached."""
        return () if isinstance(self.content, str) else tuple(b.attached for b in self.content if b.attached)


class AssistantMessage(Struct, frozen=True, gc=False, tag_field="role", tag="assistant", rename="camel"):
    """One answer of the model, from one call: a turn with tools has several. `by` is the other program whose assistant
    gave it."""

    content: list[AssistantBlock]
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage | None = None
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    timestamp: int = 0
    by: str | UnsetType = UNSET

    @property
    def speaker(self) -> str:
        """Who answered, for the user."""
        return self.by or "Clawbot"

    @property
    def text(self) -> str:
        """The text blocks, joined by line breaks, without reasoning, also such as is in the text of old
        transcripts."""
        return without_thoughts(text_of(self.content))

    @property
    def broken(self) -> bool:
        """Whether it failed or was cut off: its usage is not trusted, and its calls are not sent again."""
        return self.stop_reason in ("error", "aborted")

    @property
    def tool_calls(self) -> list[ToolCallBlock]:
        """The calls in the order the model made them."""
        return [block for block in self.content if isinstance(block, ToolCallBlock)]


class ToolResultMessage(Struct, frozen=True, gc=False, tag_field="role", tag="toolResult", rename="camel"):
    """The result of the tool call `tool_call_id`. `summary` and `duration_ms` are shown on the screen."""

    tool_call_id: str
    tool_name: str
    content: list[UserBlock]
    is_error: bool = False
    details: Any = None
    timestamp: int = 0
    summary: str | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The text that the model sees."""
        return text_of(self.content)


class BashExecutionMessage(Struct, frozen=True, gc=False, tag_field="role", tag="bashExecution", rename="camel"):
    """A shell command run by the user and its output: `!!command`, or `!command`, which the model does not see.
    `cancelled`: the user stopped it; `truncated`: the middle of the output is left out."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    exclude_from_context: bool = False
    timestamp: int = 0

    @property
    def ending(self) -> str:
        """How it ended: `exit 0`, `interrupted`, or nothing where that is unknown."""
        if self.cancelled:
            return "interrupted"
        return "" if self.exit_code is None else f"exit {self.exit_code}"

    @property
    def text(self) -> str:
        """The command and its output, as the model sees them."""
        return f"Ran `{self.command}` ({self.ending or 'not run to its end'})\n{self.output}"


Message = UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage

NOTES_HEAD = "Notes from the workspace, quoted as this session begins."
"""The first words of the message that quotes notes at the start of a session; each note in it is fenced."""
NOTES_FOUND = "Notes from the workspace, found for the message that follows."
"""The same before a message to a model that can't call tools."""
_HEADS = f"(?:{re.escape(NOTES_HEAD)}|{re.escape(NOTES_FOUND)})"
_NOTES = lazy_re(rf"{_HEADS}.*\n`{{3,}}\Z", re.DOTALL)
_FENCED = r"\n\n(?:[^\n]*:\n)?(`{3,})text\n(?s:.*?)\n\1(?=\n|\Z)"
_NOTES_BEFORE = lazy_re(rf"\A(?:{_HEADS}[^\n]*(?:{_FENCED})*\n*)+")


def quotes_notes(message: Message) -> bool:
    """Return whether `message` is such a quote, made by the program and not by the user."""
    return isinstance(message, UserMessage) and _NOTES.match(message.text) is not None


def is_typed(message: Message) -> bool:
    """Return whether the user typed `message`, and neither the program nor a job wrote it in the user's name."""
    if not isinstance(message, UserMessage) or message.scheduled is True:
        return False
    text = message.text
    return _NOTES.match(text) is None and read_compacted(text) is None


class Compacted(Struct, frozen=True):
    """The replacement of summarised turns: their summary, and the request still being answered ("" unless a turn was
    split)."""

    summary: str
    request: str = ""

    @property
    def question(self) -> str:
        """The request if it is complete: nobody should act on half a request."""
        return "" if _LEFT_OUT.search(self.request) else self.request

    @property
    def spoken(self) -> str:
        """Text from which the user's language can be detected."""
        return self.request or _FRAME.sub("", self.summary)


_OPEN, _SHUT = "<summary>\n", "\n</summary>"
_REQUEST, _REQUEST_SHUT = "<request>\n", "\n</request>"
_FRAME = lazy_re(r"^(?:#.*|[-*] )", re.MULTILINE)
_LEFT_OUT = lazy_re(r"^\[\.\.\. [\d,]+ of [\d,]+ characters left out \.\.\.\]$", re.MULTILINE)


def compacted_text(preamble: str, summary: str, asked: str = "", request: str = "") -> str:
    """Return the message text for summarised turns: `preamble` and `summary`, then `asked` and the request, if any."""
    behind = f"\n\n{asked}\n\n{_REQUEST}{request}{_REQUEST_SHUT}" if request else ""
    return f"{preamble}\n\n{_OPEN}{summary}{_SHUT}{behind}"


def read_compacted(text: str) -> Compacted | None:
    """Parse text made by `compacted_text`; None for any other, which is recognised by its end at little cost."""
    body = text.rstrip()
    if not body.endswith((_SHUT, _REQUEST_SHUT)):
        return None
    before, opened, inside = body.partition(_OPEN)
    if not opened or before.rstrip(" ")[-1:] not in ("", "\n"):
        return None
    if inside.endswith(_SHUT):
        return Compacted(inside.removesuffix(_SHUT))
    summary, shut, behind = inside.partition(_SHUT + "\n")
    asked, opened, request = behind.partition(_REQUEST)
    if not shut or not opened or "\n" in asked.strip():
        return None
    return Compacted(summary, request.removesuffix(_REQUEST_SHUT).strip())


_FIRST_MOMENT = 946_684_800_000  # 2000 in milliseconds: an earlier time was counted in seconds, or is made up
_SENT_AT = lazy_re(r"(?:\A|(?<=\n\n))\[\d{4}-\d\d-\d\d \d\d:\d\d\] ")


def is_timed(message: Message) -> bool:
    """Return whether a model reads when `message` was sent: the user's words, not what the program writes as the user
    (a job's prompt names the time itself)."""
    if not isinstance(message, UserMessage) or message.timestamp < _FIRST_MOMENT:
        return False
    return is_typed(message)


def sent_at(message: Message, zone: tzinfo) -> str:
    """`[2026-11-22 10:03] `, what a model reads before the words of `message`: from the stored time, so that it never
    changes; "" for one that is not timed."""
    return _shown_time(message.timestamp // 60_000, zone) if is_timed(message) else ""


@lru_cache(maxsize=8192)
def _shown_time(minute: int, zone: tzinfo) -> str:
    try:
        return f"[{datetime.fromtimestamp(minute * 60, zone):%Y-%m-%d %H:%M}] "
    except (OverflowError, ValueError, OSError):
        return ""


def without_times(text: str) -> str:
    """`text` of a user's turn as it was typed: without what `sent_at` put before it, or before each of several messages
    that were joined to one turn."""
    return _SENT_AT.sub("", text)


def newest_words(text: str) -> str:
    """Return the last of the messages that were joined to `text`, a user's turn: without quoted notes and times."""
    return _SENT_AT.split(_NOTES_BEFORE.sub("", text))[-1]


class ToolSpec(Struct, frozen=True):
    """A tool as described to a model: `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


def text_of(content: str | Sequence[Any]) -> str:
    """Join the text blocks of `content` with line breaks; other blocks, and attached ones, are left out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock) and not block.attached)


def scrub(value: Any) -> Any:
    """`value` (JSON data) without lone surrogates, which UTF-8 can't encode: matching halves are joined, others become
    U+FFFD. They can come from a terminal, a server's JSON or a file name."""
    if isinstance(value, str):
        return _SURROGATES.sub(_joined, value)
    if isinstance(value, list | tuple):
        return [scrub(item) for item in value]
    if isinstance(value, dict):
        return {scrub(name): scrub(item) for name, item in value.items()}
    return value


def _joined(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
