"""What nobody waits for: the title of a session; the beginning of the next request, which a model of this machine reads
while the user types; and the work of commands for the schedule. A turn and the end of the program stop it.

For a title, the model that answers is asked once, after the first exchange that is about something. What fails or is no
title is tried again after a later turn, a few times; until then the first words of the session are its title.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing

from msgspec import structs

from clawbot.agent.command_hosts import AgentHost
from clawbot.agent.commands import Command, installed_commands
from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Emit, Notice, Origin, PromptRead, Scope, SessionTitled
from clawbot.agent.preparation import wait_ready
from clawbot.agent.request_builder import RequestBuilder
from clawbot.agent.turn import progress_of
from clawbot.deadline import Cancellation, InterruptedTurnError, deadline
from clawbot.errors import ClawbotError
from clawbot.llm.protocol import ChatRequest, LoadingPart, ReadingPart, ask
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.sessions.store import OpenSession
from clawbot.sessions.text import UserWords
from clawbot.text.naming import TITLE_QUESTION, title_in
from clawbot.text.topics import topics

log = logging.getLogger(__name__)
Exclusive = Callable[[], AbstractAsyncContextManager[object]]


MAX_TRIES = 3
MAX_TURNS = 12  # of a longer session the question would cost more than a title is worth
SECONDS = 60.0
ROOM = 0.75  # of the window that the conversation may take


def title_question(requests: RequestBuilder, conversation: Conversation) -> ChatRequest | None:
    """The request that asks for a title behind all messages so far, so that a server which holds one prompt goes
    on with that; None while the last word is not the model's, and where there is little room."""
    last = requests.current
    answer = conversation.items[-1].message if conversation.items else None
    if requests.built is None or last is None or not isinstance(answer, AssistantMessage) or answer.broken:
        return None
    if not answer.text.strip() or last.measure.used > last.budget.window * ROOM:
        return None
    messages = [*last.view.messages, UserMessage(TITLE_QUESTION)]
    return structs.replace(requests.request_of(messages), purpose="title")


class Titles:
    """The title of the open session. `words` reads the user's messages in it; `exclusive` keeps turns away while the
    title is stored; `notify` reports it. All calls belong on the event loop."""

    def __init__(
        self,
        deps: AgentDeps,
        conversation: Conversation,
        requests: RequestBuilder,
        words: UserWords,
        *,
        exclusive: Exclusive,
        notify: Emit,
    ) -> None:
        self._deps = deps
        self._conversation = conversation
        self._requests = requests
        self._words = words
        self._exclusive = exclusive
        self._notify = notify
        self._task: asyncio.Task[None] | None = None
        self._cancel = Cancellation()
        self._tries: tuple[str, int] = ("", 0)

    def after_turn(self) -> None:
        """A turn has ended: ask for a title if the session has none, and may be asked for one."""
        session, record = self._conversation.session, self._conversation.session.record
        is_short = record.turns is not None and record.turns <= MAX_TURNS
        running = self._task is not None and not self._task.done()
        if not self._deps.front.titles or record.name or running or not is_short or self._tried() >= MAX_TRIES:
            return
        request = title_question(self._requests, self._conversation)
        if request is not None:
            self._cancel = Cancellation()
            self._task = asyncio.create_task(self._run(session, request, self._cancel), name="title of the session")

    def _tried(self) -> int:
        session_id, count = self._tries
        return count if session_id == self._conversation.session_id else 0

    def stop(self) -> None:
        """Something that must not wait comes: leave the question."""
        self._cancel.request()

    async def settled(self) -> None:
        """Wait until nothing is asked or stored."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Stop, and wait until nothing is being stored any more."""
        self.stop()
        await self.settled()

    async def _run(self, session: OpenSession, request: ChatRequest, cancel: Cancellation) -> None:
        try:
            asked = await asyncio.to_thread(self._words.read, session.transcript)
            texts = [text.text for text in asked.texts]
            if not topics(texts):
                return
            title = title_in(await self._answer(session, request, cancel), " ".join(texts), asked.secrets)
            if title:
                await self._store(session, title)
        except InterruptedTurnError:
            log.debug("the question for a title was stopped")
        except (ClawbotError, TimeoutError) as error:
            log.info("the session has no title yet: %s", str(error) or "the model did not answer in time")
        except Exception:
            # One that was closed by now can't be read.
            if self._conversation.session is session:
                log.exception("the session could not be given a title")

    async def _answer(self, session: OpenSession, request: ChatRequest, cancel: Cancellation) -> str:
        """Return the text of the model. Raises ModelError, TimeoutError, InterruptedTurnError."""
        self._tries = (session.record.session_id, self._tried() + 1)
        async with deadline(SECONDS):
            answer = await ask(self._deps.model.chat, request, cancel)
        if (usage := answer.usage) is not None and self._conversation.session is session:
            cost = usage.cost.total if usage.cost is not None else None
            self._conversation.add_spent(usage.prompt_tokens, usage.output, cost)
        return "" if answer.tool_calls else answer.text

    async def _store(self, session: OpenSession, title: str) -> None:
        """Raises SessionStoreError."""
        async with self._exclusive():
            # The user may have named it since, or begun another one.
            if self._conversation.session is not session or session.record.name:
                return
            await self._conversation.take_title(title, self._deps.model.chat.info.ref)
        self._notify(SessionTitled(session_id=session.record.session_id, title=title))


class ReadAhead:
    """Sends a request whose answer is dropped, so that the server has the prompt in its cache. `exclusive` keeps turns
    away while it is built."""

    def __init__(self, deps: AgentDeps, requests: RequestBuilder, exclusive: Exclusive) -> None:
        self._deps = deps
        self._requests = requests
        self._exclusive = exclusive
        self._cancel = Cancellation()

    def stop(self) -> None:
        """Close the connection: something that must not wait needs the model."""
        self._cancel.request()

    async def run(self, show: Emit) -> None:
        """Read, unless the model is not of this machine. `show` gets ModelLoading and PromptRead. Failures are only
        logged: the next message reports them."""
        if not self._deps.model.chat.info.local:
            return
        self.stop()
        cancel = self._cancel = Cancellation()
        try:
            changed = await wait_ready(self._deps, Scope(show, cancel))
            async with self._exclusive():
                if changed:
                    self._requests.forget_figures()
                    await self._requests.weigh()
                request = await self._requests.ahead()
            show(PromptRead())
            async with aclosing(self._deps.model.chat.stream(request)) as parts:
                while (part := await cancel.run(functools.partial(anext, parts, None))) is not None:
                    if isinstance(part, LoadingPart | ReadingPart):
                        show(progress_of(part))
        except Exception:
            log.info("the prompt was not read ahead", exc_info=True)


class IdleWork:
    """What commands do for the schedule in the session of `host`, and report when one begins there."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._clock = host.deps.clock
        self._used_at = self._clock.monotonic()
        self._cancel = Cancellation()
        self._reminded = ""  # the session that began last

    def touch(self) -> None:
        """See AgentApi."""
        self._used_at = self._clock.monotonic()

    @property
    def quiet(self) -> float:
        """The seconds since the user last did something."""
        return self._clock.monotonic() - self._used_at

    def stop(self, origin: Origin = "user") -> None:
        """Leave what is being done when the user sends something, rather than the schedule."""
        if origin == "user":
            self.touch()
            self._cancel.request()

    async def run(self, name: str) -> str:
        """Do what the command `name` does for the schedule; returns a line for the user, "" for none. Raises
        InterruptedTurnError when it is stopped, ClawbotError if it does nothing, and what the command raises."""
        found = (await asyncio.to_thread(installed_commands)).commands.get(name)
        if found is None or found.scheduled is None:
            raise ClawbotError(f"No installed package has the command /{name} for the schedule.")
        cancel = self._cancel = Cancellation()
        return await cancel.run(functools.partial(found.scheduled, self._host))

    async def remind(self) -> None:
        """Show what commands have to report when a session begins, once for each, if a user is there."""
        session = self._host.conversation.session_id
        if session != self._reminded and self._host.deps.front.approvals:
            self._reminded = session
            for command in (await asyncio.to_thread(installed_commands)).commands.values():
                await self._remind_of(command)

    async def _remind_of(self, command: Command) -> None:
        """Show what `command` has to report. What fails is logged: nobody asked for it."""
        try:
            text = await command.remind(self._host) if command.remind is not None else ""
        except Exception:
            log.exception("what %s has to report is not known", command.info.name)
        else:
            if text:
                self._host.notify(Notice(level="info", text=text))
