"""Finds what users of other programs expect of a workspace: their instructions, includes, a vault of notes."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.text.interface import _, ngettext

if TYPE_CHECKING:
    from clawbot.config.schema_agent import AgentSettings

# Files that other programs read as AGENTS.md is read here.
_INSTRUCTIONS = (
    *("CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md", ".cursorrules", ".cursor/rules", ".windsurfrules", ".clinerules"),
    *(".github/copilot-instructions.md", "QWEN.md", "CRUSH.md"),
)
_READ = ("AGENTS.md", "CLAUDE.md", "SOUL.md", "USER.md", "TOOLS.md", "MEMORY.md")
_VAULTS = {".obsidian": "Obsidian", "logseq": "Logseq", ".foam": "Foam", ".dendron.yml": "Dendron"}
_INCLUDE = re.compile(r"(?<![\w`@])@((?:~/|\.{0,2}/)?[\w./-]+\.\w{1,5})\b")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_LEFT_OUT = frozenset({"memory", "skills", "hooks", "node_modules"})
_TEXTS = frozenset({".org", ".txt", ".mdx", ".canvas", ".rst", ".adoc"})
_MOST_BYTES = 256 * 1024
_MOST_ENTRIES = 20_000
_FEW_NOTES = 20


def expected_in(settings: AgentSettings) -> Iterator[tuple[str, str]]:
    """Yield a line for each kind of what other programs would read in the workspace, and is not read here, with what to
    do. Blocks."""
    folder = settings.workspace
    own, found = _text(folder / "AGENTS.md"), [name for name in _INSTRUCTIONS if (folder / name).exists()]
    if names := [name for name in found if (folder / name).is_dir() or _text(folder / name).strip() not in own]:
        message = _("{names}: instructions of other programs, not read here; AGENTS.md is")
        command = f"cat {shlex.quote(str(folder / names[0]))} >> {shlex.quote(str(folder / 'AGENTS.md'))}"
        yield message.format(names=", ".join(names)), command
    texts = {name: _FENCE.sub("", _text(folder / name)) for name in _READ}
    included = [(name, path) for name, text in texts.items() for path in dict.fromkeys(_INCLUDE.findall(text))]
    if included := [each for each in included if (folder / Path(each[1]).expanduser()).is_file()]:
        places = ", ".join(f"{name}: @{path}" for name, path in included[:3])
        message = _("{places}: text here, the file is not included").format(places=places)
        yield message, _("write “Read {file} first”, or copy it").format(file=included[0][1])
    yield from _other_texts(folder / "memory", settings)
    paths = (Path(str(getattr(each, "path", each))).expanduser() for each in settings.memory_search.extra_paths)
    extra = [folder / path for path in paths]
    if any(folder.is_relative_to(path) or path.is_relative_to(folder) for path in extra):
        return
    vault = next((name for mark, name in _VAULTS.items() if (folder / mark).exists()), "")
    count = sum(1 for _note in _markdown(folder))
    if count > (0 if vault else _FEW_NOTES):
        text = ngettext(
            "{n} Markdown file lies outside of memory/ and is not searched",
            "{n} Markdown files lie outside of memory/ and are not searched",
            count,
        ).format(n=f"{count:,}")
        of_vault = f" ({_('a vault of {program}').format(program=vault)})" if vault else ""
        yield f"{text}{of_vault}", "agents: {defaults: {memory_search: {extra_paths: [.]}}}"


def _other_texts(memory: Path, settings: AgentSettings) -> Iterator[tuple[str, str]]:
    """A line about the texts in the folder `memory` that are no Markdown, unless a pattern of the settings may be about
    them."""
    names = sorted(each.name for each in memory.glob("*") if each.suffix in _TEXTS) if memory.is_dir() else []
    if names and not any(getattr(each, "pattern", None) for each in settings.memory_search.extra_paths):
        shown = ", ".join(names[:3]) + ("…" if len(names) > 3 else "")
        message = _("memory/: {names}: not searched, only Markdown is").format(names=shown)
        pattern = f"*{Path(names[0]).suffix}"
        yield (
            message,
            f"agents: {{defaults: {{memory_search: {{extra_paths: [{{path: memory, pattern: '{pattern}'}}]}}}}}}",
        )


def _markdown(folder: Path) -> Iterator[str]:
    """The Markdown files below `folder`, without hidden folders, those of packages, of memory and of skills."""
    entries = itertools.count()
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT]
        for name in (*folders, *files):
            if next(entries) > _MOST_ENTRIES:
                return
            if name.endswith(".md") and (place != str(folder) or not name[:-3].isupper()):
                yield name


def _text(file: Path) -> str:
    """The text of a plain file that is not too large, "" for any other."""
    try:
        is_small = file.is_file() and file.stat().st_size <= _MOST_BYTES
        return file.read_text(encoding="utf-8", errors="replace") if is_small else ""
    except OSError:
        return ""
