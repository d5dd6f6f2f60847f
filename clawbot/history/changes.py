"""The history of the memory files of one agent: records changes, lists them, and takes them back."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import structs

from clawbot.authors import Author, Step, recording
from clawbot.clock import Clock, iso_utc
from clawbot.config.paths import Paths
from clawbot.config.schema import HistorySettings, Settings
from clawbot.files import digest_of, sweep_asides
from clawbot.guarded import MAX_RECORDED_BYTES, GuardedFolder
from clawbot.history.contents import Contents
from clawbot.history.log import FILE, ID_CHARS, Log
from clawbot.history.noticing import Scan
from clawbot.history.undoing import take_back
from clawbot.history.values import UNKNOWN, USER, Change, HistoryError, Line, Rewrite, Undone, is_memory
from clawbot.text.interface import _

log = logging.getLogger(__name__)

UNDO, FORGET, DREAM = Author("undo"), "forget", "dream"
_MB = 1024**2


class History:
    """The history in `folder` of the memory files of `workspace`. Implements `Recorder`. All methods block.

    Changes are made whatever happens: if the disk is full, `warn` is called once, in any thread; as made, it logs. The
    other methods raise OSError.
    """

    def __init__(self, folder: Path, workspace: Path, clock: Clock, limits: HistorySettings) -> None:
        self.folder = folder
        self.workspace = workspace
        self.contents = Contents(folder / "objects")
        self._clock = clock
        self._limits = limits
        self._log = Log(folder)
        self._scan = Scan(workspace, self.contents)
        self._mutex = threading.RLock()
        self.warn: Callable[[str], object] = log.warning
        self._warned = False
        self._pruned: datetime | None = None

    # -- changes of the program ----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def change(self, author: Author, step: Step) -> Iterator[None]:
        """See `Recorder`."""
        path = self._path_in(step.root, step.path)
        if not self._limits.enabled or not is_memory(path):
            yield
            return
        with contextlib.ExitStack() as held:
            planned: Change | None = None
            with self._surviving():
                held.enter_context(self._log.held())
                self._begin()
                planned = self._planned(author, step, path)
            done = False
            try:
                yield
                done = True
            finally:
                with self._surviving():
                    if planned is not None:
                        known = self._scan.state(path, planned.after) if done else None
                        self._log.append(Line("done" if done else "void", planned.id, known=known))

    def _planned(self, author: Author, step: Step, path: str) -> Change | None:
        """Record the plan of a change; None if it changes nothing. Raises OSError."""
        was = self._path_in(step.root, step.was) if step.was else ""
        try:
            data = step.before()
        except OSError:
            before = UNKNOWN
        else:
            # What is forgotten must not be stored once more.
            is_forgotten = author.by == FORGET and not step.was
            before = "" if data is None else UNKNOWN if is_forgotten else self.contents.add(data)
        after = before if was else "" if step.after is None else self.contents.add(step.after)
        if after == before and not was:
            return None
        planned = self._change(author, path, before, after, was)
        self._log.append(Line("planned", planned.id, planned))
        return planned

    def _begin(self, since: float = 0.0) -> None:
        """Store at the first time what there is, so that each later change is noticed. Raises OSError."""
        if not self._log.is_begun:
            self._log.refresh()
        if not self._log.is_begun:
            self._log.begin({**self._scan.baseline(self._clock.now(), since), **self._log.known})

    def _change(self, author: Author, path: str, before: str, after: str, was: str = "") -> Change:
        ident = uuid.uuid4().hex[:ID_CHARS]
        return Change(ident, iso_utc(self._clock.now()), path, author, before, after, was)

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        """Warn once of an error of the disk: what the user changes is more important than its record."""
        try:
            yield
        except OSError as error:
            if not self._warned:
                text = _("Changes of memory files are not recorded and can't be undone: {file}: {error}.")
                self.warn(text.format(file=self.folder, error=error.strerror))
            self._warned = True

    def _path_in(self, root: Path, path: str) -> str:
        """The path relative to the workspace, "" for a file elsewhere."""
        full = root / path
        inside = os.path.relpath(Path(os.path.realpath(full.parent), full.name), os.path.realpath(self.workspace))
        return "" if inside.startswith("../") else inside

    # -- changes by others ---------------------------------------------------------------------------------------------

    def notice(self, author: Author = USER, since: float = 0.0) -> list[Change]:
        """Record what changed without this program, and return it: by `author` what changed after `since` (seconds
        since the epoch), by the user what changed before."""
        if not self._limits.enabled:
            return []
        with self._held():
            self._begin(since)
            lines = []
            for found in self._scan.found(self._log.known):
                after = found.known.digest if found.known is not None else ""
                line = Line("seen", path=found.path, known=found.known)
                if after != found.before:
                    by = author if found.changed_ns >= since * 1e9 else USER
                    change = self._change(by, found.path, found.before, after)
                    line = Line("noticed", change.id, change, known=found.known)
                lines.append(line)
            self._log.append(*lines)
            self._log.refresh()
            self._prune_daily()
            return [line.change for line in lines if line.change is not None]

    def notice_since(self, author: Author, since: float) -> None:
        """See `Recorder`."""
        with self._surviving():
            self.notice(author, since)

    # -- what there is -------------------------------------------------------------------------------------------------

    def changes(self, path: str = "") -> list[Change]:
        """Return the changes of the file `path`, under earlier names, too, or of all files, newest first."""
        if not (self.folder / FILE).exists():
            return []
        with self._held():
            found = _with_gaps(list(self._log.changes.values()))
        if not path:
            return found
        names, chosen = {path}, []
        for change in found:
            if change.path in names:
                chosen.append(change)
                names |= {change.was} if change.was else set()
        return chosen

    def find(self, ident: str) -> Change:
        """Return the change whose id begins with `ident`. Raises HistoryError."""
        found = [change for change in self.changes() if ident and change.id.startswith(ident.lower())]
        if len(found) == 1:
            return found[0]
        if found:
            raise HistoryError(f"{len(found)} changes have an id that begins with {ident}.", hint="Give more of it.")
        raise HistoryError(f"There is no change {ident!r} of a memory file.", hint="`clawbot memory log` lists them.")

    def content(self, digest: str) -> bytes | None:
        """Return a content; None if it is unknown, or no longer stored."""
        return None if digest == UNKNOWN else self.contents.get(digest)

    @property
    def files(self) -> list[Path]:
        """All files of the history."""
        return [*self.folder.glob("*.json*"), *self.folder.glob("objects/??/*")]

    @property
    def size(self) -> int:
        """The bytes of all that is stored."""
        return sum(file.stat().st_size for file in self.files)

    # -- undo ----------------------------------------------------------------------------------------------------------

    def undo(self, ident: str, author: Author = UNDO) -> Undone:
        """Take back the change whose id begins with `ident`; what came later stays. Raises HistoryError."""
        return self._undo(self.find(ident), author)

    def undo_last(self, author: Author) -> list[Undone]:
        """Take back the last change that the program made in the session of `author`, or that a dream made, and that
        was not taken back; of a dream all that it wrote at once. Ends at a conflict. Raises HistoryError."""
        changes = self.changes()
        gone = _undone(changes)
        left = [change for change in changes if not change.author.undoes and change.id not in gone]
        last = next((change for change in left if _is_of(change.author, author)), None)
        if last is None:
            raise HistoryError(_("Nothing to undo."), hint=_("`clawbot memory log` lists all changes of memory files."))
        job = last.author.job if last.author.by == DREAM else ""
        together = [change for change in left if change.author.job == job] if job else [last]
        done: list[Undone] = []
        for change in together:
            done.append(self._undo(change, author))
            if done[-1].conflict:
                break
        return done

    def _undo(self, change: Change, author: Author) -> Undone:
        changes = self.changes()
        if (by := _undone(changes).get(change.id)) is not None:
            hint = _("`clawbot memory undo {id}` brings it back.").format(id=by)
            raise HistoryError(_("That was undone already."), hint=hint)
        with recording(self, structs.replace(author, undoes=change.id)):
            undone = take_back(self.workspace, change, changes, self.contents)
        made = [each.id for each in self.changes() if each.author.undoes == change.id]
        return undone if undone.conflict else structs.replace(undone, id=made[0] if made else "")

    # -- bounds --------------------------------------------------------------------------------------------------------

    def prune(self) -> None:
        """Drop the oldest changes beyond the limits, and the contents that no other change needs."""
        with self._held():
            self._prune()

    def _prune_daily(self) -> None:
        now = self._clock.now()
        if self._pruned is None or now - self._pruned > timedelta(days=1):
            self._pruned = now
            self._prune()

    def _prune(self) -> None:
        sizes, limit = self.contents.sizes(), self._limits.max_mb * _MB
        needed = {known.digest for known in self._log.known.values()}
        total = sum(sizes.get(digest, 0) for digest in needed)
        if total > limit:
            needed = set()
        first = iso_utc(self._clock.now() - timedelta(days=self._limits.max_days))
        changes, kept = list(self._log.changes.values()), list[Change]()
        start = next((at for at, change in enumerate(changes) if change.time >= first), len(changes))
        for change in reversed(changes[start:]):
            total += sum(sizes.get(digest, 0) for digest in {change.before, change.after} - needed)
            if total > limit:
                break
            needed |= {change.before, change.after}
            kept.append(change)
        if len(kept) < len(changes):
            self._log.rewrite(kept[::-1])
        sweep_asides(self.folder, age=0)
        self.contents.sweep(needed)

    def rewrite(self, work: Rewrite, *, dry_run: bool) -> int:
        """Replace contents and changes as `work` decides, and return how many changes it concerned; a `dry_run` only
        counts."""
        if not (self.folder / FILE).exists():
            return 0
        with self._held():
            digests: dict[str, str] = {}
            for digest in self.contents.sizes():
                data = self.contents.get(digest)
                if data and (new := work.changed(data)) != data:
                    digests[digest] = digest_of(new) if dry_run else self.contents.add(new)
            before = list(self._log.changes.values())
            after = [work.entry(_mapped(change, digests)) for change in before]
            count = sum(old != now for old, now in zip(before, after, strict=True)) or len(digests)
            if dry_run:
                return count
            if count:
                self._log.known = {
                    path: structs.replace(known, digest=digests.get(known.digest, known.digest))
                    for path, known in self._log.known.items()
                }
                self._log.rewrite(change for change in after if change is not None)
            self._prune()
            return count

    def contents_after(self, work: Rewrite) -> Iterator[bytes]:
        """Yield the contents that `work` leaves, or has left."""
        if not (self.folder / FILE).exists():
            return
        with self._held():
            files = [Change("", "", path, USER, "", known.digest) for path, known in self._log.known.items()]
            changes = [work.entry(change) for change in (*self._log.changes.values(), *files)]
        digests = {digest for change in changes if change for digest in (change.before, change.after)}
        yield from (work.changed(data) for digest in digests if (data := self.content(digest)))

    # -- the lock ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the log, read to its end, with no change whose outcome is open. Raises OSError."""
        with self._mutex, self._log.held():
            self._log.refresh()
            if self._log.planned:
                self._log.append(*self._settled())
                self._log.refresh()
            yield

    def _settled(self) -> Iterator[Line]:
        """How the changes ended whose process was killed: the file shows it."""
        for ident, change in self._log.planned.items():
            after = self._outcome(change)
            known = self._scan.state(change.path, change.after) if after == change.after else None
            yield Line("void" if after is None else "done", ident, known=known, after=after or "")

    def _outcome(self, change: Change) -> str | None:
        """The digest of what an interrupted change came to; None if it was not made. Raises OSError."""
        files = GuardedFolder(self.workspace)
        if change.was:
            return change.after if files.state(change.path) and not files.state(change.was) else None
        try:
            data = files.read(change.path, MAX_RECORDED_BYTES)
        except FileNotFoundError:
            return "" if not change.after else None
        except OSError:
            return None
        now = digest_of(data)
        before, planned = self.content(change.before), self.content(change.after)
        if now in (change.before, change.after):
            return now if now == change.after else None
        if before is not None and planned is not None and data.startswith(before) and planned.startswith(data):
            # The end of what was appended is missing.
            return self.contents.add(data)
        return None


def history_of(settings: Settings, paths: Paths, agent_id: str, clock: Clock) -> History:
    """Return the history of an agent's memory files in its workspace. Blocks. Raises ConfigError for an unknown
    agent."""
    return history_in(settings.agent(agent_id).workspace, paths, agent_id, clock, settings.memory.history)


def history_in(workspace: Path, paths: Paths, agent_id: str, clock: Clock, limits: HistorySettings) -> History:
    """Return the history of an agent's memory files in `workspace`. Blocks."""
    folder, record = paths.memory_history(agent_id), paths.workspace_record(workspace)
    if record != paths.workspace_record(paths.workspace(agent_id)):
        # Its files are others.
        folder /= record.stem
    return History(folder, workspace, clock, limits)


def _with_gaps(changes: Sequence[Change]) -> list[Change]:
    """`changes` newest first, with those by the user that nobody noticed: a content that no change has made."""
    found: list[Change] = []
    last: dict[str, str] = {}
    for change in changes:
        path = change.was or change.path
        before = last.pop(path, change.before)
        if UNKNOWN not in (before, change.before) and before != change.before:
            ident = digest_of(f"{before} {change.id}".encode())[:ID_CHARS]
            found.append(Change(ident, change.time, path, USER, before, change.before))
        last[change.path] = change.after
        found.append(change)
    return found[::-1]


def _is_of(made: Author, author: Author) -> bool:
    """Whether `/undo` in the session of `author` takes back what `made` changed."""
    return made.by == DREAM or (bool(author.session) and made.session == author.session and made.by != USER.by)


def _undone(changes: Sequence[Change]) -> dict[str, str]:
    """The changes that were taken back, each with the undo; `changes` are newest first. One that was undone, too, does
    not count."""
    found: dict[str, str] = {}
    for change in changes:
        if change.author.undoes and change.id not in found:
            found[change.author.undoes] = change.id
    return found


def _mapped(change: Change, digests: dict[str, str]) -> Change:
    before, after = (digests.get(digest, digest) for digest in (change.before, change.after))
    return structs.replace(change, before=before, after=after)
