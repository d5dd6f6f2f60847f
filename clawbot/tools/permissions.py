"""What holds for a call of a tool before it runs: the mode of the conversation, the rules of the settings, and what the
user allowed for always.

Everything here is the user's word: no argument of a call and no result of a tool changes it. Of the rules that fit a
call, one that denies wins over one that asks, and that over one that allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from clawbot.config.schema_agent import Mode, PermissionSettings, split_rule
from clawbot.messages import ToolCallBlock
from clawbot.text.globs import compile_glob
from clawbot.text.interface import N_
from clawbot.text.names import fold_name
from clawbot.tools.protocol import Approver, OnOutput, ToolOutcome
from clawbot.tools.shell_calls import commands_in, without_folder
from clawbot.tools.shell_policy import ShellRule, fits
from clawbot.tools.shell_reading import Reading

Way = Literal["deny", "ask", "usual", "allow"]

_DENIED = "Not run: the settings deny it (permissions.deny: {}). Do not try it in another way: find another one or ask."
_PLANNING = (
    "Not run: the conversation is in plan mode, where nothing is changed. Read what you need, then answer with your "
    "plan under the heading `## Plan`; the user accepts it or says what to change."
)
_NOTES = ("memory", "memory.md")


class Ruling(Struct, frozen=True):
    """What happens with a call: `usual` leaves it to the tool's own settings. `reason` is why, for the model where it
    is denied, for the user where they are asked; `by_rule`: by a rule, and not by the mode alone."""

    way: Way
    reason: str = ""
    by_rule: bool = False


USUAL = Ruling("usual")


class _Rule(Struct, frozen=True):
    """One rule of the settings: the name or glob of a tool, and the pattern in brackets, "" for every call."""

    text: str
    tool: str
    pattern: str

    @classmethod
    def read(cls, text: str) -> _Rule:
        return cls(text, *split_rule(text))


class Permissions:
    """The mode and the rules of one conversation. Only the user sets `mode`: by option, by `/mode`, or by a key."""

    def __init__(self, settings: PermissionSettings | None = None) -> None:
        settings = settings or PermissionSettings()
        self.mode: Mode = settings.mode
        self._deny = tuple(map(_Rule.read, settings.deny))
        self._ask = tuple(map(_Rule.read, settings.ask))
        self._allow = tuple(map(_Rule.read, settings.allow))
        self.granted: set[str] = set()  # tools that the user allowed for always where only a rule or a mode asked

    def of_tool(self, name: str, *, read_only: bool) -> Ruling:
        """The ruling on a call of the tool `name`, whatever its arguments are."""
        denied = self._first(self._deny, name)
        asked = self._first(self._ask, name)
        allowed = self._first(self._allow, name)
        ruling = self._judged(denied, asked, allowed, changes=not read_only)
        return Ruling("allow") if ruling.way == "ask" and name in self.granted else ruling

    def of_file(self, name: str, parts: tuple[str, ...]) -> Ruling:
        """The ruling on a change by the tool `name` of the file at `parts`, its real path in the workspace."""
        path = "/".join(parts)
        found = (self._file_rule(rules, name, path) for rules in (self._deny, self._ask, self._allow))
        ruling = self._judged(*found, changes=True)
        if ruling.way == "ask" and not ruling.by_rule and fold_name(parts[0]) in _NOTES:
            return USUAL
        return ruling

    def of_command(self, command: str, found: Reading | None = None) -> Ruling:
        """The ruling on a shell command; `found` is what it reads, where it is known to do no more than read what is in
        reach. Blocks at the first call, while the grammar of the shell is loaded."""
        denied, asked = self._first(self._deny, "shell"), self._first(self._ask, "shell")
        barring = [rule for rule in (*self._deny, *self._ask) if rule.pattern and rule.tool == "shell"]
        if barring:
            named = {word for rule in barring for word in without_folder(rule.pattern).split()[:1]}
            started = commands_in(command, named)
            fitting = [rule for rule in barring if any(one.fits(rule.pattern) for one in started)]
            denied = denied or next((rule for rule in fitting if rule in self._deny), None)
            asked = asked or next((rule for rule in fitting if rule in self._ask), None)
            # A rule that could not be checked may apply.
            asked = asked or next((rule for rule in barring if any(one.may_fit(rule.pattern) for one in started)), None)
        allowed = self._first(self._allow, "shell")
        for rule in self._allow:
            if rule.pattern and rule.tool == "shell" and fits(command, ShellRule(rule.pattern), found):
                allowed = allowed or rule
        return self._judged(denied, asked, allowed, changes=found is None)

    def _judged(self, denied: _Rule | None, asked: _Rule | None, allowed: _Rule | None, *, changes: bool) -> Ruling:
        if denied is not None:
            return Ruling("deny", _DENIED.format(denied.text), by_rule=True)
        if self.mode == "plan" and changes:
            return Ruling("deny", _PLANNING)
        if asked is not None:
            return Ruling("ask", f"permissions.ask has `{asked.text}`", by_rule=True)
        if allowed is not None:
            return Ruling("allow", by_rule=True)
        return Ruling("ask", N_("the mode is `ask`")) if self.mode == "ask" and changes else USUAL

    @staticmethod
    def _first(rules: Iterable[_Rule], name: str) -> _Rule | None:
        return next((rule for rule in rules if not rule.pattern and fnmatchcase(name, rule.tool)), None)

    def _file_rule(self, rules: Iterable[_Rule], name: str, path: str) -> _Rule | None:
        """The first of `rules` about the file: names that a file system may take for the same one count as the same."""
        fitting = (rule for rule in rules if fnmatchcase(name, rule.tool))
        return next(
            (
                rule
                for rule in fitting
                if not rule.pattern or compile_glob(fold_name(rule.pattern)).fits(fold_name(path))
            ),
            None,
        )


@runtime_checkable
class RuledTool(Protocol):
    """A tool that checks the permissions itself, since they depend on its arguments."""

    async def run_ruled(
        self, arguments: dict[str, Any], approve: Approver, permissions: Permissions, on_output: OnOutput
    ) -> ToolOutcome:
        """As `AskingTool.run_approved`, under `permissions`; `on_output` receives the output as it is printed."""


@runtime_checkable
class DelegatingTool(Protocol):
    """A tool whose calls are done by somebody else: those of one answer run side by side."""

    async def run_delegated(self, call: ToolCallBlock, approve: Approver, permissions: Permissions) -> ToolOutcome:
        """Have `call` done. Whoever does it asks by `approve`, under `permissions`."""


@runtime_checkable
class GrantingTool(Protocol):
    """A tool that remembers what the user allowed for always."""

    def grants(self) -> list[str]:
        """What it is, each as a rule is written."""

    def take_back(self, grant: str) -> None:
        """Ask about `grant` again from now on."""
