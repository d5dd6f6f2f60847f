"""The parts of an open runtime besides its agent: memory, sessions, workspace files, schedule. `clawbot.api` documents
what each method does and raises."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from clawbot import extras
from clawbot.agent.agent import Agent
from clawbot.agent.events import SessionChanged
from clawbot.agent.notes import locate_note
from clawbot.background import run_here
from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.llm.tokens import count_tokens
from clawbot.local_model.gguf import shown_size
from clawbot.local_model.keeper import EXTRA, LocalModelError, demand_installed
from clawbot.local_model.machine import total_memory
from clawbot.local_model.pull import pull, source_for
from clawbot.local_model.register import read_running
from clawbot.local_model.shelf import LocalOffer, Shelf
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import EVERY_SOURCE, TRANSCRIPTS, Progress, SearchRequest, SearchResult, Source
from clawbot.scheduling.jobs import Job
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.summary import SessionSummary, given_title
from clawbot.sessions.text import Spoken, spoken_around
from clawbot.sessions.transcript import Transcript
from clawbot.text.encoding import decoded, encoded_like, encoding_of
from clawbot.text.interface import _
from clawbot.tools.folder import WorkspaceFolder, WorkspacePath
from clawbot.tools.listing import walk
from clawbot.tools.protocol import ToolError

# Maximum length of a result on the search screen.
_RANGE_CHARS = 700


class Memory:
    """See MemoryApi. `index` is None when memory search is off: searches raise, and notes are read from disk."""

    def __init__(self, index: MemoryBackend | None, workspace: Path) -> None:
        self.index = index
        self.progress: Progress | None = None
        self.on_progress: Callable[[], None] | None = None
        self._workspace = workspace

    @property
    def generation(self) -> int:
        return self.index.generation if self.index is not None else 0

    def progressed(self, progress: Progress | None) -> None:
        """Store the progress of the index (None: idle) and notify the screen."""
        self.progress = progress
        if self.on_progress is not None:
            self.on_progress()

    async def search(self, query: str, limit: int = 30, sources: Sequence[Source] = EVERY_SOURCE) -> SearchResult:
        if self.index is None:
            raise ClawbotError(_("The memory index is off."), hint=_("Set memory_search.enabled in the settings."))
        request = SearchRequest(
            queries=(query,),
            max_results=limit,
            max_chars=limit * _RANGE_CHARS,
            sources=tuple(sources),
            prefix=True,
        )
        return await self.index.search(request)

    async def text(self, path: str) -> str:
        if self.index is None:
            return await asyncio.to_thread(read_workspace_file, self._workspace, path)
        return await self.index.text(path)


class Sessions:
    """See SessionsApi."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._store = agent.deps.store

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
        await asyncio.to_thread(write_workspace_file, self._folder, name, text, known)

    async def locate_note(self, path: str) -> str:
        record = self._agent.conversation.session.record
        since = (record.session_started_at or 0) / 1000
        return await asyncio.to_thread(locate_note, self._folder, path, record.session_id, since)

    async def count_tokens(self, text: str) -> int:
        return await count_tokens(text)


class LocalModels:
    """See LocalModelsApi."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._shelf = Shelf(paths.models)

    @property
    def problem(self) -> str:
        try:
            demand_installed()
        except LocalModelError as error:
            return str(error)
        return ""

    @property
    def memory(self) -> str:
        return shown_size(total_memory())

    async def install(self, progress: Callable[[str], None]) -> None:
        await extras.install(EXTRA, progress)

    async def offers(self) -> list[LocalOffer]:
        return await asyncio.to_thread(self._offers)

    def _offers(self) -> list[LocalOffer]:
        here = self._shelf.files()
        served = [running.name for running in read_running(self._paths.local_file) if running.name not in here]
        return [*(LocalOffer(name, True, _("is served here")) for name in served), *self._shelf.offers(total_memory())]

    async def pull(self, name: str, watch: Callable[[int, int | None], None]) -> None:
        if any(each.here and each.name == name for each in await self.offers()):
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        left = threading.Event()

        def seen(there: int, size: int | None) -> None:
            if left.is_set():
                raise ClawbotError(_("The download was stopped."))
            loop.call_soon_threadsafe(watch, there, size)

        def settle(error: ClawbotError | OSError | None) -> None:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

        def work() -> None:
            # The program may end while a server says nothing: then the loop is gone.
            with contextlib.suppress(RuntimeError):
                try:
                    pull(source_for(name, self._shelf), self._shelf, seen)
                except (ClawbotError, OSError) as error:
                    loop.call_soon_threadsafe(settle, error)
                else:
                    loop.call_soon_threadsafe(settle, None)

        # Not of the pool, whose threads the end of the program waits for.
        threading.Thread(target=work, name="pull-model", daemon=True).start()
        try:
            await done
        finally:
            left.set()


class Jobs:
    """See ScheduleApi."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def run(self, job: Job) -> str:
        return await run_here(self._agent, job)


LARGEST = 2 * 1024**2  # bytes: the most that the terminal editor handles well
MOST_FILES = 2000
TEXT_SUFFIXES = {".md", ".txt", ".yaml", ".yml", ".json", ".toml", ".py", ".sh", ".csv", ".ini", ".cfg", ""}


def list_workspace_files(workspace: Path) -> list[str]:
    """The text files below `workspace` as relative paths, top level first, without hidden files. Blocks."""
    with WorkspaceFolder(workspace).folder(()) as top:
        found = [
            entry.path
            for entry in walk(top)
            if not entry.is_folder
            and Path(entry.name).suffix in TEXT_SUFFIXES
            and not any(part.startswith(".") for part in entry.path.split("/"))
        ]
    return sorted(found, key=lambda path: (path.count("/"), path))[:MOST_FILES]


def read_workspace_file(workspace: Path, name: str) -> str:
    """The text of `name`; empty if there is no such file. Blocks.

    Raises ToolError for a path outside the workspace, a file that is too large, and one that is not text (UTF-8, or
    UTF-16 with a byte order mark): saving what can't be displayed would destroy it.
    """
    folder = WorkspaceFolder(workspace)
    place = folder.locate_for_change(name)
    return _editable(place, folder.read(place, LARGEST) or b"")


def _editable(place: WorkspacePath, data: bytes) -> str:
    try:
        # Keep UTF-8's byte order mark as a character, so that it is saved again.
        return decoded(data) if encoding_of(data).is_wide else data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{place.shown} is not valid UTF-8 (byte {error.start:,}).", hint="Open it with another editor."
        ) from None


def write_workspace_file(workspace: Path, name: str, text: str, known: str | None = None) -> None:
    """Replace `name` with `text` atomically, in its present encoding. Blocks; raises ToolError for a path outside the
    workspace, for text that is too large, and with `known` for a file that holds another text by now."""
    folder = WorkspaceFolder(workspace)
    place = folder.locate_for_change(name)
    before = folder.read(place, LARGEST) or b""

    def demand_known() -> None:
        if known is not None and _editable(place, folder.read(place, LARGEST) or b"") != known:
            raise ToolError(_("It has changed on disk in this moment: save again."))

    folder.replace(place, encoded_like(text, before) if encoding_of(before).is_wide else text.encode(), demand_known)
