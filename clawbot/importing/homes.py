"""Finds the folders of other programs, by counting names alone, until the user says that they are not wanted."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from msgspec import Struct

from clawbot.config.paths import Paths
from clawbot.files import create_exclusive, ensure_private_dir
from clawbot.importing.ledger import Ledger

_MOST = 100_000
_DISMISSED = "dismissed"
# The program, its key in runs, its folder in the home of the user, and where its conversations are.
_KNOWN = (
    ("OpenClaw", "openclaw", ".openclaw", "agents/*/sessions/*.jsonl"),
    ("OpenClaw", "openclaw", ".clawdbot", "agents/*/sessions/*.jsonl"),
    ("OpenClaw", "openclaw", ".moltbot", "agents/*/sessions/*.jsonl"),
    ("pi", "pi", ".pi", "agent/sessions/*/*.jsonl"),
    ("Claude Code", "claude-code", ".claude", "projects/*/[!a]*.jsonl"),
    ("Codex", "codex", ".codex", "sessions/*/*/*/rollout-*.jsonl"),
)


class FoundHome(Struct, frozen=True):
    """The folder of a program with `count` conversations; `command` imports them."""

    label: str
    count: int
    command: str


def found_homes(paths: Paths) -> list[FoundHome]:
    """The folders of programs from which nothing was imported yet; none once they were dismissed. Blocks."""
    if (paths.imports / _DISMISSED).exists():
        return []
    imported = Ledger(paths.imports).programs()
    found = []
    for label, program, folder, pattern in _KNOWN:
        root = Path.home() / folder
        count = 0 if program in imported else sum(1 for _ in islice(root.glob(pattern), _MOST))
        if count and root.resolve() != paths.home.resolve():
            found.append(FoundHome(label, count, f"clawbot import ~/{folder}"))
    return found


def dismiss(paths: Paths) -> None:
    """Offer no import any more. Blocks; raises OSError."""
    create_exclusive(ensure_private_dir(paths.imports) / _DISMISSED, b"")
