"""Keeps qmd's index in step with the files: configuration, exported transcripts, updates and vectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
import yaml
from msgspec import Struct

from clawbot.clock import Clock
from clawbot.config.schema import QmdSettings
from clawbot.errors import ClawbotError
from clawbot.files import ensure_private_dir, write_atomic
from clawbot.memory.documents.library import Library, Plan, make_plan
from clawbot.memory.documents.walking import FileState
from clawbot.memory.values import TRANSCRIPTS, Source, SyncReport, split_part
from clawbot.plugins.qmd.program import Collection, QmdError, QmdPaths, QmdProgram, config_data, export_name

log = logging.getLogger(__name__)

BOOT_TRIES = 3
BOOT_PAUSE = 2.0
"""Seconds between the tries of the first update."""
FIRST_PAUSE, MAX_PAUSE = 60.0, 3_600.0
"""Seconds until vectors are computed again after a failure; doubled after each."""
_DAY = 86_400.0


class Indexed(Struct, frozen=True):
    """A file as it was indexed."""

    source: Source
    size: int
    mtime_ns: int


class Manifest(Struct, frozen=True):
    """What qmd has indexed: the `collections`, and the `files` by path."""

    collections: tuple[Collection, ...] = ()
    files: Mapping[str, Indexed] = {}


def read_manifest(paths: QmdPaths) -> Manifest:
    """What was indexed last; empty if that is unknown. Blocks."""
    try:
        found = msgspec.json.decode(paths.manifest.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError):
        return Manifest()
    return found if paths.index.exists() else Manifest()


def last_sync(paths: QmdPaths, clock: Clock) -> datetime | None:
    """When the index was updated last, in the zone of `clock`; None for never. Blocks."""
    try:
        return datetime.fromtimestamp(paths.manifest.stat().st_mtime, clock.now().tzinfo)
    except OSError:
        return None


class QmdFollower:
    """Updates the index at `paths` through `program`. One update runs at a time.

    `on_done` is called after each that has changed something.
    """

    def __init__(
        self,
        program: QmdProgram,
        paths: QmdPaths,
        collections: tuple[Collection, ...],
        library: Library,
        *,
        settings: QmdSettings,
        clock: Clock,
    ) -> None:
        self.on_done: Callable[[], None] = lambda: None
        self._program = program
        self._paths = paths
        self._collections = collections
        self._library = library
        self._settings = settings
        self._clock = clock
        self._running: asyncio.Task[SyncReport] | None = None
        self._again = False
        self._embed_pause = FIRST_PAUSE

    def begin(self, *, force: bool = False) -> asyncio.Task[SyncReport]:
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._update(force=force))
            self._running.add_done_callback(self._ended)
        return self._running

    def follow(self) -> None:
        """Update for a change of the files: once more behind a running update, which may have read before it."""
        if self._running is None or self._running.done():
            self.begin()
        else:
            self._again = True

    def _ended(self, update: asyncio.Task[SyncReport]) -> None:
        if update.cancelled():
            return
        if (error := update.exception()) is not None:
            # Nobody may be waiting for it.
            log.info("an update of qmd failed: %s", error)
        if self._again:
            self._again = False
            self.begin()

    async def is_stale(self) -> bool:
        plan, manifest = await asyncio.to_thread(self._compare)
        return not plan.is_empty or manifest.collections != self._collections

    async def compare(self) -> Plan:
        return (await asyncio.to_thread(self._compare))[0]

    async def boot(self) -> None:
        """The first update, tried again when it fails. Errors are logged: a search reports its own."""
        for _ in range(BOOT_TRIES):
            try:
                await asyncio.shield(self.begin())
            except ClawbotError as error:
                log.warning("memory: %s", error)
                await asyncio.sleep(BOOT_PAUSE)
            else:
                return

    async def embed(self) -> float:
        """Compute missing vectors. Returns the seconds to wait until the next time."""
        limit = self._settings.update.embed_timeout_ms / 1000
        try:
            await self._program.run("embed", seconds=limit)
        except QmdError as error:
            log.warning("memory: %s", error)
            pause, self._embed_pause = self._embed_pause, min(self._embed_pause * 2, MAX_PAUSE)
            return pause
        self._embed_pause = FIRST_PAUSE
        self.on_done()
        return self._settings.update.embed_interval

    async def clean(self) -> None:
        """Erase what qmd keeps of deleted text. Raises QmdError."""
        await self._program.run("cleanup", seconds=self._settings.update.update_timeout_ms / 1000)

    async def close(self) -> None:
        self._again = False
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _update(self, *, force: bool) -> SyncReport:
        """Raises ClawbotError."""
        started = self._clock.monotonic()
        states, changes = await asyncio.to_thread(self._prepared, force=force)
        await self._program.run("update", seconds=self._settings.update.update_timeout_ms / 1000)
        await asyncio.to_thread(self._record, states)
        if not changes.is_empty or force:
            self.on_done()
        return SyncReport(
            added=len(changes.added),
            changed=len(changes.changed),
            removed=len(changes.removed),
            unchanged=changes.unchanged,
            rebuilt=force,
            issues=self._library.issues,
            seconds=self._clock.monotonic() - started,
        )

    def _compare(self) -> tuple[Plan, Manifest]:
        manifest = read_manifest(self._paths)
        listing = self._library.list()
        return make_plan(self._kept(listing.files), manifest.files, listing.hidden), manifest

    def _kept(self, files: tuple[FileState, ...]) -> list[FileState]:
        """Return the files without transcripts that are too old."""
        days = self._settings.sessions.retention_days
        if days is None:
            return list(files)
        oldest = self._clock.now().timestamp() - days * _DAY
        return [file for file in files if file.source != "sessions" or self._written(file) >= oldest]

    def _written(self, file: FileState) -> float:
        """When the transcript of a part was written last, in seconds; 0 if it is gone."""
        try:
            return (self._paths.transcripts / split_part(file.path)[0].removeprefix(TRANSCRIPTS)).stat().st_mtime
        except OSError:
            return 0.0

    def _prepared(self, *, force: bool) -> tuple[list[FileState], Plan]:
        """Write the configuration and the exports, and compare the files. Blocks. Raises QmdError."""
        try:
            ensure_private_dir(self._paths.config.parent)
            ensure_private_dir(self._paths.exports)
            if force:
                self._paths.clear()
            self._configure()
            plan, _ = self._compare()
            listed = self._kept(self._library.list().files)
            self._export(listed)
        except OSError as error:
            raise QmdError(
                f"{self._paths.folder} can't be written: {error.strerror or error}.",
                hint="Make room, or set memory.backend to builtin.",
            ) from error
        return listed, plan

    def _configure(self) -> None:
        """Raises OSError."""
        try:
            before = yaml.safe_load(self._paths.config.read_bytes())
        except (OSError, yaml.YAMLError):
            before = None
        data = config_data(before, self._collections)
        if data is not None:
            # JSON is YAML, too.
            write_atomic(self._paths.config, msgspec.json.encode(data), mode=0o600, lasting=False)

    def _export(self, listed: list[FileState]) -> None:
        """Write the transcripts that changed, and delete those that are gone. Raises OSError."""
        known = read_manifest(self._paths).files
        wanted = {export_name(state.path): state for state in listed if state.source == "sessions"}
        for name, state in wanted.items():
            file = self._paths.exports / name
            if known.get(state.path) == _indexed(state) and file.exists():
                continue
            document = self._library.read(state)
            if document is not None:
                text = document.text.encode("utf-8", "replace")
                write_atomic(file, text, mode=0o600, lasting=False)
        for file in self._paths.exports.iterdir():
            if file.name not in wanted:
                file.unlink(missing_ok=True)

    def _record(self, states: list[FileState]) -> None:
        """Blocks."""
        manifest = Manifest(self._collections, {state.path: _indexed(state) for state in states})
        try:
            write_atomic(self._paths.manifest, msgspec.json.encode(manifest), mode=0o600, lasting=False)
        except (OSError, UnicodeEncodeError):
            # The next update compares everything again.
            log.exception("what qmd has indexed could not be recorded")


def _indexed(state: FileState) -> Indexed:
    return Indexed(state.source, state.size, state.mtime_ns)
