"""Which commands only read: the list of programs, options and operands in `shell_reading.toml`, applied to a command.

What is not understood to the last word is not on the list: an unknown option, an abbreviated one, a value where a
program might expect an option, an operand that may lead out of the workspace, and whatever the shell would make other
words of (`*`, `{a,b}`, `~`), but for files that are only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.text.names import fold_name
from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table
from clawbot.tools.paths import is_secret_path
from clawbot.tools.shell_syntax import ScriptWord, simple_command

MAX_NAME_WORDS = 3  # `git stash list`
GIT_BEFORE_SUBCOMMAND = ("--no-pager", "--no-optional-locks")
ANSWERS_ITSELF = ("--version", "--help")

_NUMBER = lazy_re(r"[-+]?\d+[bcwkKMG%]?")
# What git calls a way to show a commit. Any other name is one of the user's settings, which may run gpg.
_FORMAT = lazy_re(r"oneline|short|medium|full|fuller|reference|email|raw|(?:t?format:|[^%]*%).*")
# What begins with a wildcard may expand to an option, `.*` to `..`, and `**` means more in some shells.
_UNSAFE_GLOB = lazy_re(r"^[*?]|(?:^|/)\.[^/]*[*?]|\*\*")

Kind = Literal["text", "number", "file", "format"]


class Reading(Struct, frozen=True):
    """A command that only reads: the `name` of its program as the list has it, and what it reads below the workspace.

    `paths` are relative and may hold `*` and `?`; with `walks` it goes down folders, with `shows` it prints what the
    files there hold, with `dotted` also of those whose names begin with a dot, and with `plain_files` a path that is a
    folder is beyond the list.
    """

    name: str
    paths: tuple[str, ...] = ()
    walks: bool = False
    shows: bool = False
    dotted: bool = True
    plain_files: bool = False


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """One program of the list; the fields are explained at its top."""

    options: str = ""
    uses: tuple[str, ...] = ()
    operands: Literal["none", "text", "files", "pattern", "revisions", "pattern in revisions", "date"] = "none"
    most: int | None = None
    operands_with: tuple[str, ...] = ()
    no_pattern_with: tuple[str, ...] = ()
    walks: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    dotted: tuple[str, ...] = ("always",)
    plain_files: bool = False
    find: bool = False
    refuse: tuple[str, ...] = ()


class _ReadingList(Struct, frozen=True, forbid_unknown_fields=True):
    git_settings: dict[str, str]
    groups: dict[str, str]
    programs: dict[str, Program]


class Option(Struct, frozen=True):
    """What an option takes: no value (`kind` None), or one; `optional`: in the same word only, and none as well."""

    kind: Kind | None = None
    optional: bool = False


class _NotOnTheListError(Exception):
    """The command does something that the list does not hold."""


def reading(command: str) -> Reading | None:
    """What `command` reads where it is one simple command of the list: whatever the disk holds, it changes nothing,
    runs nothing else and names no path outside the workspace. None for any other.

    Reads the list at its first call (a few milliseconds).
    """
    words = simple_command(command)
    return None if words is None else reading_of(words)


def reading_of(words: Sequence[ScriptWord]) -> Reading | None:
    """As `reading`, of the words of a simple command."""
    try:
        name, program, rest = _program(words)
        return _Arguments(name, program).take(rest)
    except _NotOnTheListError:
        return None


def is_listed(command: str) -> bool:
    """Whether `command` is a simple one of a program on the list, whatever its arguments are."""
    try:
        return bool(_program(simple_command(command) or []))
    except _NotOnTheListError:
        return False


def _program(words: Sequence[ScriptWord]) -> tuple[str, Program, list[ScriptWord]]:
    """The longest name of the list that the command begins with, and the words behind it."""
    rest = list(words)
    if rest and rest[0].text == "git":
        while len(rest) > 1 and rest[1].text in GIT_BEFORE_SUBCOMMAND:
            del rest[1]
    for count in range(min(MAX_NAME_WORDS, len(rest)), 0, -1):
        name = " ".join(word.text for word in rest[:count])
        # A word with a space in it is another program's name.
        program = programs().get(name) if name.count(" ") == count - 1 else None
        if program is not None:
            return name, program, rest[count:]
    raise _NotOnTheListError


@cache
def programs() -> dict[str, Program]:
    """The programs by name, from the list that is shipped. Blocks at the first call."""
    return reading_list().programs


@cache
def options_of(name: str) -> dict[str, Option]:
    """The options of the program `name` as they are written (`-n`, `--lines`)."""
    program = programs()[name]
    groups = reading_list().groups
    notations = " ".join([*(groups[group] for group in program.uses), program.options]).split()
    return dict(_option(notation) for notation in notations)


@cache
def reading_list() -> _ReadingList:
    """The list that is shipped. Blocks at the first call."""
    return packaged_table("clawbot.tools", "shell_reading.toml", _ReadingList)


def _option(notation: str) -> tuple[str, Option]:
    name, equals, kind = notation.partition("=")
    return name.removesuffix("?"), Option(msgspec.convert(kind, Kind) if equals else None, name.endswith("?"))


class _Arguments:
    """The words behind the name of one program, taken one by one; raises _NotOnTheListError."""

    def __init__(self, name: str, program: Program) -> None:
        self._name = name
        self._program = program
        self._options = options_of(name)
        self._seen: set[str] = set()
        self._operands: list[ScriptWord] = []
        self._paths: list[str] = []

    def take(self, words: Sequence[ScriptWord]) -> Reading:
        program = self._program
        _demand(not any(re.search(refused, word.text, re.DOTALL) for refused in program.refuse for word in words))
        left = iter(words)
        for word in left:
            if word.text == "--":
                self._operands += left
            elif word.text in ("-", "") or not word.text.startswith("-"):
                self._operands.append(word)
            elif program.find or word.text.startswith("--"):
                self._long(word, left)
            else:
                self._short(word, left)
        self._check_operands()
        # What git shows may be of any file of the repository.
        walks = self._name.startswith("git ") or self._does(program.walks)
        paths = tuple(self._paths) or ((".",) if walks else ())
        shows, dotted = self._does(program.shows), self._does(program.dotted)
        return Reading(self._name, paths, walks, shows, dotted, program.plain_files)

    def _does(self, options: tuple[str, ...]) -> bool:
        return options == ("always",) or not self._seen.isdisjoint(options)

    def _long(self, word: ScriptWord, left: Iterator[ScriptWord]) -> None:
        """`--option`, `--option=value`, or an option of find with its value as the next word."""
        name, equals, _ = word.text.partition("=")
        if name in ANSWERS_ITSELF and word.text == name and not self._name.startswith("git"):
            return
        option = self._known(name)
        if self._program.find:
            _demand(not equals)
            if option.kind is not None:
                self._value(option, next(left, None))
        elif equals:
            self._value(option, word.part(len(name) + 1), long=True)
        else:
            _demand(option.kind is None or option.optional)

    def _short(self, word: ScriptWord, left: Iterator[ScriptWord]) -> None:
        """`-l`, `-la`, `-n 5`, `-n5`, `-20`. Where programs differ, a value in the word of an option is an option."""
        if word.text[1:].isdecimal() and "-#" in self._options:
            return
        if word.text in self._options:
            option = self._known(word.text)
            if option.kind is not None and not option.optional:
                self._value(option, next(left, None))
            return
        first = self._known(word.text[:2])
        if first.kind == "number":
            self._value(first, word.part(2))
            return
        for letter in word.text[1:]:
            _demand(self._known(f"-{letter}").kind is None)

    def _known(self, name: str) -> Option:
        option = self._options.get(name)
        if option is None:
            raise _NotOnTheListError
        self._seen.add(name)
        return option

    def _value(self, option: Option, value: ScriptWord | None, *, long: bool = False) -> None:
        """A value as the next word, a number in the word of its option, or with `long` what is behind a `=`."""
        if value is None or option.kind is None:
            raise _NotOnTheListError
        if option.kind == "number":
            _demand(_NUMBER.fullmatch(value.text) is not None)
            return
        if option.kind == "format":
            _demand(_FORMAT.fullmatch(value.text) is not None)
        # What begins with `-` might be an option to a program that takes no value here.
        _demand(long or not value.text.startswith("-"))
        # Behind `--include=` whatever a pattern of the shell expands to is a value again, though not the same.
        any_text = long and option.kind == "text" and not self._program.refuse
        _demand(value.is_inert("*?" if any_text else ""))
        if option.kind == "file":
            self._path(value)

    def _check_operands(self) -> None:
        program, operands = self._program, self._operands
        # Behind `--` as well: a program that took that for a value would take these for options.
        _demand(not any(word.text.startswith("-") and word.text != "-" for word in operands))
        # `tail +1f` never ends, `uniq +1` is an option.
        _demand(program.operands == "date" or not any(word.text.startswith("+") for word in operands))
        _demand(program.most is None or len(operands) <= program.most)
        _demand(not operands or not program.operands_with or not self._seen.isdisjoint(program.operands_with))
        rest = operands
        if program.operands.startswith("pattern") and operands and self._seen.isdisjoint(program.no_pattern_with):
            _demand(operands[0].is_inert())
            rest = operands[1:]
        for word in rest:
            self._operand(word)

    def _operand(self, word: ScriptWord) -> None:
        kind = self._program.operands
        if kind in ("files", "pattern"):
            self._path(word)
            return
        _demand(kind != "none" and word.is_inert())
        if kind == "date":
            # Without `+` it is a time to set the clock to.
            _demand(word.text.startswith("+") and len(self._operands) == 1)
        elif kind != "text":
            # `HEAD:path` names a path as well; `A..B` is no way up; `:(top)x` and its like begin elsewhere.
            _demand(all(is_inside(part) for part in [word.text, *word.text.split(":")]))
            # Outside of a repository `git diff` compares files.
            self._paths.append(word.text)

    def _path(self, word: ScriptWord) -> None:
        _demand(is_inside(word.text))
        if not word.is_inert():
            # Where the number of words counts, one must not become two; and `[` in quotes is none to the shell.
            _demand(self._program.most is None and "[" not in word.text and not _UNSAFE_GLOB.search(word.bare))
            _demand(word.is_inert("*?"))
        if word.text != "-":
            self._paths.append(word.text)


def _demand(condition: bool) -> None:
    if not condition:
        raise _NotOnTheListError


def is_inside(path: str) -> bool:
    """Whether `path` is relative, goes nowhere up, and is no secret path: a rule for reading was not
    given with these in mind, so the user is asked."""
    if not path or path.startswith(("/", "~")) or is_secret_path(path):
        return False
    return not any(part == ".." or fold_name(part) == ".clawbot" for part in path.split("/"))
