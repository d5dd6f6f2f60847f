"""Opens memory backends of installed packages. Their failures are reported with their name and origin, and never end a
chat."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TypeVar

from clawbot.config.schema_memory import BACKEND_GROUP
from clawbot.errors import ClawbotError
from clawbot.extensions import BrokenExtension, installed
from clawbot.memory.backend import BackendContext, FileBackend, IndexUnavailableError, MemoryBackend
from clawbot.memory.values import (
    Excerpt,
    IndexStatus,
    Progress,
    SearchRequest,
    SearchResult,
    SyncReport,
    VerifyReport,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_HINT = "Update or repair the package, or set memory.backend to builtin."


def open_packaged(name: str, context: BackendContext) -> MemoryBackend:
    """The packaged backend `name`. Never fails: one that can't be opened still reads files, and reports the reason for
    everything else. Imports the package: blocks."""
    offered = next((each for each in installed(BACKEND_GROUP) if each.name == name), None)
    if offered is None:
        return PackagedBackend(context, None, f"The memory backend {name} is not installed.")
    backend = offered.use(lambda point: _opened(point, context))
    if isinstance(backend, BrokenExtension):
        return PackagedBackend(context, None, f"The memory backend {name} can't be opened: {backend.problem}.")
    return PackagedBackend(context, backend, f"{name} ({offered.point.value} of the package {offered.distribution})")


def _opened(point: EntryPoint, context: BackendContext) -> MemoryBackend:
    """Raises TypeError if the result is not a backend, and whatever the package raises."""
    backend: MemoryBackend = point.load()(context)
    if lacking := _lacking(backend):
        raise TypeError(f"it made a {type(backend).__name__}, which lacks {', '.join(lacking)}")
    return backend


def _lacking(backend: object) -> list[str]:
    """The missing members of a MemoryBackend; evaluates no property."""
    members = {name for name in (*vars(MemoryBackend), "on_progress") if not name.startswith("_")}
    absent = object()
    return sorted(name for name in members if inspect.getattr_static(backend, name, absent) is absent)


class PackagedBackend(FileBackend):
    """The backend `inner` of a package; None if it can't be opened.

    Everything it raises becomes a ClawbotError that names `origin`; without an `inner`, `origin` is the whole error.
    """

    def __init__(self, context: BackendContext, inner: MemoryBackend | None, origin: str) -> None:
        self._inner = inner
        self._origin = origin
        self._failure = "" if inner is not None else str(IndexUnavailableError(origin, hint=_HINT))
        super().__init__(context.documents)

    async def _ask(self, verb: str, work: Callable[[MemoryBackend], Awaitable[T]]) -> T:
        """The answer of the backend. Raises ClawbotError."""
        if self._inner is None:
            raise IndexUnavailableError(self._origin, hint=_HINT)
        try:
            return await work(self._inner)
        except ClawbotError:
            raise
        except Exception as error:
            log.exception("the memory backend %s failed to %s", self._origin, verb)
            raise self._failed(verb, error) from error

    def _look(self, verb: str, work: Callable[[MemoryBackend], T], otherwise: T) -> T:
        """A property of the backend; `otherwise` if it fails."""
        if self._inner is None:
            return otherwise
        try:
            return work(self._inner)
        except Exception as error:
            log.exception("the memory backend %s failed to %s", self._origin, verb)
            self._failure = self._failure or str(self._failed(verb, error))
            return otherwise

    def _failed(self, verb: str, error: Exception) -> IndexUnavailableError:
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":. ")
        return IndexUnavailableError(f"The memory backend {self._origin} failed to {verb}: {reason}.", hint=_HINT)

    @property
    def on_progress(self) -> Callable[[Progress | None], None] | None:
        return self._inner.on_progress if self._inner is not None else None

    @on_progress.setter
    def on_progress(self, listener: Callable[[Progress | None], None] | None) -> None:
        if self._inner is not None:
            self._inner.on_progress = listener

    @property
    def generation(self) -> int:
        """0 if the backend fails."""
        return self._look("count changes", lambda inner: inner.generation, 0)

    @property
    def location(self) -> Path | None:
        """None if the backend fails."""
        return self._look("name its database", lambda inner: inner.location, None)

    @property
    def built(self) -> bool:
        """True if the backend fails, so that it is asked further."""
        return self._look("say whether it is built", lambda inner: inner.built, True)

    @property
    def problem(self) -> str:
        """The first failure, at the start or later; else the problem that the backend reports."""
        found = self._look("name its problem", lambda inner: inner.problem, "")
        return self._failure or found

    async def probe(self, *, deep: bool = True) -> str:
        """Never fails."""
        try:
            found = await self._ask("be probed", lambda inner: inner.probe(deep=deep))
        except ClawbotError as error:
            found = str(error)
        return self._failure or found

    async def search(self, request: SearchRequest, building: Callable[[Progress], None] | None = None) -> SearchResult:
        """Raises ClawbotError."""
        return await self._ask("search", lambda inner: inner.search(request, building))

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Without a backend, reads from disk. Raises ClawbotError."""
        if self._inner is None:
            return await super().read(path, from_line, lines)
        return await self._ask("read", lambda inner: inner.read(path, from_line, lines))

    async def text(self, path: str) -> str:
        """Without a backend, reads from disk. Raises ClawbotError."""
        if self._inner is None:
            return await super().text(path)
        return await self._ask("read", lambda inner: inner.text(path))

    async def sync(self, *, force: bool = False, progress: Callable[[Progress], None] | None = None) -> SyncReport:
        """Raises ClawbotError."""
        return await self._ask("index", lambda inner: inner.sync(force=force, progress=progress))

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """Raises ClawbotError."""
        return await self._ask("tell its status", lambda inner: inner.status(deep=deep))

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Raises ClawbotError."""
        return await self._ask("verify", lambda inner: inner.verify(fix=fix))

    async def scrub(self) -> bool:
        """Raises ClawbotError."""
        return await self._ask("scrub", lambda inner: inner.scrub())

    def start(self) -> None:
        """A failure becomes the `problem`."""
        self._look("start", lambda inner: inner.start(), None)

    async def close(self) -> None:
        """A failure is logged."""
        try:
            await self._ask("close", lambda inner: inner.close())
        except ClawbotError as error:
            log.info("%s", error)
