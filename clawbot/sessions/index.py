"""The index of an agent's sessions, `sessions.json`: one object that maps keys to records.

It is derived: if missing or unreadable, it is rebuilt from the transcripts, and the bad file is kept next to it. Fields
of other programs are preserved.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout
from msgspec import Struct, structs

from clawbot.clock import Clock
from clawbot.files import PRIVATE_FILE, write_atomic
from clawbot.messages import scrub
from clawbot.sessions.entries import Header
from clawbot.sessions.errors import Problem, SessionStoreError, store_error, store_errors
from clawbot.sessions.names import is_session_id

FILE_NAME = "sessions.json"
# Every use of the index takes milliseconds: a longer hold means that the process hangs.
LOCK_TIMEOUT = 10.0


class SessionRecord(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The index entry of a session. Times are in milliseconds since the epoch.

    `model_override` and `label` are the model and name that the user chose, `title` is the one that a model gave. The
    tokens are those of the last call (`context_tokens`: the model's window), `cost` is the session's in US dollars,
    `turns` counts user messages (None: unknown). `last_interaction_at` is the time of the last user message,
    `resumed_at` when the user returned to the session. `ended_reason` is why it no longer has the key `previous_key`.
    `memory_pending`: nobody uses the session any more, but parts of it may still have to be offered to memory.
    `first_words` are those of the transcript when a list last read it; `seen` is how it was then: its size in bytes,
    its modification time, and what was forgotten of it (`Forgotten.mark`).
    """

    key: str = ""
    session_id: str
    session_file: str | None = None
    updated_at: int = 0
    session_started_at: int | None = None
    resumed_at: int | None = None
    last_interaction_at: int | None = None
    model_override: str | None = None
    label: str | None = None
    title: str | None = None
    turns: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    total_tokens_fresh: bool | None = None
    context_tokens: int | None = None
    cost: float | None = None
    compaction_count: int = 0
    memory_flush_at: int | None = None
    memory_flush_compaction_count: int | None = None
    ended_reason: str | None = None
    ended_at: int | None = None
    previous_key: str | None = None
    memory_pending: bool = False
    first_words: str | None = None
    seen: tuple[int, int, int] | None = None

    @property
    def began_at(self) -> int | None:
        """The time from which the session's age counts: its start, or when the user returned to it."""
        return max(self.session_started_at or 0, self.resumed_at or 0) or None

    @property
    def used_at(self) -> int:
        """The time of the user's last message; where only jobs spoke, of the last use; of an empty session, of its
        start."""
        used = self.updated_at if self.turns else 0
        return self.last_interaction_at or used or self.session_started_at or self.updated_at

    @property
    def name(self) -> str:
        """What the session is called: by the user, else by a model; "" while it is by neither."""
        return self.label or self.title or ""

    @property
    def names(self) -> list[str]:
        return [name for name in (self.label, self.title) if name]


_FIELDS = {field.encode_name for field in structs.fields(SessionRecord)} | {"providerOverride"}

Rebuild = Callable[[], list[SessionRecord]]
"""Makes the records from the transcripts."""


class IndexState:
    """The index as read. `records` are by key; `names` are the files next to it and `strays` the transcripts among them
    that have no record, with their headers, known once it was settled; `problems` were survived while reading; `unused`
    are empty transcripts left by a kill."""

    def __init__(self) -> None:
        self.records: dict[str, SessionRecord] = {}
        self.names: frozenset[str] = frozenset()
        self.strays: dict[Path, Header | None] = {}
        self.problems: list[Problem] = []
        self.unused: set[Path] = set()
        self.unreadable = False
        self.changed = False
        self._raw: dict[str, Any] = {}

    def put(self, record: SessionRecord, *, like: str = "") -> None:
        """Store `record` under its key, with the unknown fields of that key, or else of the key `like`."""
        self.records[record.key] = record
        others = self._raw.get(record.key, self._raw.get(like))
        kept = (
            {name: value for name, value in others.items() if name not in _FIELDS} if isinstance(others, dict) else {}
        )
        self._raw[record.key] = {**kept, **scrub(_to_json(record))}
        self.changed = True

    def drop(self, key: str) -> None:
        self.records.pop(key, None)
        self._raw.pop(key, None)
        self.changed = True

    def take(self, raw: dict[str, Any], path: Path) -> None:
        """Add the content of the file. If two keys differ only in spelling, the newer record wins."""
        for name, value in raw.items():
            key = name.lower()
            record = _from_json(key, value)
            if record is None:
                self.problems.append(Problem(str(path), f"the record of {name} is not a session; it is ignored"))
                self._raw[name] = value
            elif key not in self.records or record.updated_at >= self.records[key].updated_at:
                self.records[key] = record
                self._raw[key] = value

    def encoded(self) -> bytes:
        """The file's new content."""
        return msgspec.json.format(msgspec.json.encode(self._raw), indent=2) + b"\n"


class SessionIndex:
    """The index in `folder`. `rebuild` makes the records if the file is missing or unreadable."""

    def __init__(self, folder: Path, clock: Clock, rebuild: Rebuild) -> None:
        self.path = folder / FILE_NAME
        self._clock = clock
        self._rebuild = rebuild
        self._threads = threading.Lock()

    def read(self) -> IndexState:
        """The current index, read-only. Raises SessionStoreError if it can't be read at all."""
        state = IndexState()
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            self._fill_in(state, "the index of sessions is missing")
            return state
        except OSError as error:
            raise store_error("read", self.path, error) from error
        try:
            raw = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            raw = None
        if isinstance(raw, dict):
            state.take(raw, self.path)
        else:
            state.unreadable = True
            self._fill_in(state, "the index of sessions can't be read")
        return state

    @contextmanager
    def edit(self) -> Iterator[IndexState]:
        """Read, let the caller change, write: exclusive among all threads and processes. Nothing is written if the body
        raises or changes nothing. Raises SessionStoreError."""
        with self._alone():
            state = self.read()
            state.changed = state.changed or state.unreadable
            yield state
            if state.changed:
                self._write(state)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        lock = FileLock(self.path.with_name(f"{FILE_NAME}.lock"), timeout=LOCK_TIMEOUT, mode=PRIVATE_FILE)
        with self._threads:
            try:
                lock.acquire()
            except Timeout:
                raise SessionStoreError(
                    f"{self.path} has been locked for {LOCK_TIMEOUT:.0f} seconds by another process.",
                    hint="Find the clawbot process that hangs, and stop it.",
                ) from None
            except OSError as error:
                raise store_error("lock", self.path, error) from error
            try:
                yield
            finally:
                lock.release()

    def _fill_in(self, state: IndexState, what: str) -> None:
        found = self._rebuild()
        for record in found:
            state.put(record)
        if found or state.unreadable:
            names = f"{len(found)} session{'' if len(found) == 1 else 's'}"
            state.problems.append(Problem(str(self.path), f"{what}; it was rebuilt from the transcripts ({names})"))

    def _write(self, state: IndexState) -> None:
        with store_errors("write", self.path):
            if state.unreadable:
                self.path.rename(aside := self._aside())
                aside.chmod(PRIVATE_FILE)
            write_atomic(self.path, state.encoded(), mode=PRIVATE_FILE)

    def _aside(self) -> Path:
        stamp = f"{self._clock.now().astimezone(UTC):%Y%m%dT%H%M%S}"
        number, aside = 2, self.path.with_name(f"{FILE_NAME}.bad-{stamp}")
        while aside.exists():
            number, aside = number + 1, self.path.with_name(f"{FILE_NAME}.bad-{stamp}-{number}")
        return aside


def _to_json(record: SessionRecord) -> dict[str, Any]:
    """The record in the format of related programs: provider and model separate, the key outside."""
    value: dict[str, Any] = msgspec.to_builtins(structs.replace(record, key=""))
    provider, slash, model = (record.model_override or "").partition("/")
    if slash and provider.replace("-", "").replace("_", "").isalnum():
        value.update(providerOverride=provider, modelOverride=model)
    return value


def _from_json(key: str, value: Any) -> SessionRecord | None:
    session_id = value.get("sessionId") if isinstance(value, dict) else None
    if not isinstance(session_id, str) or not is_session_id(session_id):
        return None
    try:
        record = msgspec.convert({**value, "key": key}, SessionRecord)
    except ValueError:
        # An unexpected shape must not cost the user the session.
        at = value.get("updatedAt")
        is_time = isinstance(at, int | float) and 0 <= at < 2**53
        record = SessionRecord(key=key, session_id=session_id, updated_at=int(at) if is_time else 0)
    provider = value.get("providerOverride")
    if isinstance(provider, str) and provider and record.model_override:
        record = structs.replace(record, model_override=f"{provider}/{record.model_override}")
    return record
