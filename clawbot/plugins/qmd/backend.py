"""The backend `qmd`: searches with the program qmd, and reads the files themselves."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clawbot.memory.backend import BackendContext, FileBackend
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import Document, ForbiddenPathError, UnreadableDocumentError
from clawbot.memory.documents.walking import FileState
from clawbot.memory.search.copies import folded_hits
from clawbot.memory.sync.watcher import Watcher
from clawbot.memory.values import (
    Counts,
    Evidence,
    Hit,
    IndexStatus,
    Mode,
    Probe,
    ReportProgress,
    SearchRequest,
    SearchResult,
    SourceCount,
    SyncReport,
    VerifyReport,
    split_part,
)
from clawbot.plugins.qmd.asking import Asker, QmdServer
from clawbot.plugins.qmd.following import QmdFollower, last_sync, read_manifest
from clawbot.plugins.qmd.program import QmdAnswer, QmdError, QmdPaths, QmdProgram, collections_of, export_name, located
from clawbot.text.query import Term, parse_query

FOLDER = "qmd"
"""The provider and model of its answers, and its folder below that of the indexes, with one for each agent in it."""

SPARE = 3
"""How many times as many results are asked for, since some are left out by date, path or session."""

LINES_BEFORE, LINES_AFTER = 1, 2
"""Lines of a result around its best one, as qmd shows them."""

_MODES: dict[str, Mode] = {"search": "fts-only", "vsearch": "vector-only", "query": "hybrid"}
_LATE = "Files changed a moment ago are not searched yet."
_RANKED = "`min_score` has no effect: the scores of qmd are on a scale of its own."


class QmdBackend(FileBackend):
    """The memory of one agent, searched by qmd. See MemoryBackend; implements `BackendFactory`."""

    def __init__(self, context: BackendContext) -> None:
        super().__init__(context.documents)
        settings, paths = context.memory.qmd, context.paths
        self._context = context
        self._settings = settings
        folder = paths.memory_db(context.agent_id).parent / FOLDER / context.agent_id
        self._paths = QmdPaths(folder, paths.sessions(context.agent_id))
        self._sources = {source.source: source for source in context.sources}
        self._library = Library(context.sources)
        self._collections = collections_of(
            context.agent_id,
            context.agent.workspace,
            context.agent.memory_search.extra_paths,
            self._paths.exports,
            self._library.names,
        )
        self._program = QmdProgram(settings.command, self._paths, os.environ)
        seconds = settings.limits.timeout_ms / 1000
        server = QmdServer(settings.daemon_port, self._collections, context.clock, seconds)
        self._asker = Asker(self._program, server, settings.search_mode, seconds)
        self._follower = QmdFollower(
            self._program, self._paths, self._collections, self._library, settings=settings, clock=context.clock
        )
        self._follower.on_done = self._changed
        self._changes = 0
        self._watcher: Watcher | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def generation(self) -> int:
        """Grows with each update that changed something."""
        return self._changes

    @property
    def location(self) -> Path:
        return self._paths.index

    @property
    def built(self) -> bool:
        return self._paths.index.exists()

    async def search(self, request: SearchRequest, building: ReportProgress | None = None) -> SearchResult:
        """Return the best results, after waiting for a pending update for half a second (`query.wait_for_writes`).

        An index that does not exist yet is built first. Raises QmdError.
        """
        late = await self._is_late()
        names = [one.name for one in self._collections if one.source in request.sources]
        wanted = request.max_results or self._settings.limits.max_results
        answers = await self._asker.ask(request.queries, names, wanted * SPARE)
        hits = await asyncio.to_thread(lambda: folded_hits(tuple(self._hits(request, answers)))[:wanted])
        warnings = (*([_LATE] if late else ()), *([_RANKED] if request.min_score else ()))
        evidence: Evidence = "fair" if hits else "weak"
        mode = _MODES[self._settings.search_mode]
        return SearchResult(hits, mode, FOLDER, FOLDER, warnings=warnings, evidence=evidence)

    async def sync(self, *, force: bool = False, progress: ReportProgress | None = None) -> SyncReport:
        """Update qmd's index, and its vectors if the search mode wants them. Raises QmdError."""
        report = await asyncio.shield(self._follower.begin(force=force))
        if self._embeds:
            await self._follower.embed()
        return report

    async def probe(self, *, deep: bool = True) -> str:
        """Run it with one word; locally, only find the program. Raises QmdError."""
        if deep:
            await self._program.version()
            if self.built:
                await self._asker.ask(["memory"], [one.name for one in self._collections], 1)
        else:
            await asyncio.to_thread(self._program.locate)
        return ""

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """Its content. Raises QmdError if qmd can't be run."""
        version = await self._program.version()
        started = self._context.clock.monotonic()
        if deep:
            await self.probe()
        passed = self._context.clock.monotonic() - started
        found = await asyncio.to_thread(self._describe, version)
        return replace(found, embedding_probe=Probe(ok=True, seconds=passed) if deep and self._embeds else None)

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Compare the files with what was indexed last; `fix` updates. Raises QmdError."""
        await self._program.version()
        plan = await self._follower.compare()
        changes = [(plan.added, "is not indexed"), (plan.changed, "has changed since it was indexed")]
        problems = [f"{state.path} {what}" for states, what in changes for state in states]
        problems += [f"{path} is indexed, but gone" for path in plan.removed]
        checked = Counts(files=plan.unchanged + len(plan.added) + len(plan.changed))
        if fix and problems:
            await self.sync()
        return VerifyReport(tuple(problems), tuple(problems) if fix else (), checked, clean=fix or not problems)

    async def scrub(self) -> bool:
        """Erase what qmd keeps of deleted text. Where it can't be run, its index is deleted."""
        try:
            if self.built:
                await self._follower.clean()
        except QmdError:
            await asyncio.to_thread(self._paths.clear)
        return True

    def start(self) -> None:
        """Update at the start, on changes and by interval. Needs a running loop."""
        update, sync = self._settings.update, self._context.agent.memory_search.sync
        if sync.watch and self._watcher is None:
            self._watcher = Watcher(self._context.sources, update.debounce_ms / 1000, self._request)
            self._spawn(self._watcher.start())
        self._spawn(self._keep_up())
        if self._embeds and update.embed_interval:
            self._spawn(self._keep_embedding())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._watcher is not None:
            await self._watcher.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._follower.close()

    # -- following the files -----------------------------------------------------------------------------------------

    @property
    def _embeds(self) -> bool:
        return self._settings.search_mode != "search"

    async def _is_late(self) -> bool:
        """Whether changed files could not be indexed in time. Raises QmdError for an index that is not built in time: a
        user who is in a chat waits no longer than for a search."""
        if not await self._follower.is_stale():
            return False
        was_built, update = self.built, self._follower.begin()
        patience = self._settings.limits.timeout_ms / 1000 if self._context.long_lived else None
        seconds = self._context.agent.memory_search.query.wait_for_writes if was_built else patience
        done, _ = await asyncio.wait([update], timeout=seconds)
        if was_built:
            return not done or update.exception() is not None
        if not done:
            raise QmdError(f"Its first index was not built within {seconds:g} s.")
        await update
        return False

    async def _keep_up(self) -> None:
        if self._settings.update.on_boot:
            await self._follower.boot()
        while self._settings.update.interval:
            await asyncio.sleep(self._settings.update.interval)
            self._request()

    async def _keep_embedding(self) -> None:
        while True:
            pause = await self._follower.embed()
            await asyncio.sleep(pause)

    def _request(self) -> None:
        self._follower.follow()

    def _changed(self) -> None:
        self._changes += 1
        if self.on_progress is not None:
            self.on_progress(None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _hits(self, request: SearchRequest, answers: list[QmdAnswer]) -> Iterator[Hit]:
        """Yield the results of `answers` whose lines are in the files now. Blocks."""
        exported = {
            export_name(path): path for path in read_manifest(self._paths).files if path.startswith("sessions/")
        }
        terms = [term for question in request.queries for term in parse_query(question).terms]
        most = self._settings.limits.max_snippet_chars
        seen: set[tuple[str, int]] = set()
        for answer in sorted(answers, key=lambda answer: -self._weighed(answer)):
            found = self._document(answer, exported)
            if found is None or split_part(found.state.path)[0] == request.without:
                continue
            hit = _hit(found, best_line(found.text, terms, answer.line), self._weighed(answer), most)
            if hit is None or not _is_dated(found, hit.line, request):
                continue
            if (found.state.path, hit.line) not in seen:
                seen.add((found.state.path, hit.line))
                yield self._sources[hit.source].describe(_in_file(hit, found))

    def _weighed(self, answer: QmdAnswer) -> float:
        target = located(answer, self._collections)
        is_session = target is not None and target[0].source == "sessions"
        return answer.score * (self._context.agent.memory_search.query.transcript_weight if is_session else 1.0)

    def _document(self, answer: QmdAnswer, exported: dict[str, str]) -> Document | None:
        """Return the file of a result, as it is now; None for what is no memory file, or gone."""
        target = located(answer, self._collections)
        if target is None:
            return None
        collection, absolute = target
        try:
            if collection.source == "memory":
                return self.documents.read_path(absolute)
            path = exported.get(Path(absolute).name)
            return self._sources["sessions"].read(FileState(path, "sessions", 0, 0)) if path is not None else None
        except (ForbiddenPathError, UnreadableDocumentError):
            return None

    def _describe(self, version: str) -> IndexStatus:
        """Blocks."""
        files = read_manifest(self._paths).files
        listed = self._library.list().files
        counts = tuple(
            SourceCount(
                source,
                len({split_part(path)[0] for path, one in files.items() if one.source == source}),
                len({split_part(state.path)[0] for state in listed if state.source == source}),
                sum(one.source == source for one in files.values()),
            )
            for source in self._library.names
        )
        size = sum(one.size for one in files.values())
        mode = self._settings.search_mode
        return IndexStatus(
            provider=FOLDER,
            requested_provider=FOLDER,
            model=FOLDER,
            remote=False,
            mode=_MODES[mode],
            files=sum(one.files for one in counts),
            total_files=sum(one.total_files for one in counts),
            chunks=len(files),
            vectors=0,
            tokens=size // 4,
            text_bytes=size,
            disk_bytes=self._paths.index.stat().st_size if self.built else 0,
            workspace_dir=str(self._context.agent.workspace),
            identity=f"qmd {version}, {mode}",
            dirty={state.path for state in listed} != set(files),
            last_sync=last_sync(self._paths, self._context.clock),
            sources=self._library.names,
            extra_paths=tuple(str(extra.path) for extra in self._context.agent.memory_search.extra_paths),
            source_counts=counts,
            issues=self._library.issues,
            details={"backend": FOLDER, "dbPath": str(self._paths.index), "version": version, "searchMode": mode},
        )


def best_line(text: str, terms: Sequence[Term], reported: int) -> int:
    """The line of `text` (from 1) with most of `terms`; the one that qmd `reported` where no line has any. Pure."""

    def weight(line: str) -> float:
        return sum(term.weight for term in terms if term.text in line)

    lines = text.lower().split("\n")
    best = max(range(len(lines)), key=lambda number: weight(lines[number]))
    return best + 1 if weight(lines[best]) else min(max(reported, 1), len(lines))


def _hit(document: Document, best: int, score: float, most: int) -> Hit | None:
    """Return the lines of `document` around `best`, at most `most` characters; None if there is nothing in them."""
    lines = document.text.split("\n")
    first, last = max(best - LINES_BEFORE, 1), min(best + LINES_AFTER, len(lines))
    while first < best and (not lines[first - 1].strip() or len("\n".join(lines[first - 1 : best])) > most):
        first += 1
    while last > best and (not lines[last - 1].strip() or len("\n".join(lines[first - 1 : last])) > most):
        last -= 1
    snippet = "\n".join(lines[first - 1 : last])[:most]
    return (
        Hit(document.state.path, first, last, score, snippet, document.state.source, best) if snippet.strip() else None
    )


def _in_file(hit: Hit, document: Document) -> Hit:
    """Return `hit` with the line numbers of the file behind the document."""
    numbers = document.line_numbers
    if numbers is None:
        return hit
    start, end, best = (numbers[min(line, len(numbers)) - 1] for line in (hit.start_line, hit.end_line, hit.line))
    return replace(hit, start_line=start, end_line=end, line=best)


def _is_dated(document: Document, line: int, request: SearchRequest) -> bool:
    """Return whether the line `line` is of a day that the request allows."""
    if request.after is None and request.before is None:
        return True
    number = document.line_numbers[line - 1] if document.line_numbers is not None else line
    marked = [mark.days for mark in document.days if mark.line <= number]
    days = (*(marked[-1] if marked else ()), *((document.date,) if document.date is not None else ()))
    return any((request.after or date.min) <= day <= (request.before or date.max) for day in days)
