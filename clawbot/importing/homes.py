"""Finds the folders of other programs, by counting names alone, until the user says that they are not wanted."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from msgspec import Struct

from clawbot.config.paths import Paths
from clawbot.files import create_whole, ensure_private_dir
from clawbot.importing.ledger import Ledger

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
    """The folders of programs from which nothing was imported yet; none once they were dismissed. Blocks."""
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
    """Whether the user wants to be offered nothing. Blocks."""
    return (paths.imports / _DISMISSED).exists()


def dismiss(paths: Paths) -> None:
    """Offer no import any more. Blocks; raises OSError."""
    create_whole(ensure_private_dir(paths.imports) / _DISMISSED, b"")
