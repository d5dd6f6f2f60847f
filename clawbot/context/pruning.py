"""Which old tool results the model no longer sees in full once the provider's cache has expired (cache-ttl).

Reference sheet 10. Pure: the transcript keeps what the tools returned. It differs from the reference in this:

- What was pruned remains pruned the same way until the cache expires again, also after a restart. The reference shows
  the full results again at the next call, which throws the cache away that the pruning was to save.
- Every provider is eligible, since the mode is off unless the user asks for it.
- Shares of the window are of weighted tokens, and characters are counted as four for each of these, so that Chinese
  takes the room that it takes (`counting.py`).
- Nothing is replaced by something longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeGuard

import msgspec
from msgspec import Struct, structs

from clawbot.config.schema_agent import ContextPruningSettings, SoftTrimSettings
from clawbot.context.counting import Reuse, weigh_message
from clawbot.context.truncate import cut_after, cut_before
from clawbot.messages import AssistantMessage, ImageBlock, Message, TextBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import CustomEntry, Entry

MARKER = "openclaw.cache-ttl"
CHARS_PER_TOKEN = 4


class PruneState(Struct, frozen=True):
    """When the provider's cache was last used, in milliseconds since the epoch (None: never), and the ids of the
    entries whose results are shortened and replaced since it last expired."""

    touched_at: int | None = None
    trimmed: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()


UNTOUCHED = PruneState()


class _Marker(Struct, frozen=True, rename="camel"):
    """The state as a transcript has it. The first three are the reference's."""

    timestamp: int | None = None
    provider: str = ""
    model_id: str = ""
    trimmed: list[str] = []
    cleared: list[str] = []


class Pruner:
    """`prune` from call to call, with the same objects for what is the same."""

    def __init__(self, settings: ContextPruningSettings, state: PruneState = UNTOUCHED) -> None:
        self.settings = settings
        self.state = state
        self._reuse = Reuse()

    @property
    def pruned(self) -> int:
        """How many results the last view has shortened or replaced."""
        return len(self._reuse)

    def view(self, items: Sequence[ContextItem], *, now_ms: int, window: int) -> list[ContextItem]:
        """What the model sees of `items`; the state goes along."""
        view, self.state = prune(items, self.settings, self.state, now_ms=now_ms, window=window)
        return self._reuse.settle(items, view)

    def touch(self, now_ms: int) -> None:
        """Record that a request succeeded: the provider's cache is good for another while."""
        self.state = structs.replace(self.state, touched_at=now_ms)


def prune(
    items: Sequence[ContextItem], settings: ContextPruningSettings, state: PruneState, *, now_ms: int, window: int
) -> tuple[list[ContextItem], PruneState]:
    """What the model sees of `items`, which are complete, and the state from then on. `window` is in tokens.

    Until the cache has expired the results of `state` are pruned and no others; then they are chosen again.
    """
    if settings.mode == "off" or settings.ttl <= 0:
        return list(items), state
    if state.touched_at is not None and now_ms - state.touched_at >= settings.ttl * 1000:
        trimmed, cleared = _choose(items, settings, window)
        touched_at = now_ms if trimmed or cleared else state.touched_at
        state = PruneState(touched_at, trimmed, cleared)
    if not (state.trimmed or state.cleared):
        return list(items), state
    return [_view(item, settings, state) for item in items], state


def marker_of(state: PruneState, provider: str, model: str) -> CustomEntry:
    """Return the entry by which `state` outlives the program."""
    marker = _Marker(state.touched_at, provider, model, sorted(state.trimmed), sorted(state.cleared))
    return CustomEntry(custom_type=MARKER, data=msgspec.to_builtins(marker))


def state_from(entries: Sequence[Entry]) -> PruneState:
    """Return the state of the last entry that `marker_of` (or the reference) wrote; damaged ones are passed over."""
    for entry in reversed(entries):
        if isinstance(entry, CustomEntry) and entry.custom_type == MARKER:
            try:
                marker = msgspec.convert(entry.data, _Marker)
            except msgspec.ValidationError:
                continue
            return PruneState(marker.timestamp, frozenset(marker.trimmed), frozenset(marker.cleared))
    return UNTOUCHED


def _choose(
    items: Sequence[ContextItem], settings: ContextPruningSettings, window: int
) -> tuple[frozenset[str], frozenset[str]]:
    """The ids of the results to be shortened, and of those to be replaced: the oldest first, until there is room."""
    used = sum(weigh_message(item.message) for item in items)
    if used < settings.soft_trim_ratio * window:
        return frozenset(), frozenset()
    prunable = _prunable(items, settings)
    left = {entry_id: _trimmed(result, settings.soft_trim) or result for entry_id, result in prunable.items()}
    trimmed = frozenset(entry_id for entry_id, result in left.items() if result is not prunable[entry_id])
    used -= sum(weigh_message(prunable[entry_id]) - weigh_message(left[entry_id]) for entry_id in trimmed)
    cleared = _to_clear(left, settings, used - settings.hard_clear_ratio * window)
    return trimmed - cleared, cleared


def _to_clear(left: Mapping[str, ToolResultMessage], settings: ContextPruningSettings, over: float) -> frozenset[str]:
    """The oldest of the results `left`, until `over` tokens and one are saved; none while they are few in all."""
    weights = {entry_id: weigh_message(result) for entry_id, result in left.items()}
    few = sum(weights.values()) * CHARS_PER_TOKEN < settings.min_prunable_tool_chars
    if few or not settings.hard_clear.enabled:
        return frozenset()
    cleared = set[str]()
    for entry_id, result in left.items():
        if over < 0:
            break
        line = _shorter(result, settings.hard_clear.placeholder)
        if line is not None:
            cleared.add(entry_id)
            over -= weights[entry_id] - weigh_message(line)
    return frozenset(cleared)


def _prunable(items: Sequence[ContextItem], settings: ContextPruningSettings) -> dict[str, ToolResultMessage]:
    """The results that may be pruned, by the ids of their entries, oldest first: those between the first message of the
    user (what was read before is the agent's start) and the last answers, which are protected."""
    messages = [item.message for item in items]
    first = next((index for index, message in enumerate(messages) if isinstance(message, UserMessage)), len(items))
    answers = [index for index, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    keep = settings.keep_last_assistants
    if keep > len(answers):
        return {}
    end = answers[-keep] if keep else len(items)
    return {
        item.entry_id: item.message
        for item in items[first:end]
        if item.entry_id and _is_plain_result(item.message) and _is_named(item.message.tool_name, settings)
    }


def _is_named(tool: str, settings: ContextPruningSettings) -> bool:
    allow, deny = settings.tools.allow, settings.tools.deny
    return (not allow or _matches(tool, allow)) and not _matches(tool, deny)


def _matches(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool.lower(), pattern.strip().lower()) for pattern in patterns)


def _view(item: ContextItem, settings: ContextPruningSettings, state: PruneState) -> ContextItem:
    message = item.message
    if not _is_plain_result(message):
        return item
    if item.entry_id in state.cleared:
        pruned = _shorter(message, settings.hard_clear.placeholder)
    elif item.entry_id in state.trimmed:
        pruned = _trimmed(message, settings.soft_trim)
    else:
        return item
    return item if pruned is None else ContextItem(item.entry_id, pruned)


def _is_plain_result(message: Message) -> TypeGuard[ToolResultMessage]:
    """Return whether `message` is a result without pictures, which are never pruned."""
    return isinstance(message, ToolResultMessage) and not any(
        isinstance(block, ImageBlock) for block in message.content
    )


def _trimmed(result: ToolResultMessage, settings: SoftTrimSettings) -> ToolResultMessage | None:
    """Return the beginning and the end of `result`; None when it is short enough, or this would be no shorter."""
    text = result.text
    if len(text) <= settings.max_chars:
        return None
    head = text[: cut_before(text, settings.head_chars)]
    tail = text[cut_after(text, len(text) - settings.tail_chars) :]
    note = f"[Tool result trimmed: kept the first {len(head)} and the last {len(tail)} of {len(text)} characters.]"
    return _shorter(result, f"{head}\n...\n{tail}\n\n{note}")


def _shorter(result: ToolResultMessage, text: str) -> ToolResultMessage | None:
    """Return `result` with `text`; None when that is no shorter."""
    return structs.replace(result, content=[TextBlock(text)]) if len(text) < len(result.text) else None
