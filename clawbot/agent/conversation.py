"""The session that is being talked in: its transcript on disk and its messages in memory, kept in step."""

from __future__ import annotations

import asyncio

from msgspec import structs

from clawbot.agent.events import Notice, SessionChanged
from clawbot.clock import Clock, epoch_ms
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import AssistantMessage, Message, UserMessage
from clawbot.sessions.entries import ModelChangeEntry
from clawbot.sessions.names import short_name
from clawbot.sessions.store import OpenSession, SessionStore


class Conversation:
    """One open session. All disk work happens in threads, in the order of the calls.

    A reply that could not be written (a full disk) stays in memory and is written before the next message, so that
    nothing the user saw is lost while the program runs.
    """

    def __init__(self, store: SessionStore, session: OpenSession, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._unsaved: list[Message] = []
        self._enter(session)

    def _enter(self, session: OpenSession) -> None:
        self.session = session
        self.messages: list[Message] = [item.message for item in session.transcript.context()]

    @property
    def key(self) -> str:
        """The session key as the user types it."""
        return short_name(self.session.record.key)

    @property
    def session_id(self) -> str:
        """The id of the session, and the name of its transcript."""
        return self.session.record.session_id

    @property
    def cost(self) -> float | None:
        """What the session cost so far, in US dollars; None while no call had a price."""
        return self.session.record.cost

    async def add_user(self, message: UserMessage) -> str:
        """Store what the user said and return the entry's id: it is on disk then.

        Raises SessionStoreError; the message is neither on disk nor in the context then.
        """
        await self._save_rest()
        entry = await asyncio.to_thread(self.session.transcript.append_message, message, sync=True)
        self.messages.append(entry.message)
        record = self.session.record
        # Where nobody counted the turns before (a transcript from elsewhere), one more is no count either.
        before = 0 if record.turns is None and len(self.messages) == 1 else record.turns
        turns = None if before is None else before + 1
        self.session.record = structs.replace(record, turns=turns, last_interaction_at=epoch_ms(self._clock.now()))
        return entry.id

    async def add(self, message: Message) -> str:
        """Store what the model or a tool said and return the entry's id.

        Raises SessionStoreError; the message is in the context then, and is written before the next one.
        """
        self.messages.append(message)
        self._unsaved.append(message)
        if isinstance(message, AssistantMessage):
            self._count(message)
        return await self._save_rest()

    def _count(self, message: AssistantMessage) -> None:
        usage = message.usage
        if usage is None:
            return
        record = self.session.record
        spent = record.cost if usage.cost is None else (record.cost or 0.0) + usage.cost.total
        self.session.record = structs.replace(
            record,
            input_tokens=(record.input_tokens or 0) + usage.prompt_tokens,
            output_tokens=(record.output_tokens or 0) + usage.output,
            total_tokens=usage.prompt_tokens,
            total_tokens_fresh=True,
            cost=spent,
        )

    async def _save_rest(self) -> str:
        """Write what is not on disk yet, always the tail of the context; the id of the last entry."""
        entry_id = ""
        while self._unsaved:
            message = self._unsaved[0]
            last_word = isinstance(message, AssistantMessage) and not message.tool_calls
            entry = await asyncio.to_thread(self.session.transcript.append_message, message, sync=last_word)
            # As it was stored (a long result is capped), so that a restart changes nothing for the model.
            self.messages[-len(self._unsaved)] = entry.message
            del self._unsaved[0]
            entry_id = entry.id
        return entry_id

    async def settle(self, window: int) -> None:
        """Bring the session's line in the index up to date after a turn; `window` is the model's, in tokens."""
        record = structs.replace(self.session.record, context_tokens=window)
        self.session.record = await asyncio.to_thread(self._store.update, record)

    async def choose_model(self, ref: str, info: ModelInfo) -> None:
        """Remember the user's choice of a model, for this session and those that follow it under its key."""
        provider, slash, name = info.ref.partition("/")
        entry = (
            ModelChangeEntry(provider=provider, model_id=name)
            if slash
            else ModelChangeEntry(provider="", model_id=provider)
        )
        await asyncio.to_thread(self.session.transcript.append, entry)
        record = structs.replace(self.session.record, model_override=ref)
        self.session.record = await asyncio.to_thread(self._store.update, record)

    async def rotate(self, reason: str) -> SessionChanged:
        """Go on in a fresh session under the same key; the old transcript stays where it is."""
        await self._save_rest()
        await asyncio.to_thread(self._store.update, self.session.record)
        self._enter(await asyncio.to_thread(self._store.rotate, self.session, reason))
        return SessionChanged(session_key=self.key, session_id=self.session_id, reason=reason)

    async def switch(self, session: OpenSession) -> SessionChanged:
        """Go on in another session that was opened already."""
        await self._save_rest()
        old = self.session
        self._enter(session)
        await asyncio.to_thread(old.close)
        return SessionChanged(session_key=self.key, session_id=self.session_id, reason="resume")

    async def close(self) -> None:
        """Write what is left and let go of the session. Raises SessionStoreError when it can't be written."""
        try:
            await self._save_rest()
        finally:
            await asyncio.to_thread(self.session.close)


def notices_of(session: OpenSession) -> list[Notice]:
    """What was survived while `session` was opened, for the user."""
    return [Notice(level="warning", text=str(problem)) for problem in session.notices]
