"""The user's input: its classification (for the runtime, a screen command, or a mistake), completions, the history of
what was sent (`history.jsonl`), and texts put aside (`drafts.json`). The commands are in clawbot.agent.slash."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.agent.slash import CommandInfo, nearest_command, parse_command
from clawbot.files import PRIVATE_FILE, ensure_private_dir, locked, read_plain, write_atomic
from clawbot.text.secrets import holds_secret

_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
_ARGUMENT = re.compile(r"(/[A-Za-z][\w-]*)[ \t]+(\S*)$")
_SIGNS = '/@"'
_WORDS = re.compile(r"\[([\w-]+(?:\|[\w-]+)+)\]")  # `[md|json]` in the arguments of a command


class Choice(Struct, frozen=True):
    """A completion: the text to insert, what may follow it, its description (with `code`), and whether Enter sends it
    at once."""

    text: str
    help: str = ""
    complete: bool = False
    arguments: str = ""


class CompletionRequest(Struct, frozen=True):
    """What is being completed: its kind, the typed part, its start in the text before the cursor, and the command whose
    argument it is."""

    kind: str
    typed: str
    start: int
    command: str = ""


def argument_words(arguments: str) -> list[str]:
    """Return the words that a command takes, as its `arguments` list them."""
    return [word for words in _WORDS.findall(arguments) for word in words.split("|")]


def wanted(before: str) -> CompletionRequest | None:
    """Return the completion requested by the text before the cursor, if any."""
    if before.startswith("/") and not re.search(r"\s", before):
        return CompletionRequest("command", before, 0)
    if mention := _MENTION.search(before):
        return CompletionRequest("file", mention[1], mention.start())
    if argument := _ARGUMENT.fullmatch(before):
        return CompletionRequest("argument", argument[2], argument.start(2), argument[1].lower())
    return None


def best(typed: str, choices: Sequence[Choice]) -> list[Choice]:
    """Return the matching choices, best first: what is typed itself, those that begin with it, then those with its
    letters in order."""
    from textual.fuzzy import Matcher

    word = typed.lstrip(_SIGNS)
    if not word:
        return list(choices)
    begins = [choice for choice in choices if choice.text.lstrip(_SIGNS).startswith(word)]
    begins.sort(key=lambda choice: choice.text != typed)
    matcher = Matcher(word)
    others = [choice for choice in choices if choice not in begins]
    scored = [(matcher.match(choice.text), choice) for choice in others]
    ranked = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])
    return [*begins, *(choice for _, choice in ranked)]


class Submitted(Struct, frozen=True):
    """A message for the model, or a slash command of the runtime."""

    text: str


class ScreenCommand(Struct, frozen=True):
    """A slash command of the screen: its name with the slash, and its argument."""

    name: str
    argument: str


class UnknownCommand(Struct, frozen=True):
    """An unknown slash command; `nearest` is the probable intention."""

    name: str
    nearest: str | None


UserInput = Submitted | ScreenCommand | UnknownCommand


ShellMode = Literal["", "kept", "shared"]
"""What the prompt is about to do: send a message, or run a command whose output the model does not see, or sees."""


def shell_mode(text: str) -> ShellMode:
    """Return what `text` in the prompt does when it is sent."""
    return "shared" if text.startswith("!!") else "kept" if text.startswith("!") else ""


def classify(text: str, commands: Collection[CommandInfo]) -> UserInput | None:
    """Classify `text`, given the known `commands`; None for what is no message yet: whitespace, the sign of a shell
    command alone."""
    if not text.strip() or text.rstrip() in ("!", "!!"):
        return None
    parsed = parse_command(text)
    if parsed is None:
        return Submitted(text)
    name, argument = f"/{parsed.name}", parsed.argument
    known = {command.name: command for command in commands}
    if name not in known:
        return UnknownCommand(name, nearest_command(name, known))
    if known[name].is_for_screen(argument):
        return ScreenCommand(name, argument)
    return Submitted(f"{name} {argument}".rstrip())


MAX_ENTRIES = 1000  # entries that are loaded and kept in memory
ENTRY_MAX = 20_000  # characters; a longer text is remembered until the end of the program only
READ_MAX = 2_000_000  # bytes read from the end of the file

log = logging.getLogger(__name__)


class PromptHistory:
    """Navigates earlier inputs; the draft is the last one."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._index: int | None = None
        self._draft = ""

    def older(self, current: str) -> str | None:
        """Return the previous input, or None at the oldest. `current` is the content of the prompt."""
        if self._index is None:
            self._draft = current
        index = len(self.entries) if self._index is None else self._index
        while index > 0:
            index -= 1
            if self.entries[index] != current:
                self._index = index
                return self.entries[index]
        return None

    def newer(self) -> str | None:
        """Return the next input; after the newest, the draft. None if that is shown."""
        if self._index is None:
            return None
        self._index += 1
        if self._index >= len(self.entries):
            self._index = None
            return self._draft
        return self.entries[self._index]

    def leave(self) -> None:
        """Make the shown text the draft: it was edited."""
        self._index = None

    def add(self, text: str) -> bool:
        """Remember `text`; return False if it repeats the last entry."""
        self._index = None
        if not text.strip() or (self.entries and self.entries[-1] == text):
            return False
        self.entries.append(text)
        del self.entries[:-MAX_ENTRIES]
        return True

    def preload(self, entries: list[str]) -> None:
        self.entries[:0] = entries
        self._index = None


def load_history(path: Path) -> list[str]:
    """Return the last entries of the file, oldest first. Blocks. A line that can't be read is skipped and logged."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - READ_MAX))
            data = stream.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("The input history can't be read: %s", error)
        return []
    rows = data.decode(errors="replace").split("\n")
    if size > READ_MAX:
        del rows[0]
    entries = [entry for row in rows if row.strip() and (entry := _entry(row)) is not None]
    return entries[-MAX_ENTRIES:]


def _entry(row: str) -> str | None:
    with contextlib.suppress(ValueError):
        value = json.loads(row)
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            return str(value["text"])
    log.warning("A line of the input history is no entry and was skipped.")
    return None


def save_entry(path: Path, text: str) -> None:
    """Append `text` to a private file, unless it contains a secret: then it is remembered only until the program ends.
    Blocks. Failures are logged and do not stop the chat."""
    if len(text) > ENTRY_MAX or holds_secret(text):
        return
    row = json.dumps({"text": text}, ensure_ascii=False).encode(errors="replace") + b"\n"
    try:
        ensure_private_dir(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
        with os.fdopen(handle, "ab") as stream:
            stream.write(row)
    except OSError as error:
        log.warning("The input history can't be written: %s", error)


MAX_DRAFTS = 50  # texts in the file; the oldest ones go
MAX_DRAFT_BYTES = 8 * 1024**2


class Drafts:
    """A stack of texts. What holds a secret is kept in memory only, and so is what can't be written."""

    def __init__(self) -> None:
        self._unwritten: list[str] = []

    async def put(self, file: Path, text: str) -> None:
        if holds_secret(text) or not await asyncio.to_thread(_push, file, text):
            self._unwritten.append(text)

    async def take(self, file: Path) -> str:
        """Remove the last text and return it; "" if there is none."""
        return self._unwritten.pop() if self._unwritten else await asyncio.to_thread(_pop, file)


def _push(file: Path, text: str) -> bool:
    try:
        with locked(ensure_private_dir(file.parent)):
            _write(file, [*_read(file), text][-MAX_DRAFTS:])
    except OSError as error:
        log.warning("What was put aside can't be written: %s", error)
        return False
    return True


def _pop(file: Path) -> str:
    try:
        with locked(ensure_private_dir(file.parent)):
            *rest, last = _read(file) or [""]
            if last:
                _write(file, rest)
    except OSError as error:
        log.warning("What was put aside can't be taken back: %s", error)
        return ""
    return last


def _read(file: Path) -> list[str]:
    """Return the texts, the oldest first; a damaged file holds none."""
    try:
        return msgspec.json.decode(read_plain(file, limit=MAX_DRAFT_BYTES), type=list[str])
    except FileNotFoundError:
        return []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("%s is damaged: %s", file, error)
        return []


def _write(file: Path, texts: list[str]) -> None:
    write_atomic(file, msgspec.json.encode(texts) + b"\n")
