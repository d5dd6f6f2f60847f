"""The roles, content blocks and tool descriptions that llm, sessions, context and tools share.

The JSON spelling (camelCase, `role` and `type` tags) is that of transcript format version 3 (reference sheet 3.5),
so a message goes to disk as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]

OFFLINE = "offline"
"""The provider of answers that are made by rules: they say nothing of their own in quotes."""

_SURROGATES = re.compile("[\ud800-\udfff]+")


class TextBlock(Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    """Visible text, as Markdown."""

    text: str


class ThinkingBlock(Struct, frozen=True, tag_field="type", tag="thinking", omit_defaults=True):
    """The model's reasoning; `signature` is what a provider wants to see again when the block is replayed."""

    thinking: str
    signature: str | None = None


class ToolCallBlock(Struct, frozen=True, tag_field="type", tag="toolCall"):
    """One call of a tool by the model.

    `malformed` holds the raw argument text when it was no JSON object; `arguments` is then empty and the call must
    be answered with an error result instead of being run.
    """

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    malformed: str | None = None


class ImageBlock(Struct, frozen=True, tag_field="type", tag="image", rename="camel"):
    """A picture: `data` is base64."""

    data: str
    mime_type: str


class Cost(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a call cost, in US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    total: float = 0.0


class Usage(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the provider reported for one call, in tokens.

    `input` leaves out what was read from or written to the provider's cache, so the size of the prompt is
    `input + cache_read + cache_write` (reference sheet 6.2).
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost | None = None

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt, in tokens."""
        return self.input + self.cache_read + self.cache_write


UserBlock = TextBlock | ImageBlock
AssistantBlock = TextBlock | ThinkingBlock | ToolCallBlock


class UserMessage(Struct, frozen=True, tag_field="role", tag="user", rename="camel"):
    """What the user said. `timestamp` is in milliseconds since the epoch, here and below. `scheduled` is set where a
    job spoke in the user's place, `unsent_id` where it waited on disk before it was said (`sessions/unsent.py`)."""

    content: str | list[UserBlock]
    timestamp: int = 0
    scheduled: bool | UnsetType = UNSET
    unsent_id: str | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The visible text: all text blocks, joined by line breaks."""
        return text_of(self.content)


class AssistantMessage(Struct, frozen=True, tag_field="role", tag="assistant", rename="camel"):
    """One answer of the model: of one call, so a turn with tools has several."""

    content: list[AssistantBlock]
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage | None = None
    stop_reason: StopReason = "stop"
    error_message: str | None = None
    timestamp: int = 0

    @property
    def text(self) -> str:
        """The visible text: all text blocks, joined by line breaks; no reasoning."""
        return text_of(self.content)

    @property
    def broken(self) -> bool:
        """Whether it failed or was cut off: what it reports is not relied on, and its calls are not sent again."""
        return self.stop_reason in ("error", "aborted")

    @property
    def tool_calls(self) -> list[ToolCallBlock]:
        """The calls in the order the model made them."""
        return [block for block in self.content if isinstance(block, ToolCallBlock)]


class ToolResultMessage(Struct, frozen=True, tag_field="role", tag="toolResult", rename="camel"):
    """What a tool answered to the call `tool_call_id`."""

    tool_call_id: str
    tool_name: str
    content: list[UserBlock]
    is_error: bool = False
    details: Any = None
    timestamp: int = 0

    @property
    def text(self) -> str:
        """The text that the model sees."""
        return text_of(self.content)


class BashExecutionMessage(Struct, frozen=True, tag_field="role", tag="bashExecution", rename="camel"):
    """A shell command that the user ran (`!command`) and what it printed."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    timestamp: int = 0

    @property
    def text(self) -> str:
        """The command and its output, as the model sees them."""
        return f"Ran `{self.command}` (exit {self.exit_code})\n{self.output}"


Message = UserMessage | AssistantMessage | ToolResultMessage | BashExecutionMessage

NOTES_HEAD = "Notes from the workspace, quoted as this session begins."
"""The first words of the message that quotes notes to a session as it begins; each note in it is fenced."""
_NOTES = re.compile(rf"{re.escape(NOTES_HEAD)}.*\n`{{3,}}\Z", re.DOTALL)


def quotes_notes(message: Message) -> bool:
    """Whether `message` is such a quote: the program made it, so it is nothing that the user said."""
    return isinstance(message, UserMessage) and _NOTES.match(message.text) is not None


class Compacted(Struct, frozen=True):
    """What stands for turns that left the context: their summary, and the request that is still being answered, "" when
    no turn was cut in two."""

    summary: str
    request: str = ""

    @property
    def question(self) -> str:
        """The request, if it is there from its first to its last word: of half a request nothing is to be done."""
        return "" if _LEFT_OUT.search(self.request) else self.request

    @property
    def spoken(self) -> str:
        """Words that tell the language of the user."""
        return self.request or _FRAME.sub("", self.summary)


_OPEN, _SHUT = "<summary>\n", "\n</summary>"
_REQUEST, _REQUEST_SHUT = "<request>\n", "\n</request>"
_FRAME = re.compile(r"^(?:#.*|[-*] )", re.MULTILINE)
_LEFT_OUT = re.compile(r"^\[\.\.\. [\d,]+ of [\d,]+ characters left out \.\.\.\]$", re.MULTILINE)


def compacted_text(preamble: str, summary: str, asked: str = "", request: str = "") -> str:
    """The text that stands for turns: `preamble` and the summary, and behind them `asked` and the request, if any."""
    behind = f"\n\n{asked}\n\n{_REQUEST}{request}{_REQUEST_SHUT}" if request else ""
    return f"{preamble}\n\n{_OPEN}{summary}{_SHUT}{behind}"


def read_compacted(text: str) -> Compacted | None:
    """What `text` holds when it is made by `compacted_text`; None for what somebody said. Told by the ends of the text
    alone: looking costs the same for any text."""
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


class ToolSpec(Struct, frozen=True):
    """A tool as it is described to a model: `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


def text_of(content: str | Sequence[Any]) -> str:
    """Join the text blocks of `content` by line breaks; other blocks are left out."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def scrub(value: Any) -> Any:
    """`value` (JSON data) without halves of surrogate pairs, which no UTF-8 can hold: two that fit are joined, others
    become U+FFFD. A terminal, a server's JSON or a file name may bring them in."""
    if isinstance(value, str):
        return _SURROGATES.sub(_joined, value)
    if isinstance(value, list | tuple):
        return [scrub(item) for item in value]
    if isinstance(value, dict):
        return {scrub(name): scrub(item) for name, item in value.items()}
    return value


def _joined(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
