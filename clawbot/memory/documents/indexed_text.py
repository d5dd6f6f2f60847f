"""Decides which lines of a document are indexed; the others become blank, so that line numbers are those of the file.
Excluded are unchanged lines of the shipped templates, empty quotes, and the metadata lines of session notes and of
outliners.

Session notes of this program and related ones share a format: `# Session: …`, facts as a list, `## Conversation
Summary`, then a block for each message. A block is a line with the speaker, optionally after day and time, and the
quoted lines below it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from clawbot.config.errors import ConfigError
from clawbot.config.paths import shipped
from clawbot.guarded import GuardedFolder
from clawbot.languages.tables import pattern_in
from clawbot.memory.documents.memory_files import (
    MEMORY_FOLDER,
    ROOT_FILES,
    Document,
    MemoryDocuments,
    UnreadableDocumentError,
)
from clawbot.memory.documents.walking import IGNORED_FOLDERS, FileState, is_markdown
from clawbot.text.patterns import lazy_re
from clawbot.text.statements import is_refusal
from clawbot.trees import TreeWalk

_HEAD_CHARS = 4_000
_ID = lazy_re(r"^(?:- \*\*Session ID\*\*: |<!-- session )", re.MULTILINE)
_FACT = lazy_re(
    r"- \*\*Session (?:Key|ID)\*\*: |- \*\*(?:Source|Reason)\*\*: |## Conversation Summary\s*$|<!-- session "
)
_SPEAKER = lazy_re(r"(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?(?P<role>user|assistant):[ \t]*")
_QUOTE_MARK = lazy_re(r">[ \t]?")
# The source of a quote, as written by the offline model and models that cite.
_CITED = lazy_re(rf"[>\s]*(?:[-—–]+|{pattern_in('source')})\s*`?[^`\n]*\.md(?:[:#]L?\d+(?:-L?\d+)?)?`?\)?\s*$")
_REFERENCE = lazy_re(r"\[quoted: [^\]\n]*\]\s*$")


def is_session_note(text: str) -> bool:
    """Return whether `text`, a memory file, is the note of an ended session."""
    return _ID.search(text[:_HEAD_CHARS].partition("\n## ")[0]) is not None


def speakers_of(lines: Sequence[str]) -> Iterator[str]:
    """Yield the speaker of each line of a session note: `user`, `assistant`, or "" outside the conversation."""
    who = ""
    for line in lines:
        if speaker := _SPEAKER.match(line):
            who = speaker["role"]
        elif not line.startswith(">"):
            who = ""
        yield who


def lines_of_its_own(lines: Sequence[str]) -> Iterator[int]:
    """Yield the numbers (from 0) of lines of a session note that contain nothing about the user or the world."""
    number = 0
    while number < len(lines):
        speaker = _SPEAKER.match(lines[number])
        if speaker is None:
            if _FACT.match(lines[number]):
                yield number
            number += 1
            continue
        end = number + 1
        while end < len(lines) and lines[end].startswith(">"):
            end += 1
        if speaker["role"] == "assistant":
            block = [
                lines[number][speaker.end() :],
                *(_QUOTE_MARK.sub("", line, count=1) for line in lines[number + 1 : end]),
            ]
            yield from (number + inside for inside in _repeated(block))
        number = end


def _repeated(block: Sequence[str]) -> Iterator[int]:
    """Yield the agent's lines that are refusals or quotes of notes."""
    if is_refusal("\n".join(block)):
        yield from range(len(block))
        return
    quotes = any(_CITED.match(line) or _REFERENCE.match(line) for line in block)
    for number, line in enumerate(block):
        is_quote = line.startswith(">") or _CITED.match(line) or (not number and line.rstrip().endswith((":", "：")))
        if (quotes and is_quote) or _REFERENCE.match(line):
            yield number


_RULE = 4  # increment when the same document has other lines excluded, or other days
_TEMPLATE = "workspace_template"
# What Logseq and Org store with a line: its id, whether it is folded, when its clock ran.
_LINE_METADATA = lazy_re(
    r"^[ \t]*(?:[-*+][ \t]+)?(?:(?:id|collapsed|logseq\.[\w.-]+)::[ \t][^\n]*|:(?:LOGBOOK|PROPERTIES|END):[ \t]*"
    r"|CLOCK:[ \t]*\[[^\n]*)$",
    re.MULTILINE,
)
_EMPTY_QUOTE = lazy_re(r"^[ \t]*>[> \t]*$", re.MULTILINE)
_HEADING = lazy_re(r"[ \t]{0,3}#{1,6}(?:[ \t]|$)")


def indexed_text(document: Document) -> str:
    """Return the text of `document` with blank lines in place of excluded ones. Blocks at the first template."""
    text = document.text
    if document.state.source != "memory":
        return text
    if is_session_note(text):
        lines = text.split("\n")
        for number in lines_of_its_own(lines):
            lines[number] = ""
        text = "\n".join(lines)
    elif (template := _templates().get(document.state.path.casefold())) is not None:
        text = "\n".join(_edited(text.split("\n"), template))
    text = _EMPTY_QUOTE.sub("", text) if ">" in text else text
    return _LINE_METADATA.sub("", text) if "::" in text or ":END:" in text else text


@cache
def indexing_rule() -> str:
    """Return the version of the rule and the templates: an index depends on both."""
    digest = hashlib.blake2b(digest_size=4)
    for name, lines in sorted(_templates().items()):
        digest.update("\n".join([name, *sorted(lines)]).encode())
    return f"{_RULE}-{digest.hexdigest()}"


@cache
def _templates() -> dict[str, frozenset[str]]:
    """Return the normalised lines of each template, by name."""
    try:
        files = sorted(shipped(_TEMPLATE).glob("*.md"))
        return {file.name.casefold(): frozenset(map(str.strip, file.read_text("utf-8").split("\n"))) for file in files}
    except (ConfigError, OSError):
        return {}  # without templates nothing was created from them


def _edited(lines: Sequence[str], template: frozenset[str]) -> list[str]:
    """`lines` with those of the template blanked. A template heading is kept if there is text below it."""
    kept = ["" if line.strip() in template else line for line in lines]
    has_text = False
    for number in range(len(lines) - 1, -1, -1):
        if not _HEADING.match(lines[number]):
            has_text = has_text or bool(kept[number])
            continue
        if has_text:
            kept[number] = lines[number]
        has_text = False
    return kept


def count_notes(workspace: Path) -> int:
    """Return the number of notes below memory/, within a bounded walk, plus MEMORY.md if it was edited.

    Blocks. Unreadable folders count as empty: a figure must not fail a turn.
    """
    notes = 0
    with contextlib.suppress(OSError), GuardedFolder(workspace).folder(MEMORY_FOLDER) as folder:
        walk = TreeWalk(folder, ignored=IGNORED_FOLDERS, skips=_is_hidden)
        notes = sum(is_markdown(entry.name) and not entry.is_folder for entry in walk)
    return notes + _has_indexed_line(MemoryDocuments(workspace, ()))


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def _has_indexed_line(documents: MemoryDocuments) -> bool:
    """Return whether MEMORY.md has an indexed line."""
    for name in ROOT_FILES:
        with contextlib.suppress(UnreadableDocumentError):
            document = documents.read(FileState(name, documents.source, 0, 0))
            if document is not None:
                return bool(indexed_text(document).strip())
    return False
