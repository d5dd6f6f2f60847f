"""Where a conversation may be written to, and where not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.errors import ClawbotError
from clawbot.sessions.export import write_export
from clawbot.sessions.transcript import Transcript
from tests.hostile import device


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("file", "exists already"),
        ("folder", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("device", "is not a regular file"),
        ("below a file", "is a file, not a folder"),
    ],
)
def test_an_export_goes_into_a_new_file_and_nowhere_else(tmp_path: Path, kind: str, why: str) -> None:
    with Transcript.create(tmp_path, cwd=tmp_path, clock=SystemClock()) as made:
        transcript = made.path
    target = tmp_path / "target"
    match kind:
        case "file" | "below a file":
            target.touch()
        case "folder":
            target.mkdir()
        case "pipe":
            os.mkfifo(target)
        case _:
            target = device(tmp_path, "full")
    path = target / "x.md" if kind == "below a file" else target
    for form in ("md", "json"):
        with pytest.raises(ClawbotError, match=why):
            write_export(transcript, path, form, SystemClock(), tmp_path / "workspace")
