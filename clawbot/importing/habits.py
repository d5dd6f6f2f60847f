"""Finds what users of other programs expect of a workspace: their instructions, includes, a vault of notes."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.guarded import GuardedFolder, RefusedFileError, read_guarded
from clawbot.text.interface import _, ngettext
from clawbot.trees import TreeWalk

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
_MAX_ENTRIES = 20_000
_FEW_NOTES = 20


def expected_in(settings: AgentSettings) -> Iterator[tuple[str, str]]:
    """Yield a line for each kind of what other programs would read in the workspace, and is not read here, with what to
    do. Blocks."""
    folder = settings.workspace
    own, found = _text(folder, "AGENTS.md"), [name for name in _INSTRUCTIONS if (folder / name).exists()]
    if names := [name for name in found if (folder / name).is_dir() or _text(folder, name).strip() not in own]:
        message = _("{names}: instructions of other programs, not read here; AGENTS.md is")
        command = f"cat {shlex.quote(str(folder / names[0]))} >> {shlex.quote(str(folder / 'AGENTS.md'))}"
        yield message.format(names=", ".join(names)), command
    texts = {name: _FENCE.sub("", _text(folder, name)) for name in _READ}
    included = [(name, path) for name, text in texts.items() for path in dict.fromkeys(_INCLUDE.findall(text))]
    if included := [each for each in included if (folder / Path(each[1]).expanduser()).is_file()]:
        lines = ", ".join(f"{name}: @{path}" for name, path in included[:3])
        message = _("{places}: text here, the file is not included").format(places=lines)
        yield message, _("write “Read {file} first”, or copy it").format(file=included[0][1])
    yield from _other_texts(folder, settings)
    paths = (Path(str(getattr(each, "path", each))).expanduser() for each in settings.memory_search.extra_paths)
    extra = [folder / path for path in paths]
    if any(folder.is_relative_to(path) or path.is_relative_to(folder) for path in extra):
        return
    vault = next((name for mark, name in _VAULTS.items() if (folder / mark).exists()), "")
    count = _notes_in(folder)
    if count > (0 if vault else _FEW_NOTES):
        text = ngettext(
            "{n} Markdown file lies outside of memory/ and is not searched",
            "{n} Markdown files lie outside of memory/ and are not searched",
            count,
        ).format(n=f"{count:,}")
        of_vault = f" ({_('a vault of {program}').format(program=vault)})" if vault else ""
        yield f"{text}{of_vault}", "agents: {defaults: {memory_search: {extra_paths: [.]}}}"


def _other_texts(folder: Path, settings: AgentSettings) -> Iterator[tuple[str, str]]:
    """A line about the texts in `memory/` that are no Markdown, unless a pattern of the settings may be about them."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(name for name in GuardedFolder(folder).names("memory") if Path(name).suffix in _TEXTS)
    if names and not any(getattr(each, "pattern", None) for each in settings.memory_search.extra_paths):
        shown = ", ".join(names[:3]) + ("…" if len(names) > 3 else "")
        message = _("memory/: {names}: not searched, only Markdown is").format(names=shown)
        pattern = f"*{Path(names[0]).suffix}"
        yield (
            message,
            f"agents: {{defaults: {{memory_search: {{extra_paths: [{{path: memory, pattern: '{pattern}'}}]}}}}}}",
        )


def _notes_in(folder: Path) -> int:
    """How many Markdown files are below `folder`, without hidden ones, those of packages, of memory and of skills."""
    count = 0
    with contextlib.suppress(OSError), GuardedFolder(folder).folder() as top:
        for entry in TreeWalk(top, skips=_is_hidden, ignored=_LEFT_OUT, most=_MAX_ENTRIES):
            is_own = entry.path == entry.name and entry.name[:-3].isupper()
            count += entry.name.endswith(".md") and not entry.is_folder and not is_own
    return count


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def _text(folder: Path, name: str) -> str:
    """Return the text of a file of the workspace, "" if it is missing or can't be read."""
    try:
        return read_guarded(folder, name) or ""
    except RefusedFileError:
        return ""
