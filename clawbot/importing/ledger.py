"""The runs of imports, each in a file of its own in the state folder: what it made, and what it need not read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic
from clawbot.importing.source import ImportFailedError


class Run(Struct, frozen=True, tag_field="type", tag="run", rename="camel"):
    """One run: its `id`, its time (ISO 8601), the program and the path that was imported, for which agent."""

    id: str
    time: str
    program: str
    path: str
    agent: str


class MadeSession(Struct, frozen=True, tag_field="type", tag="session", rename="camel", omit_defaults=True):
    """A transcript that the run wrote for the conversation `ident`: `file` is relative to the folder of sessions. One
    that grew had `kept` bytes before, and then its `end`."""

    ident: str
    file: str
    kept: int = 0
    end: str = ""


class MadeFile(Struct, frozen=True, tag_field="type", tag="file", rename="camel"):
    """A file that the run wrote, at `path`, with the SHA-256 of its content."""

    path: str
    digest: str


class MadeJob(Struct, frozen=True, tag_field="type", tag="job", rename="camel"):
    """A job that was added, switched off."""

    name: str


class ReadUnit(Struct, frozen=True, tag_field="type", tag="unit", rename="camel"):
    """What was read to its end: it is read again when its `stamp` differs."""

    name: str
    stamp: str


Record = Run | MadeSession | MadeFile | MadeJob | ReadUnit
_DECODER = msgspec.json.Decoder(Record)


class Ledger:
    """The runs in the folder `folder`. All calls block; they raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def runs(self) -> list[tuple[Run, list[Record]]]:
        """All runs with what they did, oldest first. Lines cut off by a power cut are left out."""
        found = [self._read(path) for path in sorted(self.folder.glob("*.jsonl"))]
        return [(records[0], records[1:]) for records in found if records and isinstance(records[0], Run)]

    def programs(self) -> set[str]:
        """The programs from which anything was imported."""
        firsts = (record for path in self.folder.glob("*.jsonl") for record in self._read(path, 1))
        return {record.program for record in firsts if isinstance(record, Run)}

    def done(self, program: str, agent: str) -> tuple[dict[str, str], dict[str, list[str]]]:
        """What is known of a program's conversations for an agent: the stamps of units, and by the id of a conversation
        its transcripts, in the order in which they were made."""
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
        """The run `run_id`. Raises ImportFailedError."""
        for run, records in self.runs():
            if run.id == run_id:
                return run, records
        raise ImportFailedError(f"There is no import {run_id!r}.", hint="`clawbot import list` shows them.")

    def fresh_id(self, base: str) -> str:
        """An id of a new run that begins with `base`."""
        number, name = 2, base
        while (self.folder / f"{name}.jsonl").exists():
            number, name = number + 1, f"{base}-{number}"
        return name

    def append(self, run_id: str, records: Sequence[Record]) -> None:
        """Add to a run. A kill of the program loses nothing of it."""
        ensure_private_dir(self.folder)
        path = self.folder / f"{run_id}.jsonl"
        path.touch(mode=PRIVATE_FILE)
        with path.open("ab") as file:
            file.write(b"".join(msgspec.json.encode(record) + b"\n" for record in records))

    def replace(self, run: Run, records: Sequence[Record]) -> None:
        """Keep only `records` of a run; without any it is gone."""
        path = self.folder / f"{run.id}.jsonl"
        if records:
            lines = (msgspec.json.encode(record) + b"\n" for record in (run, *records))
            write_atomic(path, b"".join(lines), mode=PRIVATE_FILE)
        else:
            path.unlink()

    def _read(self, path: Path, most: int | None = None) -> list[Record]:
        records: list[Record] = []
        with path.open("rb") as file:
            for line in islice(file, most):
                with suppress(msgspec.DecodeError):
                    records.append(_DECODER.decode(line))
        return records
