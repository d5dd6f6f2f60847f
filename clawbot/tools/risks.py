"""What a shell command seems to do beyond reading: hints for the user, not a barrier.

Programs can do more than their names suggest, so the absence of a hint promises nothing. `shell_policy` decides whether
a command may run, and the sandbox confines it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from clawbot.text.patterns import lazy_re
from clawbot.text.tables import packaged_table
from clawbot.text.visible import split_spans, visible
from clawbot.tools.paths import is_within, mentions_secret
from clawbot.tools.protocol import Risk
from clawbot.tools.shell_calls import CALLS, INNER, git_options, given_texts, known_programs, program_name, unwrapped
from clawbot.tools.shell_syntax import ParsedScript, ScriptWord, SimpleCommand, parse_script


class RiskRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What a call of one of the programs `of` does: the fields are explained in `risks.toml`."""

    of: str
    risks: str
    call: str = ""
    options: str = ""

    def fits(self, words: Sequence[str]) -> bool:
        plain = [word for word in words if not word.startswith("-")][:2]
        calls = [words[words.index(name) + 1 :] for name in self.call.split() if name in plain]
        options = self.options.split()
        return any(
            not options or any(_gives(word, options) for word in given) for given in (calls if self.call else [words])
        )


class _RiskList(Struct, frozen=True, forbid_unknown_fields=True):
    programs: dict[str, str]
    calls: list[RiskRule]

    def of(self, name: str, words: Sequence[str]) -> Iterator[Risk]:
        yield from (Risk[risk] for risk, names in self.programs.items() if name in names.split())
        for rule in self.calls:
            if name in rule.of.split() and rule.fits(words):
                yield from (Risk[risk] for risk in rule.risks.split())


@cache
def _known() -> _RiskList:
    return packaged_table("clawbot.tools", "risks.toml", _RiskList)


def _gives(word: str, options: Sequence[str]) -> bool:
    if word.partition("=")[0] in options:
        return True
    letters = {option[1] for option in options if len(option) == 2 and option[0] == "-"}
    given = re.match(r"-([A-Za-z]+)", word)
    return given is not None and not letters.isdisjoint(given[1])


# Where a program of awk starts a shell: by a call, or by a pipe to or from a string.
AWK_SHELL = lazy_re(r"\bsystem\s*\(|\|&?\s*(?:getline\b|\")|\"\s*\|\s*getline\b")
# A reader may take what follows for a comment or for quoted. What Chinese text is written with is not among them.
ALIKE = lazy_re("[\uff03\ufe5f\u266f\u22d5\uff04\ufe69\uff06\ufe60\u037e\uff07\uff02\uff40\uff3c\ufe68\u2216\u29f5]")
HARMLESS_DEVICE = lazy_re(r"/dev/(?:null|zero|stdout|stderr|stdin|tty|full|fd/\d+)")


def risks_of(command: str, workspace: Path) -> tuple[str, ...]:
    """What `command`, which starts in `workspace`, seems to do, the worst first; empty when it seems to read only."""
    found = set(_RiskFinder(str(workspace)).at(command))
    if any(part.kind == "odd" for part in split_spans(visible(command))):
        found.add(Risk.UNSEEN)
    if ALIKE.search(command):
        found.add(Risk.ALIKE)
    return tuple(risk.value for risk in Risk if risk in found)


class _RiskFinder:
    """Finds the risks of a command and of the commands in it."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._folder: str | None = workspace
        self._fetched: set[str] = set()
        self._waiting: list[tuple[str, str | None]] = []

    def at(self, command: str) -> Iterator[Risk]:
        self._waiting.append((command, self._folder))
        for _ in range(INNER):
            if not self._waiting:
                return
            text, self._folder = self._waiting.pop(0)
            script = parse_script(text)
            if not script.readable or len(script.calls) > CALLS:
                yield Risk.UNREADABLE
            calls = [(call.start, self._call(call, script)) for call in script.calls[:CALLS]]
            writes = [(start, self._writes(word)) for start, word in script.written]
            for _, risks in sorted([*calls, *writes], key=lambda step: step[0]):
                yield from risks
        if self._waiting:
            yield Risk.UNREADABLE

    def _call(self, call: SimpleCommand, script: ParsedScript) -> Iterator[Risk]:
        for words in unwrapped(call.words):
            if not words[0].known:
                yield Risk.MADE_UP
                continue
            name = program_name(words[0])
            plain = [word.text for word in words[1:]]
            yield from _known().of(name, plain[git_options(plain) :] if name == "git" else plain)
            yield from self._files(name, words)
            yield from self._code(name, words, call, script)
        if any(mentions_secret(word.text) for word in call.words):
            yield Risk.SECRETS

    def _files(self, name: str, words: Sequence[ScriptWord]) -> Iterator[Risk]:
        """The risks of the files that it writes, as far as its arguments name them."""
        plain, known = [word for word in words[1:] if not (word.known and word.text.startswith("-"))], known_programs()
        if name in ("cd", "pushd"):
            self._folder = self._path(plain[0]) if plain else str(Path("~").expanduser())
        targets = (
            plain if known.holds("writes_all", name) else plain[1:][-1:] if known.holds("writes_last", name) else []
        )
        if name == "dd":
            targets = [ScriptWord(word.text[3:], word.known) for word in plain if word.text.startswith("of=")]
        for word in targets:
            yield from self._writes(word)
        if known.holds("fetching", name):
            self._fetched |= {program_name(word) for word in plain}

    def _code(
        self, name: str, words: Sequence[ScriptWord], call: SimpleCommand, script: ParsedScript
    ) -> Iterator[Risk]:
        """What it runs that is not its own."""
        arguments = [word.text for word in words[1:]]
        base, known = name.rstrip("0123456789."), known_programs()
        runs = known.holds("shells", name) or base in known.languages
        if known.holds("awks", name) and any(AWK_SHELL.search(text) for text in arguments):
            yield Risk.OTHER_CODE
        if any(program_name(word) in self._fetched for word in (words if runs else words[:1])):
            yield Risk.NETWORK_CODE
        fetches = runs and any(
            known.holds("fetching", program_name(words[0]))
            for other in script.calls[:CALLS]
            if call.is_fed_by(other.start)
            for words in unwrapped(other.words)
        )
        if fetches:
            yield Risk.NETWORK_CODE
            return
        texts, _ = given_texts(words, call, script)
        self._waiting.extend((text.text, self._folder) for text in texts)
        if not all(text.known for text in texts):
            yield Risk.MADE_UP
        given = any(call.is_fed_by(start) for start, _ in script.texts)
        if base in known.languages and (given or not set(known.languages[base].split(",")).isdisjoint(arguments)):
            yield Risk.OTHER_CODE

    def _path(self, word: ScriptWord) -> str | None:
        """The path that `word` names, by its text alone; None where only the shell knows."""
        text = re.sub(r"^(?:~|\$HOME|\$\{HOME\})(?=/|$)", str(Path("~").expanduser()), word.text)
        if "$" in text or "`" in text or "<(" in text:
            return None
        if self._folder is None and not text.startswith("/"):
            return None
        return "/" + os.path.normpath(f"{self._folder}/{text}" if not text.startswith("/") else text).lstrip("/")

    def _writes(self, word: ScriptWord) -> Iterator[Risk]:
        path = self._path(word)
        if path is None:
            yield Risk.SOMEWHERE
        elif path.startswith("/dev/"):
            if not HARMLESS_DEVICE.fullmatch(path):
                yield Risk.DISKS
        elif not is_within(self._workspace, path):
            yield Risk.OUTSIDE
