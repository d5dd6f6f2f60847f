"""Standing intents in a session: those that a message states go into `memory/intents.md`, the one that a message brings
up is shown and quoted to the model, and "done" ends it (`clawbot/context/intents.py` has the rules)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import date

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Emit, NotesQuoted, Notice, Scope, warning
from clawbot.clock import moment_of
from clawbot.context.intents import (
    INTENTS,
    MAX_BYTES,
    Intent,
    brought_up,
    intents_in,
    is_done_word,
    quoted_in,
    stated_in,
    with_done,
)
from clawbot.context.privacy import privacy_of
from clawbot.errors import ClawbotError
from clawbot.guarded import GuardedFolder
from clawbot.messages import is_typed, text_of
from clawbot.sessions.entries import CustomMessageEntry
from clawbot.text.interface import N_, _
from clawbot.tools.append_only import AppendOnlyFile
from clawbot.tools.folder import WorkspaceFolder

NOTHING_OPEN = N_("No intent of memory/intents.md was shown in this conversation and is still open.")


class StandingIntents:
    """The intents of the agent in one conversation. Only where notes may be read, and for what the user types."""

    def __init__(self, deps: AgentDeps, conversation: Conversation) -> None:
        self._deps = deps
        self._conversation = conversation
        self._folder = GuardedFolder(deps.workspace)
        self._version: tuple[int, ...] = ()
        self._intents: Sequence[Intent] = ()
        self._problem = ""

    async def consider(self, text: str, scope: Scope) -> None:
        """Before a message `text`: write the intent that it states, end the one before it, or quote the first one that
        it brings up and that was not shown here today. What fails is reported. Raises SessionStoreError."""
        if scope.origin != "user" or not privacy_of(self._conversation.session.record.key).notes:
            return
        if stated := stated_in(text):
            await self._write(stated, scope.emit)
        elif is_done_word(text) and (shown := self._shown_before()):
            await self._end(shown, scope.emit)
        elif known := await self._known(scope.emit):
            today = self._deps.clock.now().date()
            seen = {quoted for quoted, day in self._shown() if day == today}
            intent = next((each for each in brought_up(text, known) if each.shown not in seen), None)
            if intent is not None:
                entry_id = await self._conversation.quote(intent.quote, (INTENTS,))
                scope.emit(NotesQuoted(entry_id=entry_id, files=(INTENTS,), text=intent.quote))

    async def done(self) -> str:
        """End the intent that was shown last in this conversation and is open; returns the answer to the user. Raises
        ClawbotError."""
        await asyncio.to_thread(self._read)
        known = {each.shown for each in self._intents}
        last = next((quoted for quoted, _day in self._shown() if quoted in known), "")
        if not last:
            raise ClawbotError(_(NOTHING_OPEN))
        await asyncio.to_thread(self._mark, last)
        return _("Done: {intent}").format(intent=last)

    def _shown(self) -> Iterator[tuple[str, date]]:
        """Yield the intents that this conversation has shown, each with its day, the last one first."""
        zone = self._deps.clock.now().tzinfo
        for entry in reversed(self._conversation.session.transcript.entries):
            if isinstance(entry, CustomMessageEntry) and (quoted := quoted_in(text_of(entry.content))):
                yield quoted, moment_of(entry.moment, zone).date()

    def _shown_before(self) -> str:
        """Return the intent that was shown with the last message of the user; "" if there was none."""
        messages = self._conversation.messages
        last = next((at for at in reversed(range(len(messages))) if is_typed(messages[at])), 0)
        return quoted_in(messages[last - 1].text) if last else ""

    async def _write(self, stated: Intent, emit: Emit) -> None:
        try:
            known = {each.text for each in await self._known(emit)}
            if self._problem:
                raise ClawbotError(self._problem)
            file = AppendOnlyFile(WorkspaceFolder(self._deps.workspace), INTENTS, lambda _write: None)
            if stated.text not in known:
                await asyncio.to_thread(file.add, "", f"- {stated.text}", complete=False)
        except ClawbotError as error:
            emit(warning(_("The intent was not written: {error}").format(error=error)))
            return
        line = file.writes[0].line if file.writes else None
        emit(Notice(level="info", text=f"{INTENTS}: {stated.shown}", path=INTENTS, line=line))

    async def _end(self, shown: str, emit: Emit) -> None:
        try:
            line = await asyncio.to_thread(self._mark, shown)
        except ClawbotError as error:
            emit(warning(str(error)))
        else:
            emit(Notice(level="info", text=_("Done: {intent}").format(intent=shown), path=INTENTS, line=line))

    async def _known(self, emit: Emit) -> Sequence[Intent]:
        """Return the open intents. A file that can't be read is reported once."""
        problem = await asyncio.to_thread(self._read)
        if problem and problem != self._problem:
            emit(warning(problem))
        self._problem = problem
        return self._intents

    def _read(self) -> str:
        """Read the intents if the file has changed; returns why it can't be read. Blocks."""
        try:
            state = self._folder.state(INTENTS)
            version = (state.st_mtime_ns, state.st_size, state.st_ino) if state else ()
            if version != self._version:
                self._intents = intents_in(self._text()) if state else ()
                self._version = version
        except OSError as error:
            self._intents, self._version = (), ()
            return _("{file} is not read: {error}").format(file=INTENTS, error=error.strerror or error)
        return ""

    def _text(self) -> str:
        # Any byte is written again as it was.
        return self._folder.read(INTENTS, MAX_BYTES, linked=False).decode(errors="surrogateescape")

    def _mark(self, shown: str) -> int:
        """Mark an open intent as done; returns its line. Blocks. Raises ClawbotError."""
        try:
            text = self._text()
            found = next((each for each in intents_in(text) if each.shown == shown), None)
            if found is None:
                raise ClawbotError(_(NOTHING_OPEN))
            after = with_done(text, found.line, self._deps.clock.now().date())
            before, data = (each.encode(errors="surrogateescape") for each in (text, after))
            self._folder.replace_known(INTENTS, before, data)
        except OSError as error:
            problem = _("{file} was not changed: {error}").format(file=INTENTS, error=error.strerror or error)
            raise ClawbotError(problem) from error
        return found.line
