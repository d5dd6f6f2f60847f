"""The tool that runs shell commands: asks first, hides secrets, and says what came out.

No fence holds a command: it starts in the workspace and goes where the user could. What keeps it in is their consent.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from clawbot.config.schema_agent import ShellSettings
from clawbot.messages import ToolSpec
from clawbot.tools.arguments import Arguments, one_line, parse, schema_of
from clawbot.tools.environment import SecretNames, command_environment
from clawbot.tools.process import Finished, run_command
from clawbot.tools.protocol import ApprovalQuestion, Approver, ToolError, ToolOutcome
from clawbot.tools.shell_policy import REACH, Rule, decide, offered_rule

MAX_TIMEOUT = 3600  # a model that asks for more than an hour has lost its way
COMMAND_CHARS = 20_000
NOTICE_CHARS = 200  # room for what is said beside the output


class ShellArguments(Arguments, frozen=True):
    """Arguments of `shell`."""

    command: Annotated[str, Meta(description="The command, as for `sh -c`, run in the workspace.", min_length=1)]
    timeout: Annotated[
        int, Meta(description=f"Seconds until it is stopped, {MAX_TIMEOUT} at most; 0 for the usual time.", ge=0)
    ] = 0


class ShellTool:
    """`shell`, an `AskingTool`. What the user allows for always holds as long as this object lives."""

    name = "shell"
    read_only = False

    def __init__(self, workspace: Path, settings: ShellSettings, *, max_chars: int, secrets: SecretNames) -> None:
        self._workspace = workspace
        self._settings = settings
        self._max_chars = max_chars
        self._secrets = secrets
        self._rules = [Rule(pattern) for pattern in settings.allow]
        self._shell = shutil.which("bash") or "/bin/sh"

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        asks = {
            "ask": "The user is asked first, unless the command is allowed already.",
            "allow": "Commands run without asking.",
            "deny": "The user has switched commands off.",
        }[self._settings.approval]
        description = (
            f"Run a shell command in the workspace folder. {asks} No input, no terminal; it is stopped after "
            f"{self._settings.timeout:g} s, and what it leaves in the background is stopped when it ends."
        )
        return ToolSpec(self.name, description, schema_of(ShellArguments))

    def title(self, arguments: dict[str, Any]) -> str:
        """`shell command`."""
        return one_line(f"{self.name} {arguments.get('command', '')}")

    async def run_approved(self, arguments: dict[str, Any], approve: Approver) -> ToolOutcome:
        """Ask where that is needed, run, and report."""
        asked = parse(ShellArguments, arguments)
        if not asked.command.strip():
            raise ToolError("`command` is empty.")
        if len(asked.command) > COMMAND_CHARS or "\0" in asked.command:
            raise ToolError(
                f"The command is longer than {COMMAND_CHARS:,} characters or holds a NUL. Use a script file."
            )
        command = await self._approved(asked.command, approve)
        timeout = min(asked.timeout or self._settings.timeout, MAX_TIMEOUT)
        environment = command_environment(os.environ, await asyncio.to_thread(self._secrets.read))
        try:
            finished = await run_command(
                [self._shell, "-c", command],
                folder=self._workspace,
                environment=environment,
                seconds=timeout,
                max_bytes=self._max_chars - NOTICE_CHARS,
            )
        except OSError as error:
            raise ToolError(f"The command could not be started: {error.strerror} ({error.filename}).") from error
        outcome = report(finished, timeout)
        if command == asked.command:
            return outcome
        text = f"[The user changed the command. What ran: {command}]\n{outcome.text}"
        return ToolOutcome(text, outcome.is_error, outcome.summary, {"command": command})

    async def _approved(self, command: str, approve: Approver) -> str:
        """The command that may run; raises ToolError when none may."""
        verdict = decide(command, self._settings.approval, self._rules)
        if verdict == "refuse":
            raise ToolError("Shell commands are switched off (tools.shell.approval: deny). Use the file tools instead.")
        if verdict == "run":
            return command
        rule = offered_rule(command)
        answer = await approve(ApprovalQuestion(self.name, command, str(self._workspace), rule.text, REACH))
        if answer.decision == "deny":
            raise ToolError(
                f"Not run. {answer.reason or 'The user declined.'} Do not try the same again: find another way or ask."
            )
        chosen = (answer.command or "").strip() or command
        if answer.decision == "always":
            self._rules.append(rule if chosen == command else offered_rule(chosen))
        return chosen


def report(finished: Finished, timeout: float) -> ToolOutcome:
    """What the model and the screen are told about a command that ended."""
    output = finished.head
    if finished.dropped:
        output += f"\n[... {finished.dropped:,} bytes of output left out here ...]\n{finished.tail}"
    ending = _ending(finished, timeout)
    text = f"{output.rstrip()}\n[{ending}]" if output.strip() else f"[no output; {ending}]"
    return ToolOutcome(text, is_error=finished.timed_out or finished.code != 0, summary=ending)


def _ending(finished: Finished, timeout: float) -> str:
    if finished.timed_out:
        return f"stopped after {timeout:g} s"
    if finished.code >= 0:
        return f"exit {finished.code}"
    try:
        return f"killed by {signal.Signals(-finished.code).name}"
    except ValueError:
        return f"killed by signal {-finished.code}"
