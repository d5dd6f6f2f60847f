"""The runs of imports, each in a file of its own in the state folder: what it made, and what need not be read again;
and the folders of other programs from which nothing was imported yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths
from clawbot.files import PRIVATE_FILE, create_complete, ensure_private_dir, write_atomic
from clawbot.importing.source import ImportFailedError


class Run(Struct, frozen=True):
    """One run: its `id`, its time (ISO 8601), the program and the path that was imported, for which agent."""

    id: str
    time: str
    program: str
    path: str
    agent: str


class Record(Struct, frozen=True, omit_defaults=True):
    """What a run did. `session`: it wrote the transcript `value`, relative to the folder of sessions, for the
    conversation `name`; one that grew had `kept` bytes before, and then its `end`. `file`: it wrote the file `name`,
    with the SHA-256 `value`. `job`: it added the job `name`, switched off. `unit`: it read `name` to its end, which is
    read again when its stamp differs from `value`."""

    kind: Literal["session", "file", "job", "unit"]
    name: str
    value: str = ""
    kept: int = 0
    end: str = ""


_RUNS = msgspec.json.Decoder(Run)
_RECORDS = msgspec.json.Decoder(Record)
_ENCODER = msgspec.json.Encoder()


class Ledger:
    """The runs in `folder`. All calls block; they raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def runs(self) -> list[tuple[Run, list[Record]]]:
        """Return all runs with what they did, oldest first, without truncated lines."""
        found = []
        for path in sorted(self.folder.glob("*.jsonl")):
            first, *lines = path.read_bytes().splitlines() or [b""]
            records = []
            for line in lines:
                with suppress(msgspec.DecodeError):
                    records.append(_RECORDS.decode(line))
            with suppress(msgspec.DecodeError):
                found.append((_RUNS.decode(first), records))
        return found

    def done(self, program: str, agent: str) -> tuple[dict[str, str], defaultdict[str, list[str]]]:
        """Return what is known of a program's conversations for an agent: the stamps of units, and by the id of a
        conversation its transcripts, oldest first."""
        stamps: dict[str, str] = {}
        made: defaultdict[str, list[str]] = defaultdict(list)
        for run, records in self.runs():
            for record in records if (run.program, run.agent) == (program, agent) else ():
                if record.kind == "unit":
                    stamps[record.name] = record.value
                elif record.kind == "session" and record.value not in made[record.name]:
                    made[record.name].append(record.value)
        return stamps, made

    def find(self, run_id: str) -> tuple[Run, list[Record]]:
        """Return the run `run_id`. Raises ImportFailedError."""
        found = next((each for each in self.runs() if each[0].id == run_id), None)
        if found is None:
            raise ImportFailedError(f"There is no import {run_id!r}.", hint="`clawbot import list` shows them.")
        return found

    def append(self, run: Run, *records: Record) -> None:
        """Add to a run; a kill of the program loses nothing of it."""
        path = ensure_private_dir(self.folder) / f"{run.id}.jsonl"
        path.touch(mode=PRIVATE_FILE)
        with path.open("ab") as file:
            file.write(_ENCODER.encode_lines(records if file.tell() else (run, *records)))

    def replace(self, run: Run, records: Sequence[Record]) -> None:
        """Keep only `records` of a run; without any it is deleted."""
        path = self.folder / f"{run.id}.jsonl"
        if records:
            write_atomic(path, _ENCODER.encode_lines((run, *records)), mode=PRIVATE_FILE)
        else:
            path.unlink()


_MOST = 100_000
_DISMISSED = "dismissed"
# The program, its key in runs, its folder in the home of the user, and where its conversations are.
_KNOWN = (
    ("OpenClaw", "openclaw", ".openclaw", "agents/*/sessions/*.jsonl"),
    ("OpenClaw", "openclaw", ".clawdbot", "agents/*/sessions/*.jsonl"),
    ("OpenClaw", "openclaw", ".moltbot", "agents/*/sessions/*.jsonl"),
    ("pi", "pi", ".pi", "agent/sessions/*/*.jsonl"),
    ("Claude Code", "claude-code", ".claude", "projects/*/????????-*.jsonl"),
    ("Codex", "codex", ".codex", "sessions/*/*/*/rollout-*.jsonl"),
)


class FoundHome(Struct, frozen=True):
    """The folder of a program with `count` conversations; `command` imports them."""

    label: str
    count: int
    command: str


def found_homes(paths: Paths) -> list[FoundHome]:
    """Return the folders of programs from which nothing was imported yet; none once they were dismissed. Blocks."""
    if is_dismissed(paths):
        return []
    imported = {run.program for run, _ in Ledger(paths.imports).runs()}
    found: dict[Path, FoundHome] = {}
    for label, program, folder, pattern in _KNOWN:
        root = (Path.home() / folder).resolve()
        if program not in imported and root not in found and root != paths.home.resolve():
            count = sum(1 for _ in islice(root.glob(pattern), _MOST))
            found[root] = FoundHome(label, count, f"clawbot import ~/{folder}")
    return [home for home in found.values() if home.count]


def is_dismissed(paths: Paths) -> bool:
    """Return whether the user wants to be offered nothing. Blocks."""
    return (paths.imports / _DISMISSED).exists()


def dismiss(paths: Paths) -> None:
    """Offer no import any more. Blocks; raises OSError."""
    create_complete(ensure_private_dir(paths.imports) / _DISMISSED, b"")
