"""What a provider has read of a conversation already: how much of the last prompt came from its cache, and what changed
the beginning of a request last, so that all behind it was read again. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from clawbot.context.bootstrap import Bootstrap
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import Message, ToolResultMessage, Usage

NEW_SESSION = "a new session"
OTHER_MODEL = "another model"
NEW_DAY = "a new day"
EDITED = "an edit of {names}"
OTHER_PROMPT = "another system prompt"
OTHER_TOOLS = "other tools"
COMPACTION = "a compaction"
SHORTENED = "old tool results were shortened"
TAKEN_OUT = "something was taken out of the conversation"


class SentRequest(Struct, frozen=True):
    """A request that was answered, and what it was made of: the `model` it went to, the `session` and the `compactions`
    in it, the workspace files and the `day` in the prompt."""

    request: ChatRequest
    model: str
    session: str
    compactions: int
    files: Bootstrap
    day: str


class CacheUse(Struct, frozen=True, rename="camel"):
    """`cached` of the `prompt` tokens of the last answer came from the provider's cache. `broken_by` is what changed
    the beginning of a request last ("" for nothing since the program began), `broken_at` when, as ISO 8601."""

    prompt: int = 0
    cached: int = 0
    broken_by: str = ""
    broken_at: str = ""


class CacheWatch:
    """Follows the answered requests of one conversation. `use` is None as long as no provider reported anything."""

    def __init__(self) -> None:
        self.use: CacheUse | None = None
        self._last: SentRequest | None = None
        self._broken = ("", "")

    def answered(self, sent: SentRequest, usage: Usage | None, at: str) -> None:
        """`sent` was answered at the time `at` (ISO 8601), with the figures `usage`."""
        if self._last is not None and (cause := breaks(self._last, sent)):
            self._broken = (cause, at)
        self._last = sent
        if usage is not None and usage.prompt_tokens:
            self.use = CacheUse(usage.prompt_tokens, usage.cache_read, *self._broken)


def breaks(before: SentRequest, now: SentRequest) -> str:
    """What keeps `now` from beginning with all of `before`, as a few words for the user; "" when nothing does."""
    if before.model != now.model:
        return OTHER_MODEL
    if before.request.system != now.request.system or before.request.zone != now.request.zone:
        return _of_prompt(before, now)
    if before.request.tools != now.request.tools:
        return OTHER_TOOLS
    if before.session != now.session:
        return NEW_SESSION
    return _of_messages(before, now)


def _of_prompt(before: SentRequest, now: SentRequest) -> str:
    old, new = ({file.name: file.text for file in sent.files.files} for sent in (before, now))
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if names:
        return EDITED.format(names=", ".join(names))
    return NEW_DAY if before.day != now.day else OTHER_PROMPT


def _of_messages(before: SentRequest, now: SentRequest) -> str:
    old, new = before.request.messages, now.request.messages
    at = _first_difference(old, new)
    if at is None:
        return ""
    if before.compactions != now.compactions:
        return COMPACTION
    both = at < len(new) and isinstance(old[at], ToolResultMessage) and isinstance(new[at], ToolResultMessage)
    return SHORTENED if both else TAKEN_OUT


def _first_difference(old: Sequence[Message], new: Sequence[Message]) -> int | None:
    """Return the index of the first message of `old` that `new` has another one for, or none; None when it has all."""
    if new[: len(old)] == old:
        return None
    for at, message in enumerate(old):
        if at >= len(new) or (new[at] is not message and new[at] != message):
            return at
    return None
