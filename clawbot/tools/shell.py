"""The tool that runs shell commands: asks for approval, hides secrets and reports output.

The file tools' fence does not restrict commands. They are restricted by the sandbox, where available, and the user's
consent.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Meta, Struct

from clawbot.config.schema_agent import ShellSettings
from clawbot.messages import ToolSpec
from clawbot.text.interface import _
from clawbot.text.visible import title_of, unwritten, visible
from clawbot.tools.arguments import Arguments, parse, schema_of
from clawbot.tools.listing import hidden_from
from clawbot.tools.paths import Fence
from clawbot.tools.permissions import Permissions
from clawbot.tools.process import (
    Finished,
    LiveOutput,
    SecretNames,
    command_environment,
    is_below,
    run_command,
    search_path,
)
from clawbot.tools.protocol import (
    ApprovalQuestion,
    Approver,
    Need,
    OnOutput,
    SessionAccess,
    ToolError,
    ToolOutcome,
    refused,
    to_nobody,
)
from clawbot.tools.risks import risks_of
from clawbot.tools.sandbox.bwrap import Missing
from clawbot.tools.sandbox.command import Enclosed, Sandbox, changes_text, explained, reach_text, was_never_started
from clawbot.tools.shell_policy import REACH, ShellRule, fits, offered_rule, reads_within, sets_up_git
from clawbot.tools.shell_syntax import simple_command

MAX_TIMEOUT = 3600  # a model that asks for more than an hour has lost its way
COMMAND_CHARS = 20_000
NOTICE_CHARS = 800  # room for notices after the output
EVERYTHING = "*"  # in `tools.shell.network`


class ShellArguments(Arguments, frozen=True):
    """Arguments of `shell`."""

    command: Annotated[str, Meta(description="As for `sh -c`.", min_length=1)]
    timeout: Annotated[int, Meta(description=f"Seconds, {MAX_TIMEOUT} at most; 0: the usual.", ge=0)] = 0


class Approved(Struct, frozen=True):
    """What may run, and whether with the network where there is a sandbox, and with git's settings to change."""

    command: str
    network: bool
    git: bool = False


class UserRun(Struct, frozen=True):
    """A command of the user that ended. `code` is its exit status, None where the limit of time stopped it; `ending`
    describes it. `truncated`: the middle of the output is left out. `notice` is for the user."""

    output: str
    code: int | None
    ending: str
    truncated: bool = False
    notice: str = ""


class ShellTool:
    """`shell`, a `RuledTool` and a `SessionTool`. What the user always allows holds in all sessions for the lifetime of
    this object. `fence` is that of the file tools: what only reads runs unasked within it. `state` is clawbot's own
    folder, which commands don't see."""

    name = "shell"
    arguments = ShellArguments
    read_only = False
    needs: frozenset[Need] | None = frozenset({"shell"})

    def __init__(
        self,
        workspace: Path,
        settings: ShellSettings,
        *,
        state: Path,
        max_chars: int,
        secrets: SecretNames,
        fence: Fence | None = None,
    ) -> None:
        self._workspace = workspace
        self._settings = settings
        self._sandbox = Sandbox(workspace, settings, state)
        self._max_chars = max_chars
        self._secrets = secrets
        self.keep_within(fence or Fence())
        self._rules = tuple(ShellRule(pattern) for pattern in settings.allow)
        self._granted: list[ShellRule] = []
        self._shell = shutil.which("bash", path=search_path(os.environ.get("PATH", os.defpath))) or "/bin/sh"

    @property
    def spec(self) -> ToolSpec:
        asks = {
            "ask": "The user is asked first, unless the command is allowed already.",
            "allow": "Commands run without asking.",
            "deny": "The user has switched commands off.",
        }[self._settings.approval]
        description = (
            f"Run a shell command in the workspace. {asks} No input; stopped after {self._settings.timeout:g} s, and "
            "what it leaves in the background when it ends."
        )
        return ToolSpec(self.name, description, schema_of(ShellArguments))

    def title(self, arguments: dict[str, Any]) -> str:
        return title_of(self.name, arguments.get("command", ""))

    def for_session(self, access: SessionAccess) -> Self:
        """The tool with the files that are hidden from the session out of reach of what runs unasked."""
        tool = copy.copy(self)
        tool.keep_within(hidden_from(access, self._workspace, self._fence))
        return tool

    def keep_within(self, fence: Fence) -> None:
        """Ask from now on about what reads beyond `fence`."""
        self._fence = fence

    def grants(self) -> list[str]:
        return [rule.text for rule in self._granted]

    def take_back(self, grant: str) -> None:
        self._granted[:] = [rule for rule in self._granted if rule.text != grant]

    async def run_approved(self, arguments: dict[str, Any], approve: Approver) -> ToolOutcome:
        return await self.run_ruled(arguments, approve, Permissions())

    async def run_ruled(
        self, arguments: dict[str, Any], approve: Approver, permissions: Permissions, on_output: OnOutput = to_nobody
    ) -> ToolOutcome:
        """Ask if necessary, run, and report. Raises ToolError if it is refused or can't be started."""
        asked = parse(ShellArguments, arguments)
        if not asked.command.strip():
            raise ToolError("`command` is empty.")
        check_readable(asked.command)
        found = await self._sandbox.backend()
        sandboxed = self._is_sandboxed(found)
        judge = functools.partial(self._judge, permissions=permissions, sandboxed=sandboxed)
        approved = await self._approved(asked.command, approve, judge)
        seconds = min(asked.timeout or self._settings.timeout, MAX_TIMEOUT)
        with LiveOutput(on_output) as live:
            finished, notes = await self._run(approved, seconds, sandboxed, live)
        outcome = report(finished, seconds)
        details = None
        text = "\n".join([outcome.text, *notes])
        if approved.command != asked.command:
            text = f"[The user changed the command. What ran: {visible(approved.command)}]\n{text}"
            details = {"command": approved.command}
        return ToolOutcome(text, outcome.is_error, outcome.summary, details, self._sandbox.notice(found))

    async def run_for_user(self, command: str, on_output: OnOutput) -> UserRun:
        """Run what the user typed at the prompt. Raises ToolError where it may not run or can't be started.

        Nothing is asked: typing it is the consent that a question would get, so it has the network. Everything else
        holds as for a command that was allowed: the sandbox, since a script or a Makefile that it starts may be the
        model's work, `required` and `approval: deny`, which switch commands off for everybody, and what nobody can
        read (a pasted command may hold it). The time limit is the longest one: the user sees it run and can stop it.
        """
        if self._settings.approval == "deny":
            raise ToolError("Shell commands are switched off (tools.shell.approval: deny).")
        check_readable(command)
        found = await self._sandbox.backend()
        sandboxed = self._is_sandboxed(found)
        approved = Approved(command, network=True, git=await asyncio.to_thread(self._sets_up_git, command))
        with LiveOutput(on_output) as live:
            finished, notes = await self._run(approved, MAX_TIMEOUT, sandboxed, live)
        return UserRun(
            "\n".join(filter(None, (_printed(finished).rstrip(), *notes))),
            None if finished.timed_out else finished.code,
            _ending(finished, MAX_TIMEOUT),
            truncated=finished.dropped > 0,
            notice=self._sandbox.notice(found),
        )

    def _is_sandboxed(self, found: object) -> bool:
        """Whether commands run in the sandbox that was `found`. Raises ToolError where they have to and can't."""
        if isinstance(found, Missing) and self._settings.sandbox == "required":
            raise ToolError(
                f"Not run: tools.shell.sandbox is required, and there is none: {found.reason}.",
                hint=f"For the user: {found.remedy}.",
            )
        return not isinstance(found, Missing)

    async def _run(
        self, approved: Approved, seconds: float, sandboxed: bool, live: LiveOutput
    ) -> tuple[Finished, list[str]]:
        """The end of the command, with notes about its sandbox."""
        finished, enclosed = await self._attempt(approved, seconds, live)
        made = enclosed.made
        if sandboxed and was_never_started(finished):
            finished, enclosed = await self._attempt(approved, seconds, live)
            made = [*made, *enclosed.made]
        if not sandboxed:
            return finished, []
        outcome = report(finished, seconds)
        why = explained(outcome.text, outcome.is_error, network=approved.network, outer=enclosed.outer)
        return finished, [note for note in (changes_text(made), why) if note]

    async def _attempt(self, approved: Approved, seconds: float, live: LiveOutput) -> tuple[Finished, Enclosed]:
        secret = await asyncio.to_thread(self._secrets.read)
        environment = await asyncio.to_thread(command_environment, os.environ, secret, self._workspace)
        enclosing = self._sandbox.enclose(
            self._shell,
            approved.command,
            environment,
            fence=self._fence,
            network=approved.network,
            git=approved.git,
            patience=seconds,
        )
        try:
            async with enclosing as enclosed:
                most = self._max_chars - NOTICE_CHARS
                finished = await run_command(
                    enclosed.command, folder=self._workspace, seconds=seconds, max_bytes=most, on_output=live.receive
                )
        except OSError as error:
            raise ToolError(f"The command could not be started: {error.strerror} ({error.filename}).") from error
        return finished, enclosed

    async def _approved(
        self, command: str, approve: Approver, judge: Callable[[str], Approved | ApprovalQuestion]
    ) -> Approved:
        """What may run; raises ToolError when nothing may."""
        judged = await asyncio.to_thread(judge, command)
        if isinstance(judged, Approved):
            return judged
        answer = await approve(judged)
        if answer.decision == "deny":
            raise refused(answer, "Not run.", "Do not try the same again: find another way or ask.")
        chosen = command if answer.command is None else answer.command
        if not chosen.strip():
            raise ToolError("Not run: the user removed the command.")
        check_readable(chosen)
        if chosen != command:
            await asyncio.to_thread(judge, chosen)
        if answer.decision == "always":
            self._granted.append(offered_rule(chosen))
        network = answer.network or await asyncio.to_thread(self._has_network, chosen)
        return Approved(chosen, network, await asyncio.to_thread(self._sets_up_git, chosen))

    def _judge(self, command: str, *, permissions: Permissions, sandboxed: bool) -> Approved | ApprovalQuestion:
        """What runs unasked, or the question for the user. Blocks; raises ToolError where commands are denied."""
        approval, found = self._settings.approval, reads_within(command, self._workspace, self._fence)
        ruling = permissions.of_command(command, found)
        if ruling.way == "deny":
            raise ToolError(ruling.reason)
        if approval == "deny":
            raise ToolError("Shell commands are switched off (tools.shell.approval: deny). Use the file tools instead.")
        rules = (*self._granted, *(() if ruling.by_rule and ruling.way == "ask" else self._rules))
        unasked = ruling.way == "allow" or any(fits(command, rule, found) for rule in rules)
        if ruling.way != "ask":
            riskless = sandboxed and self._settings.ask == "risky" and found is not None
            unasked = unasked or approval == "allow" or riskless
        network = self._has_network(command)
        if unasked:
            return Approved(command, network)
        rule = offered_rule(command).text
        return ApprovalQuestion(
            self.name,
            command,
            str(self._workspace),
            rule,
            reach_text(network=network, git=self._sets_up_git(command)) if sandboxed else _(REACH),
            risks_of(command, self._workspace),
            remedy=f"The user can allow it with the rule {rule!r} in tools.shell.allow of the config, or run it in "
            "the chat.",
            network=sandboxed and not network,
        )

    def _has_network(self, command: str) -> bool:
        """Whether the settings give `command` the network. A rule that names a program means the system's, not one of
        the workspace, where commands can put another one."""
        if EVERYTHING in self._settings.network:
            return True
        words = simple_command(command)
        if words and "/" not in words[0].text and self._is_of_workspace(words[0].text):
            return False
        found = reads_within(command, self._workspace, self._fence) if self._settings.network else None
        return any(fits(command, ShellRule(pattern), found) for pattern in self._settings.network)

    def _sets_up_git(self, command: str) -> bool:
        return sets_up_git(command) and not self._is_of_workspace("git")

    def _is_of_workspace(self, program: str) -> bool:
        """Whether the name `program` leads into the workspace, as $PATH does in an activated virtual environment."""
        found = shutil.which(program, path=search_path(os.environ.get("PATH", os.defpath)))
        return found is not None and is_below(Path(os.path.realpath(self._workspace)), found)


def check_readable(command: str) -> None:
    """Raise ToolError for a command that nobody could read before they allow it: too long, or with characters that
    are not written (see `clawbot.text.visible.unwritten`)."""
    if len(command) > COMMAND_CHARS:
        raise ToolError(f"The command is longer than {COMMAND_CHARS:,} characters. Use a script file.")
    if (found := unwritten(command)) is None:
        return
    octal = "".join(f"\\{byte:03o}" for byte in found.character.encode("utf-8", "surrogatepass"))
    raise ToolError(
        f"Not run: {found.name} at character {found.position} of `command`. Control and invisible characters are never "
        f"run, since nobody can read them before they approve. Leave it out, or have it made: printf '{octal}'."
    )


def report(finished: Finished, timeout: float) -> ToolOutcome:
    """The outcome for the model and the screen of a command that ended."""
    output = _printed(finished)
    ending = _ending(finished, timeout)
    text = f"{output.rstrip()}\n[{ending}]" if output.strip() else f"[no output; {ending}]"
    return ToolOutcome(text, is_error=finished.timed_out or finished.code != 0, summary=ending)


def _printed(finished: Finished) -> str:
    if not finished.dropped:
        return finished.head
    return f"{finished.head}\n[... {finished.dropped:,} bytes of output left out here ...]\n{finished.tail}"


def _ending(finished: Finished, timeout: float) -> str:
    if finished.timed_out:
        return f"stopped after {timeout:g} s"
    if finished.code >= 0:
        return f"exit {finished.code}"
    try:
        return f"killed by {signal.Signals(-finished.code).name}"
    except ValueError:
        return f"killed by signal {-finished.code}"
