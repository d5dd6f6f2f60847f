"""Which lines of a document are knowledge: the others are blank to the index, so that line numbers stay those of the
file. Left out are unchanged lines of the shipped templates, empty quotes, and a session note's lines of its own.

Notes of sessions, of this program and of others of its family (reference sheet 11.1), have the same form:
`# Session: …`, facts as a list, `## Conversation Summary`, then a block for each text. A block is a line that begins
with the speaker, perhaps with a day and a time before it, and the lines quoted below it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from clawbot.config.errors import ConfigError
from clawbot.config.paths import shipped
from clawbot.memory.documents.memory_files import (
    MEMORY_FOLDER,
    ROOT_FILES,
    Document,
    MemoryDocuments,
    UnreadableDocumentError,
)
from clawbot.memory.documents.walking import IGNORED_FOLDERS, FileState, is_markdown
from clawbot.text.statements import is_refusal
from clawbot.trees import TreeWalk

_HEAD_CHARS = 4_000
_ID = re.compile(r"^(?:- \*\*Session ID\*\*: |<!-- session )", re.MULTILINE)
_FACT = re.compile(
    r"- \*\*Session (?:Key|ID)\*\*: |- \*\*(?:Source|Reason)\*\*: |## Conversation Summary\s*$|<!-- session "
)
_SPEAKER = re.compile(r"(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?(?P<role>user|assistant):[ \t]*")
_QUOTE_MARK = re.compile(r">[ \t]?")
# Where a quote comes from, as the offline model and models that cite write it.
_CITED = re.compile(r"[>\s]*(?:[-—–]+|Source:|\(?来源[::])\s*`?[^`\n]*\.md(?:[:#]L?\d+(?:-L?\d+)?)?`?\)?\s*$")
_REFERENCE = re.compile(r"\[quoted: [^\]\n]*\]\s*$")


def is_session_note(text: str) -> bool:
    """Whether `text`, a file of the memory, is the note of an ended session."""
    return _ID.search(text[:_HEAD_CHARS].partition("\n## ")[0]) is not None


def who_says(lines: Sequence[str]) -> Iterator[str]:
    """Who said each line of a session's note: `user`, `assistant`, or "" for what is no part of the talk."""
    who = ""
    for line in lines:
        if said := _SPEAKER.match(line):
            who = said["role"]
        elif not line.startswith(">"):
            who = ""
        yield who


def lines_of_its_own(lines: Sequence[str]) -> Iterator[int]:
    """The numbers (from 0) of the lines of a session's note that say nothing about the user or the world."""
    number = 0
    while number < len(lines):
        said = _SPEAKER.match(lines[number])
        if said is None:
            if _FACT.match(lines[number]):
                yield number
            number += 1
            continue
        end = number + 1
        while end < len(lines) and lines[end].startswith(">"):
            end += 1
        if said["role"] == "assistant":
            block = [
                lines[number][said.end() :],
                *(_QUOTE_MARK.sub("", line, count=1) for line in lines[number + 1 : end]),
            ]
            yield from (number + inside for inside in _unsaid(block))
        number = end


def _unsaid(block: Sequence[str]) -> Iterator[int]:
    """The lines of what the agent said that are a refusal, or a quote of a note."""
    if is_refusal("\n".join(block)):
        yield from range(len(block))
        return
    quotes = any(_CITED.match(line) or _REFERENCE.match(line) for line in block)
    for number, line in enumerate(block):
        is_quote = line.startswith(">") or _CITED.match(line) or (not number and line.rstrip().endswith((":", "：")))
        if (quotes and is_quote) or _REFERENCE.match(line):
            yield number


_RULE = 2  # to be counted up when other lines of the same document are left out than before
_TEMPLATE = "workspace_template"
_EMPTY_QUOTE = re.compile(r"^[ \t]*>[> \t]*$", re.MULTILINE)
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]|$)")


def indexed_text(document: Document) -> str:
    """The text of `document` with a blank line in place of each that is not indexed. Blocks at the first template."""
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
    return _EMPTY_QUOTE.sub("", text) if ">" in text else text


@cache
def indexing_rule() -> str:
    """What an index depends on of this module: the version of its rule, and the templates that it compares with."""
    digest = hashlib.blake2b(digest_size=4)
    for name, lines in sorted(_templates().items()):
        digest.update("\n".join([name, *sorted(lines)]).encode())
    return f"{_RULE}-{digest.hexdigest()}"


@cache
def _templates() -> dict[str, frozenset[str]]:
    """The lines of each template by its name, both as they are compared."""
    try:
        files = sorted(shipped(_TEMPLATE).glob("*.md"))
        return {file.name.casefold(): frozenset(map(str.strip, file.read_text("utf-8").split("\n"))) for file in files}
    except (ConfigError, OSError):
        return {}  # an installation without them has seeded none


def _edited(lines: Sequence[str], template: frozenset[str]) -> list[str]:
    """`lines` with blank ones for those of the template. A heading of it stays where something stands under it."""
    kept = ["" if line.strip() in template else line for line in lines]
    says = False
    for number in range(len(lines) - 1, -1, -1):
        if not _HEADING.match(lines[number]):
            says = says or bool(kept[number])
            continue
        if says:
            kept[number] = lines[number]
        says = False
    return kept


def count_notes(workspace: Path) -> int:
    """The notes below memory/, as far as a bounded walk gets, and MEMORY.md once it says more than its template.

    Blocks. What can't be read counts as empty: a figure must not end a turn.
    """
    notes = 0
    with contextlib.suppress(OSError):
        folder = os.open(workspace / MEMORY_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            walk = TreeWalk(folder, ignored=IGNORED_FOLDERS, skips=_is_hidden)
            notes = sum(is_markdown(entry.name) and not entry.is_folder for entry in walk)
        finally:
            os.close(folder)
    return notes + _says_something(MemoryDocuments(workspace, ()))


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def _says_something(documents: MemoryDocuments) -> bool:
    """Whether the file of what stays true holds a line that is indexed."""
    for name in ROOT_FILES:
        with contextlib.suppress(UnreadableDocumentError):
            document = documents.read(FileState(name, documents.source, 0, 0))
            if document is not None:
                return bool(indexed_text(document).strip())
    return False
