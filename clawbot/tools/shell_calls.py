"""What a shell command starts: the programs that it names, those that these start, and the texts that shells are given.

Nothing is run or looked up: what only the shell, a file or another program knows counts as anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise, takewhile
from operator import eq
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table
from clawbot.tools.shell_reading import reading_of
from clawbot.tools.shell_syntax import ParsedScript, ScriptWord, SimpleCommand, parse_script

CALLS = 400  # simple commands that are checked; the rest can't be read
INNER = 12  # commands inside of commands that are followed
WRAPPED = 16  # programs that start programs that are followed
CODE_CHARS = 1000  # of arguments that are code that are checked
GIT_WITH_VALUE = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
# What `env -S`, also as `-iS` and `--split-string=`, splits into a command.
ENV_TEXT = lazy_re(r"^(?:-[a-zA-Z]*S|--split-string)=?")
# Options of git that make an alias, or name a program.
_GIT_STEERING = lazy_re(r"-c$|--config-env|--exec-path")
_ASSIGNMENT = lazy_re(r"[A-Za-z_]\w*\+?=")
_NUMBER = lazy_re(r"\.?\d[\d.]*[smhd]?")


class _Programs(Struct, frozen=True, forbid_unknown_fields=True):
    wrappers: dict[str, str]
    languages: dict[str, str]
    texts: dict[str, str]
    groups: dict[str, str]

    def holds(self, group: str, name: str) -> bool:
        return name in self.groups[group].split()


@cache
def known_programs() -> _Programs:
    """The programs of the list that is shipped. Blocks at the first call."""
    listed = packaged_table("clawbot.tools", "shell_calls.toml", dict[str, Any])
    for table in ("wrappers", "languages"):
        listed[table] = dict(row.partition(":")[::2] for row in listed[table].split())
    return msgspec.convert(listed, _Programs)


class Started(Struct, frozen=True):
    """A command that is started: the program's name without its folder, and the words behind it; None for what only the
    shell works out. Without words it is any command."""

    words: tuple[str | None, ...] = ()

    def fits(self, pattern: str) -> bool:
        """Whether a rule for `pattern` applies. It is generous: one for `git push` also fits what goes on behind it."""
        text, wanted = " ".join(word or "" for word in self.words), without_folder(pattern)
        return fnmatchcase(text, wanted) or fnmatchcase(text, f"{wanted} *")

    def may_fit(self, pattern: str) -> bool:
        """Whether `pattern` could fit it, for all that is known of it."""
        stem = list(takewhile(lambda word: not re.search(r"[*?\[]", word), without_folder(pattern).split()))
        is_open = not self.words or None in self.words
        if not self.words or not stem or self.words[0] != stem[0]:
            return is_open and (not self.words or not stem or self.words[0] is None)
        if self.words[1:2] and (self.words[1] or "-").startswith("-"):  # options, which may have values
            left = iter(self.words)
            return is_open or all(word in left for word in stem)
        return is_open and all(map(eq, takewhile(lambda word: word is not None, self.words), stem))


_ANY = Started()


def without_folder(pattern: str) -> str:
    """A pattern for `/bin/ls x` as one for `ls x`: a command is found by the name of its program."""
    return re.sub(r"^\S*/", "", pattern)


def commands_in(command: str, programs: Collection[str]) -> list[Started]:
    """The commands that `command` starts: those of its parts, of what starts others (`sudo`, `xargs`, `find -exec`),
    and of texts that it gives to a shell. One without words among them means what nobody can follow, or what
    may be one of `programs`, the names (or globs) of programs to find."""
    doubt = _Doubt(programs)
    found: list[Started] = []
    # In quotes and comments a line that goes on in the next one ends all the same.
    waiting = list(dict.fromkeys([command, command.replace("\\\n", "")]))
    for _ in range(INNER):
        if not waiting:
            return found
        script = parse_script(waiting.pop(0))
        if not script.readable or len(script.calls) > CALLS or doubt.of_script(script):
            found.append(_ANY)
        for call in script.calls[:CALLS]:
            for words in unwrapped(call.words):
                found += _forms(words)
                texts, is_all = given_texts(words, call, script)
                waiting += (text.text for text in texts)
                if not is_all or not all(text.known for text in texts) or doubt.of_call(words, call, script):
                    found.append(_ANY)
    return [*found, _ANY] if waiting else found


def _forms(words: Sequence[ScriptWord]) -> Iterator[Started]:
    """The command as it is written, and one of git from its subcommand on."""
    name, *rest = [word.text if _is_settled(word) else None for word in words]
    name = name and program_name(words[0])
    yield Started((name, *rest))
    if name == "git":
        yield Started((name, *rest[git_options(rest) :]))
    elif name and name.startswith("git-"):
        yield Started(("git", name[4:], *rest))


def _is_settled(word: ScriptWord) -> bool:
    return word.known and not word.has_globs


class _Doubt:
    """Whether one of `programs`, or a shell, may be started by what is no command by its form."""

    def __init__(self, programs: Collection[str]) -> None:
        known = known_programs()
        self._names = [name for name in programs if not name.startswith("*")]
        self._names += [*known.languages, *(name for name in known.groups["shells"].split() if name != ".")]
        any_name = "|".join(re.escape(name).replace(r"\*", r"\S*").replace(r"\?", r"\S") for name in self._names)
        self._named = re.compile(
            rf"(?:^-\w*?|(?<![\w.-]))(?:{any_name})[\d.]*(?![\w@/-])|(?:^|[\s;&|])\.\s|[$`]"
            # Variables that decide what a name leads to, or that name a program.
            r"|^(?:PATH|IFS|ENV|BASH_ENV|PS4|PROMPT_COMMAND|LD_\w+|GIT_\w+)\+?="
        )

    def of_word(self, word: ScriptWord) -> bool:
        """Whether the word names one of them, or is a text that nobody can check for it."""
        base = program_name(word)
        if not word.known or (word.has_globs and ("{" in word.bare or any(fnmatchcase(n, base) for n in self._names))):
            return True
        if re.search(r"[\s;|&<>]", word.text) and re.search(r"[*?\[{]", word.text):
            return True
        # As it is without quotes, and where a backslash makes another character.
        texts = re.sub(r"['\"\\]", "", word.text), re.sub(r"\\.", " ", word.text)
        return any(map(self._named.search, texts))

    def of_script(self, script: ParsedScript) -> bool:
        """Whether a variable, a text that bash expands again, or a file that is made and run may start one."""
        run = {program_name(call.words[0]) for call in script.calls[:CALLS] if call.words and "/" in call.words[0].text}
        made = [word for call in script.calls[:CALLS] for word in call.words[1:]] + [word for _, word in script.written]
        return any(map(self.of_word, script.kept)) or any(program_name(word) in run for word in made)

    def of_call(self, words: Sequence[ScriptWord], call: SimpleCommand, script: ParsedScript) -> bool:
        """Whether the program may start one that its words don't name as a command."""
        known, name, texts = known_programs(), program_name(words[0]), [word.text for word in words[1:]]
        if any(known.holds("runs_code", it) or it in known.languages for it in (name, name.rstrip("0123456789."))):
            return True
        if name == "git":
            at = git_options(texts)
            called = texts[at] if at < len(texts) else "status"
            if not all(map(_is_settled, words[: at + 2])) or any(map(_GIT_STEERING.match, texts[:at])):
                return True
            if known.holds("git", called) or not known.holds("git_other", called):
                return not known.holds("git", called)
        if known.holds("plain", name):
            return name in ("printf", "test") and any(text.startswith("-v") for text in texts)
        if (plain := known.texts.get("awk" if known.holds("awks", name) else name)) is not None:
            text = "".join(f"\n{text}" for text in texts)
            is_long = len(text) > CODE_CHARS or (name == "sed" and text.count("\n") > len(texts))
            return is_long or not re.fullmatch(plain, text) or not all(map(_is_settled, words))
        if name in known.wrappers:
            return any(map(self.of_word, words[1 : len(words) - len(_behind(words[1:], known.wrappers[name]))]))
        is_read = known.holds("shells", name) or reading_of(words) is not None
        return not is_read and any(map(self.of_word, [*words[1:], *fed_texts(call, script)]))


def program_name(word: ScriptWord) -> str:
    """The name of the program that `word` calls, without its folder."""
    return word.text.rpartition("/")[2]


def unwrapped(words: Sequence[ScriptWord], depth: int = WRAPPED) -> Iterator[Sequence[ScriptWord]]:
    """`words`, and the commands that they start: by `sudo`, `env`, `xargs`, `timeout 5`, `find -exec`. What is handed
    to these from elsewhere is a word that is not known."""
    if not words:
        return
    if not depth:
        yield [_UNKNOWN]
        return
    yield words
    for inner in _inner(program_name(words[0]), words):
        yield from unwrapped(inner, depth - 1)


_UNKNOWN = ScriptWord("", known=False)


def _inner(name: str, words: Sequence[ScriptWord]) -> Iterator[Sequence[ScriptWord]]:
    """The commands that `words`, a call of the program `name`, start."""
    if name == "find":
        left = iter(words)
        for word in left:
            if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
                yield _filled(takewhile(lambda word: word.text not in (";", "+"), left), "{}")
    elif name in known_programs().wrappers and (name != "command" or reading_of(words) is None):
        behind = _behind(words[1:], known_programs().wrappers[name])
        if name in ("xargs", "parallel"):
            own = [word.text for word in words[1 : len(words) - len(behind)]]
            marks = (text[2:] or value for text, value in pairwise([*own, ""]) if text.startswith("-I"))
            behind = [*_filled(behind, next(marks, "{}")), _UNKNOWN]
        yield behind


def _filled(words: Iterable[ScriptWord], mark: str) -> list[ScriptWord]:
    """`words`, where `mark` means what is known later."""
    return [ScriptWord(word.text, word.known and mark not in word.text, word.bare) for word in words]


def given_texts(
    words: Sequence[ScriptWord], call: SimpleCommand, script: ParsedScript
) -> tuple[list[ScriptWord], bool]:
    """The texts that the command `words` in `call` gives to a shell, by argument or input, and whether that is all."""
    name, arguments = program_name(words[0]), list(words[1:])
    if re.search(r"\s", words[0].text):  # `watch 'rm x'`, `su -c 'rm x'`
        return [words[0]], True
    if name in ("eval", "trap", "env"):
        arguments = arguments[name != "env" and [word.text for word in arguments[:1]] == ["--"] :]
        begin = next((n for n, word in enumerate(arguments) if name != "env" or ENV_TEXT.match(word.text)), None)
        parts = [] if begin is None else arguments[begin : 1 if name == "trap" else None]
        text = " ".join(word.text for word in parts)
        return [ScriptWord(ENV_TEXT.sub("", text), all(word.known for word in parts))] if parts else [], True
    if not known_programs().holds("shells", name):
        return [], True
    option = next((n for n, word in enumerate(arguments) if re.fullmatch(r"-\w*c", word.text)), None)
    if option is not None and name not in (".", "source"):
        behind = [word for word in arguments[option + 1 :] if not word.text.startswith("-")]
        return behind[:1], option == 0 and bool(behind)
    takes_input = name in (".", "source") or all(word.text.startswith("-") for word in arguments)
    return list(fed_texts(call, script)) if takes_input else [], False


def fed_texts(call: SimpleCommand, script: ParsedScript) -> Iterator[ScriptWord]:
    """The heredocs that `call` reads, and the output of the stages of the pipe before it, as far as that is known."""
    yield from (text for start, text in script.texts if call.is_fed_by(start))
    for other in script.calls[:CALLS]:
        words = [word.text for word in other.words]
        # Without arguments it hands on a heredoc.
        if call.is_fed_by(other.start) and words and words != ["cat"] and words[0] not in ("cd", "set"):
            literal = words[0] in ("echo", "printf") and all(word.known for word in other.words)
            yield ScriptWord(" ".join(words[1:]) if literal else "", literal)


def _behind(words: Sequence[ScriptWord], notation: str) -> Sequence[ScriptWord]:
    """`words` without the options, assignments, numbers and operands of a program, which has `notation` in the list."""
    with_value, _, count = notation.partition("+")
    at, operands = 0, int(count or 0)
    while at < len(words):
        text = words[at].text
        if text.startswith("-"):
            at += 2 if len(text) == 2 and text[1] in with_value else 1
        elif _ASSIGNMENT.match(text) or _NUMBER.fullmatch(text):
            at += 1
        elif operands:
            at, operands = at + 1, operands - 1
        else:
            break
    return words[at:]


def git_options(words: Sequence[str | None]) -> int:
    """How many of `words`, which follow `git`, precede the subcommand."""
    at = 0
    while at < len(words) and (words[at] or "").startswith("-"):
        at += 2 if words[at] in GIT_WITH_VALUE else 1
    return at
