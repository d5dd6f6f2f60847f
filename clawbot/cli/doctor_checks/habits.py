"""Checks what users of other programs expect of a workspace: their instructions, includes, a vault of notes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here, quoted
from clawbot.guarded import GuardedFolder
from clawbot.text.encoding import decoded
from clawbot.text.interface import _, ngettext
from clawbot.trees import TreeWalk

CHECK = "workspace"
INSTRUCTIONS = (
    *("CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md", ".cursorrules", ".cursor/rules", ".windsurfrules", ".clinerules"),
    *(".github/copilot-instructions.md", "QWEN.md", "CRUSH.md"),
)
"""Files that other programs read as AGENTS.md is read here."""
_VAULTS = {".obsidian": "Obsidian", "logseq": "Logseq", ".foam": "Foam", ".dendron.yml": "Dendron"}
_INCLUDE = re.compile(r"(?<![\w`@])@((?:~/|\.{0,2}/)?[\w./-]+\.\w{1,5})\b")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_READ = ("AGENTS.md", "CLAUDE.md", "SOUL.md", "USER.md", "TOOLS.md", "MEMORY.md")
_MOST_BYTES = 256 * 1024
_MOST_ENTRIES = 20_000
_FEW_NOTES = 20


def expected_elsewhere(here: Here) -> Findings:
    """What other programs would read in this workspace, and is not read here: a line for each kind."""
    folder = here.settings.workspace
    found = (_instructions(folder), _includes(folder), _notes(here, folder)) if folder.is_dir() else ()
    return [Finding(CHECK, "warning", *each) for each in found if each]


def _instructions(folder: Path) -> tuple[str, str] | None:
    own = _text(folder / "AGENTS.md")
    found = ((name, folder / name) for name in INSTRUCTIONS if (folder / name).exists())
    names = [name for name, file in found if file.is_dir() or _text(file).strip() not in own]
    if not names:
        return None
    message = _("{names}: instructions of other programs, not read here; AGENTS.md is").format(names=", ".join(names))
    return message, f"cat {quoted(folder / names[0])} >> {quoted(folder / 'AGENTS.md')}"


def _includes(folder: Path) -> tuple[str, str] | None:
    places = [
        f"{name}: @{path}"
        for name in _READ
        for path in dict.fromkeys(_INCLUDE.findall(_FENCE.sub("", _text(folder / name))))
        if (folder / Path(path).expanduser()).is_file()
    ]
    if not places:
        return None
    message = _("{places}: text here, the file is not included").format(places=", ".join(places[:3]))
    return message, _("write “Read {file} first”, or copy it").format(file=places[0].split("@")[1])


def _notes(here: Here, folder: Path) -> tuple[str, str] | None:
    """Notes outside of memory/, which no search finds unless the settings name them."""
    extra = [Path(str(getattr(each, "path", each))).expanduser() for each in here.settings.memory_search.extra_paths]
    if any(folder.is_relative_to(path if path.is_absolute() else folder / path) for path in extra):
        return None
    count = sum(1 for _note in itertools.islice(_markdown(folder), _MOST_ENTRIES))
    vault = next((name for mark, name in _VAULTS.items() if (folder / mark).exists()), "")
    if count <= (0 if vault else _FEW_NOTES) or any(folder in (folder / path).parents for path in extra):
        return None
    text = ngettext(
        "{n} Markdown file lies outside of memory/ and is not searched",
        "{n} Markdown files lie outside of memory/ and are not searched",
        count,
    ).format(n=f"{count:,}")
    message = f"{text} ({_('a vault of {program}').format(program=vault)})" if vault else text
    return message, "agents: {defaults: {memory_search: {extra_paths: [.]}}}"


def _markdown(folder: Path) -> Iterator[str]:
    """The Markdown files below `folder`, without hidden folders, those of packages, of memory and of skills."""
    left_out = {"memory", "skills", "hooks", "node_modules"}
    with GuardedFolder(folder).folder() as top:
        for entry in TreeWalk(top, ignored=left_out, skips=lambda path: "/." in f"/{path}", most=_MOST_ENTRIES):
            if (
                entry.name.endswith(".md")
                and not entry.is_folder
                and ("/" in entry.path or not entry.name[:-3].isupper())
            ):
                yield entry.name


def _text(file: Path) -> str:
    """The text of a plain file that is not too large, "" for any other."""
    try:
        return decoded(GuardedFolder(file.parent).read(file.name, _MOST_BYTES), errors="replace")
    except OSError:
        return ""
