"""The runs of imports, each in a file of its own in the state folder: what it made, and what need not be read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic
from clawbot.importing.source import ImportFailedError


class _Line(Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    pass


class Run(_Line, frozen=True, tag="run"):
    """One run: its `id`, its time (ISO 8601), the program and the path that was imported, for which agent."""

    id: str
    time: str
    program: str
    path: str
    agent: str


class MadeSession(_Line, frozen=True, tag="session"):
    """A transcript that the run wrote for the conversation `ident`: `file` is relative to the folder of sessions. One
    that grew had `kept` bytes before, and then its `end`."""

    ident: str
    file: str
    kept: int = 0
    end: str = ""


class MadeFile(_Line, frozen=True, tag="file"):
    """A file that the run wrote, at `path`, with the SHA-256 of its content."""

    path: str
    digest: str


class MadeJob(_Line, frozen=True, tag="job"):
    """A job that was added, switched off."""

    name: str


class ReadUnit(_Line, frozen=True, tag="unit"):
    """What was read to its end: it is read again when its `stamp` differs."""

    name: str
    stamp: str


Record = Run | MadeSession | MadeFile | MadeJob | ReadUnit
_DECODER = msgspec.json.Decoder(Record)


class Ledger:
    """The runs in `folder`. All calls block; they raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def runs(self) -> list[tuple[Run, list[Record]]]:
        """Return all runs with what they did, oldest first, without truncated lines."""
        found = []
        for path in sorted(self.folder.glob("*.jsonl")):
            records: list[Record] = []
            for line in path.read_bytes().splitlines():
                with suppress(msgspec.DecodeError):
                    records.append(_DECODER.decode(line))
            if records and isinstance(records[0], Run):
                found.append((records[0], records[1:]))
        return found

    def done(self, program: str, agent: str) -> tuple[dict[str, str], dict[str, list[str]]]:
        """Return what is known of a program's conversations for an agent: the stamps of units, and by the id of a
        conversation its transcripts, oldest first."""
        stamps: dict[str, str] = {}
        made: dict[str, list[str]] = defaultdict(list)
        for run, records in self.runs():
            for record in records if (run.program, run.agent) == (program, agent) else ():
                if isinstance(record, ReadUnit):
                    stamps[record.name] = record.stamp
                elif isinstance(record, MadeSession) and record.file not in made[record.ident]:
                    made[record.ident].append(record.file)
        return stamps, made

    def find(self, run_id: str) -> tuple[Run, list[Record]]:
        """Return the run `run_id`. Raises ImportFailedError."""
        for run, records in self.runs():
            if run.id == run_id:
                return run, records
        raise ImportFailedError(f"There is no import {run_id!r}.", hint="`clawbot import list` shows them.")

    def fresh_id(self, base: str) -> str:
        """Return an unused id of a run that begins with `base`."""
        number, name = 2, base
        while (self.folder / f"{name}.jsonl").exists():
            number, name = number + 1, f"{base}-{number}"
        return name

    def append(self, run_id: str, records: Iterable[Record]) -> None:
        """Add to a run; a kill of the program loses nothing of it."""
        path = ensure_private_dir(self.folder) / f"{run_id}.jsonl"
        path.touch(mode=PRIVATE_FILE)
        with path.open("ab") as file:
            file.write(_encoded(records))

    def replace(self, run: Run, records: Sequence[Record]) -> None:
        """Keep only `records` of a run; without any it is deleted."""
        path = self.folder / f"{run.id}.jsonl"
        if records:
            write_atomic(path, _encoded((run, *records)), mode=PRIVATE_FILE)
        else:
            path.unlink()


def _encoded(records: Iterable[Record]) -> bytes:
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)
