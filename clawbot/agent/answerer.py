"""Which model answers in a conversation: the one of the start, the user's choice, or that of the session."""

from __future__ import annotations

import logging
from collections.abc import Callable

from clawbot.agent.events import Notice
from clawbot.agent.parts import AgentParts
from clawbot.errors import ClawbotError
from clawbot.llm.protocol import ChatModel

log = logging.getLogger(__name__)


class Answerer:
    """The `model` that answers, which was opened by the reference `ref`. `changed` is called when another one does."""

    def __init__(self, parts: AgentParts, model: ChatModel, ref: str, changed: Callable[[], None]) -> None:
        self._parts = parts
        self._changed = changed
        self.model = model
        self.ref = ref

    async def open_for_session(self, ref: str, tell: Callable[[Notice], None]) -> ChatModel | None:
        """The model `ref` for a session that is entered; None when it answers already, or can't be opened, which
        `tell` is told."""
        if ref == self.ref:
            return None
        try:
            return await self._parts.open_model(ref)
        except ClawbotError as error:
            log.warning("the model of the session can't be opened: %s", error)
            text = f"{ref} can't be used ({error}), so {self.model.info.ref} answers."
            tell(Notice(level="warning", text=text))
            return None

    async def take(self, model: ChatModel, ref: str) -> None:
        """Let `model` answer from now on, and close the one before."""
        old, self.model, self.ref = self.model, model, ref
        self._changed()
        await old.aclose()
