"""The programs whose data can be imported: how their folders look, and what is named there without being imported."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from clawbot.config.paths import Paths
from clawbot.files import create_exclusive, ensure_private_dir
from clawbot.importing.ledger import Ledger

_MOST = 100_000
_DISMISSED = "dismissed"
_NOTES = "notes ({n}), such as {path}: copy what you want"


class Program(NamedTuple):
    """A program: a folder of its own has one of the `shapes`. `homes` are the names of its folder in the user's home,
    `talks` is the pattern of transcripts there. `left` are the patterns of files that are named, by what to do."""

    label: str
    shapes: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    talks: str = ""
    left: tuple[tuple[str, tuple[str, ...]], ...] = ()


PROGRAMS = {
    "openclaw": Program(
        "OpenClaw",
        ("openclaw.json", "agents/*/sessions"),
        (".openclaw", ".clawdbot", ".moltbot"),
        "agents/*/sessions/*.jsonl",
        (
            ("skills ({n}): add {root}/skills to `skills.dirs` in the settings", ("skills/*/SKILL.md",)),
            ("settings: clawbot config check {path}", ("openclaw.json", "moltbot.json", "clawdbot.json")),
            ("settings: clawbot mcp add --from {path}", ("mcp.json",)),
        ),
    ),
    "claude-code": Program(
        "Claude Code",
        ("projects/*/*.jsonl", "-[!-]*/*.jsonl"),
        (".claude",),
        "projects/*/????????-*.jsonl",
        ((_NOTES, ("CLAUDE.md", "projects/*/memory/*.md", "*/memory/*.md", "memory/*.md")),),
    ),
    "codex": Program(
        "Codex",
        tuple(f"{each}rollout-*.json*" for each in ("", "*/", "*/*/*/", "sessions/*/*/*/")),
        (".codex",),
        "sessions/*/*/*/rollout-*.jsonl",
        ((_NOTES, ("AGENTS.md", "memories/*.md")),),
    ),
    "pi": Program(
        "pi",
        ("agent/sessions/*/*.jsonl", "sessions/*/*.jsonl", "--*--/*.jsonl"),
        (".pi",),
        "agent/sessions/*/*.jsonl",
        ((_NOTES, ("agent/AGENTS.md",)),),
    ),
    "chatgpt": Program("ChatGPT"),
    "claude-ai": Program("Claude.ai", left=(("{path}: copy into USER.md what you want", ("memories.json",)),)),
}
"""By their keys in runs. A folder of several shapes is of the first program."""


def left_in(root: Path, program: str) -> Iterator[str]:
    """Yield a line for each kind of files below `root` that is named and not imported. Blocks."""
    for text, patterns in PROGRAMS[program].left:
        found = [path for pattern in patterns for path in sorted(root.glob(pattern)) if path.is_file()]
        if found:
            yield text.format(n=len(found), path=found[0], root=root)


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
    for key, program in PROGRAMS.items():
        for folder in program.homes if key not in imported else ():
            root = (Path.home() / folder).resolve()
            if root not in found and root != paths.home.resolve():
                count = sum(1 for _ in islice(root.glob(program.talks), _MOST))
                found[root] = FoundHome(program.label, count, f"clawbot import ~/{folder}")
    return [home for home in found.values() if home.count]


def is_dismissed(paths: Paths) -> bool:
    """Whether the user wants to be offered nothing. Blocks."""
    return (paths.imports / _DISMISSED).exists()


def dismiss(paths: Paths) -> None:
    """Offer no import any more. Blocks; raises OSError."""
    create_exclusive(ensure_private_dir(paths.imports) / _DISMISSED, b"")
