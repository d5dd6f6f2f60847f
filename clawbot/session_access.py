"""The conversations and the workspace of an open session, as front ends use them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clawbot.agent.agent import Agent
from clawbot.agent.events import SessionChanged
from clawbot.agent.notes import locate_note
from clawbot.authors import Author, recording
from clawbot.history import History
from clawbot.history.blame import LineAuthor, blame
from clawbot.llm.tokens import count_tokens
from clawbot.memory.values import TRANSCRIPTS
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.summary import SessionSummary, given_title
from clawbot.sessions.text import Spoken, spoken_around
from clawbot.sessions.transcript import Transcript
from clawbot.tools.workspace_files import list_workspace_files, read_workspace_file, write_workspace_file


class Sessions:
    """See SessionsApi."""

    def __init__(self, agent: Agent, history: History) -> None:
        self._agent = agent
        self._store = agent.deps.store
        self._history = history

    async def all(self) -> list[SessionSummary]:
        return list(await asyncio.to_thread(self._store.list))

    async def history(self, *, before: str | None = None, limit: int = 50) -> list[HistoryItem]:
        return await asyncio.to_thread(self._agent.conversation.session.transcript.history, before, limit)

    async def preview(self, name: str, limit: int = 20) -> list[HistoryItem]:
        return await asyncio.to_thread(self._preview, name, limit)

    def _preview(self, name: str, limit: int) -> list[HistoryItem]:
        path = self._store.path_of(self._store.find(name))
        with Transcript.open(path, clock=self._agent.deps.clock, writable=False) as transcript:
            return transcript.history(limit=limit)

    async def around(self, path: str, entry: str, count: int = 12) -> list[Spoken]:
        file = self._store.folder / path.removeprefix(TRANSCRIPTS)
        return await asyncio.to_thread(spoken_around, file, entry, count)

    async def author(self, path: str, line: int) -> LineAuthor | None:
        lines = await asyncio.to_thread(blame, self._agent.deps.workspace, path, self._store, self._history)
        return lines[line - 1].author if 0 < line <= len(lines) else None

    async def resume(self, name: str) -> SessionChanged:
        agent = self._agent
        async with agent.exclusive():
            record = await asyncio.to_thread(self._store.find, name)
            if record.session_id == agent.conversation.session_id:
                return SessionChanged(session_key=agent.conversation.key, session_id=record.session_id, reason="resume")
            async with agent.ended.without(record.session_id):
                session = await asyncio.to_thread(self._store.open, record.key)
            changed = await agent.switch(session)
            agent.conversation.session.record = await asyncio.to_thread(self._store.resumed, session.record)
            return changed

    async def rename(self, name: str, title: str) -> None:
        agent = self._agent
        async with agent.exclusive():
            record = await asyncio.to_thread(self._store.find, name)
            if record.session_id == agent.conversation.session_id:
                await agent.conversation.rename(title)
                return
            async with agent.ended.without(record.session_id):
                await asyncio.to_thread(self._store.rename, record.key, given_title(title))

    async def fork(self, name: str) -> str:
        agent = self._agent
        record = await asyncio.to_thread(self._store.find, name)
        if record.session_id == agent.conversation.session_id:
            changed, _ = await agent.fork()
            return changed.session_id
        forked = await asyncio.to_thread(self._store.fork, record.session_id)
        return forked.record.session_id

    async def delete(self, name: str) -> str:
        record = await asyncio.to_thread(self._store.find, name)
        async with self._agent.ended.without(record.session_id):
            await asyncio.to_thread(self._store.delete, record.key)
        return record.session_id

    async def restore(self, session_id: str) -> None:
        await asyncio.to_thread(self._store.restore, session_id)

    async def export(self, form: str, path: Path | None, *, session: str | None = None) -> Path:
        return await self._agent.export(form, path, session=session)


class Workspace:
    """See WorkspaceApi."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._folder = agent.deps.workspace

    async def files(self) -> list[str]:
        return await asyncio.to_thread(list_workspace_files, self._folder)

    async def read(self, name: str) -> str:
        return await asyncio.to_thread(read_workspace_file, self._folder, name)

    async def write(self, name: str, text: str, known: str | None = None) -> None:
        conversation = self._agent.conversation
        author = Author("user", conversation.session_id, conversation.session.record.key)
        with recording(self._agent.deps.memory.recorder, author):
            await asyncio.to_thread(write_workspace_file, self._folder, name, text, known)

    async def locate_note(self, path: str) -> str:
        record = self._agent.conversation.session.record
        since = (record.session_started_at or 0) / 1000
        return await asyncio.to_thread(locate_note, self._folder, path, record.session_id, since)

    async def count_tokens(self, text: str) -> int:
        return await count_tokens(text)
