"""Hands out the same object for what stands in an item's place from call to call, so that it is counted once."""

from __future__ import annotations

from collections.abc import Sequence

from clawbot.messages import ToolResultMessage
from clawbot.sessions.conversation import ContextItem


class Reuse:
    """Knows the items that stood in for others in the last view, and no more than these."""

    def __init__(self) -> None:
        self._stand_ins: dict[tuple[str, str], ContextItem] = {}

    def __len__(self) -> int:
        """How many items of the last view were stand-ins."""
        return len(self._stand_ins)

    def settle(self, items: Sequence[ContextItem], view: Sequence[ContextItem]) -> list[ContextItem]:
        """`view`, of as many items as `items`, with the objects of the last view where they are equal."""
        before, self._stand_ins = self._stand_ins, {}
        return [shown if shown is item else self._known(before, shown) for item, shown in zip(items, view, strict=True)]

    def _known(self, before: dict[tuple[str, str], ContextItem], item: ContextItem) -> ContextItem:
        call = item.message.tool_call_id if isinstance(item.message, ToolResultMessage) else ""
        key = (item.entry_id, call)
        known = before.get(key)
        self._stand_ins[key] = known if known == item else item
        return self._stand_ins[key]
