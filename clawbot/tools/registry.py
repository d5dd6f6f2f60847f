"""The tools of an agent, and a way to run calls that never breaks the turn."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Container, Sequence, Set
from pathlib import Path

from msgspec.structs import replace

from clawbot.clock import Clock
from clawbot.config.paths import Paths
from clawbot.config.schema_agent import AgentSettings
from clawbot.messages import ToolCallBlock, ToolSpec
from clawbot.text.interface import _
from clawbot.text.visible import one_line
from clawbot.tools.arguments import Arguments, ignorable
from clawbot.tools.changing import AskedFiles
from clawbot.tools.files import AppendTool, EditTool, ReadTool, WriteTool
from clawbot.tools.folder import WorkspaceFolder, well_formed
from clawbot.tools.grep import GrepTool
from clawbot.tools.listing import ListTool
from clawbot.tools.packages import PackageApprovals, ToolContext, ask_to_run, package_tools
from clawbot.tools.paths import Fence
from clawbot.tools.permissions import DelegatingTool, GrantingTool, Permissions, RuledTool
from clawbot.tools.process import SecretNames
from clawbot.tools.protocol import (
    IGNORED,
    AnyTool,
    ApprovalAnswer,
    ApprovalQuestion,
    Approver,
    AskingTool,
    OnOutput,
    SessionAccess,
    SessionTool,
    ToolDeclinedError,
    ToolError,
    ToolOutcome,
    to_nobody,
)
from clawbot.tools.shell import ShellTool, UserRun
from clawbot.tools.text import cut_middle

log = logging.getLogger(__name__)

CONTEXT_CHARS = 30  # context shown around a JSON error
NOTICE_CHARS = 120  # what a notice about cut output takes


class Toolbox:
    """The tools that a model may call. `output_max_chars` limits a result, `approvals` asks before packaged tools act,
    and `warnings` lists packaged tools that were left out."""

    def __init__(
        self,
        tools: Sequence[AnyTool],
        output_max_chars: int,
        approvals: PackageApprovals | None = None,
        warnings: tuple[str, ...] = (),
        *,
        permissions: Permissions | None = None,
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._limit = output_max_chars
        self._approvals = approvals
        self.permissions = permissions or Permissions()
        self.warnings = warnings
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in self._tools.values())
        self._by_access: dict[SessionAccess, Toolbox] = {}
        self._added: set[str] = set()

    def replace(self, tools: Sequence[AnyTool]) -> None:
        """Offer `tools` after all others from the next request on, instead of the last ones, without taken names."""
        own = {name: tool for name, tool in self._tools.items() if name not in self._added}
        added = {tool.spec.name: tool for tool in tools if tool.spec.name not in own}
        self._tools, self._added = {**own, **added}, set(added)
        self.specs = tuple(tool.spec for tool in self._tools.values())
        self._by_access.clear()

    def delegates(self, call: ToolCallBlock) -> bool:
        """Whether somebody else does `call`, concurrently with others of its kind."""
        return isinstance(self._tools.get(call.name), DelegatingTool)

    def changes(self, call: ToolCallBlock) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and not tool.read_only

    def for_subagent(self, without: Container[str], also: Sequence[AnyTool] = ()) -> Toolbox:
        """The tools for somebody else, under the same permissions: those of now but `without`, and `also` these."""
        kept = [tool for name, tool in self._tools.items() if name not in without]
        return Toolbox([*kept, *also], self._limit, self._approvals, permissions=self.permissions)

    def for_session(self, access: SessionAccess) -> Toolbox:
        if access not in self._by_access:
            tools = [tool for each in self._tools.values() if (tool := _offered(each, access)) is not None]
            self._by_access[access] = Toolbox(tools, self._limit, self._approvals, permissions=self.permissions)
        return self._by_access[access]

    async def run_for_user(self, command: str, on_output: OnOutput) -> UserRun:
        """Run a command that the user typed. Raises ToolError, also where the session has no commands."""
        shell = self._tools.get(ShellTool.name)
        if not isinstance(shell, ShellTool):
            raise ToolError("Not run: there are no commands in this conversation (tools.deny, or a shared session).")
        return await shell.run_for_user(command, on_output)

    @property
    def read_only(self) -> tuple[AnyTool, ...]:
        return tuple(tool for tool in self._tools.values() if tool.read_only)

    def title(self, call: ToolCallBlock) -> str:
        tool = self._tools.get(call.name)
        if tool is None or call.malformed is not None:
            return one_line(call.name)
        try:
            return tool.title(call.arguments)
        except Exception:
            log.exception("tool %s gave no title", call.name)
            return one_line(call.name)

    async def run(self, call: ToolCallBlock, approve: Approver, on_output: OnOutput = to_nobody) -> ToolOutcome:
        """Run one call; `on_output` receives its output. Raises only CancelledError: failures become results."""
        try:
            return await self.attempt(call, approve, on_output)
        except ToolDeclinedError as error:
            outcome = ToolOutcome(str(error), is_error=True, summary="declined", details={"declined": True})
        except ToolError as error:
            outcome = ToolOutcome(str(error), is_error=True, summary="failed", details=error.details)
        except Exception as error:
            log.exception("tool %s failed", call.name)
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            outcome = ToolOutcome(f"The tool {call.name} failed: {what}", is_error=True, summary="failed")
        return self._fitting(outcome)

    async def attempt(self, call: ToolCallBlock, approve: Approver, on_output: OnOutput = to_nobody) -> ToolOutcome:
        ignored = self._ignored(call)
        if ignored:
            call = replace(call, arguments={key: call.arguments[key] for key in call.arguments if key not in ignored})
        outcome = await self._run(call, approve, on_output)
        if not isinstance(outcome, ToolOutcome):
            raise TypeError(f"it returned {type(outcome).__name__}, not a ToolOutcome")
        if ignored:
            named = ", ".join(f"`{one_line(name)}`" for name in ignored)
            outcome = replace(outcome, text=f"{outcome.text}{IGNORED}{named}, no argument of {call.name}.)")
        return self._fitting(outcome)

    def _ignored(self, call: ToolCallBlock) -> list[str]:
        tool = self._tools.get(call.name)
        arguments = getattr(tool, "arguments", None)
        if tool is None or not isinstance(arguments, type) or not issubclass(arguments, Arguments):
            return []
        return ignorable(arguments, call.arguments, read_only=tool.read_only)

    def _fitting(self, outcome: ToolOutcome) -> ToolOutcome:
        text = well_formed(outcome.text)
        if len(text) > self._limit:
            text = cut_middle(text, max(self._limit - NOTICE_CHARS, 1), "Ask for less.")
        return replace(outcome, text=text)

    async def _run(self, call: ToolCallBlock, approve: Approver, on_output: OnOutput) -> ToolOutcome:
        tool = self._tools.get(call.name)
        if tool is None:
            near = difflib.get_close_matches(call.name, self._tools, n=1)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            known = ", ".join(self._tools) or "none"
            raise ToolError(f"There is no tool {one_line(call.name)!r}.{meant} Available: {known}.")
        if call.malformed is not None:
            raise ToolError(explain_malformed(call.malformed))
        if isinstance(tool, DelegatingTool):
            await self._ruled(tool, call, approve)
            return await tool.run_delegated(call, approve, self.permissions)
        if isinstance(tool, RuledTool):
            return await tool.run_ruled(call.arguments, approve, self.permissions, on_output)
        approve = await self._ruled(tool, call, approve)
        if self._approvals is not None:
            await self._approvals.ask(tool, call, approve)
        if isinstance(tool, AskingTool):
            return await tool.run_approved(call.arguments, approve)
        return await tool.run(call.arguments)

    async def _ruled(self, tool: AnyTool, call: ToolCallBlock, approve: Approver) -> Approver:
        """Who answers the questions of a call: nobody is asked twice, and nobody about what a rule allows. Raises
        ToolError where rules, mode or user refuse it."""
        # What is delegated is ruled on call by call.
        reads = tool.read_only or isinstance(tool, DelegatingTool)
        ruling = self.permissions.of_tool(call.name, read_only=reads)
        if ruling.way == "usual":
            return approve
        if ruling.way == "deny":
            raise ToolError(ruling.reason)
        if ruling.way == "ask":
            remedy = f"The user can allow it with `{call.name}` in permissions.allow of the config."
            if await ask_to_run(
                call,
                approve,
                folder="",
                reach=_("Asked since {reason}.").format(reason=_(ruling.reason)),
                remedy=remedy,
            ):
                self.permissions.granted.add(call.name)
        return _yes

    def grants(self) -> list[tuple[str, str]]:
        """What the user allowed for always while the program runs: the tool, and what of it."""
        found = [("shell" if isinstance(tool, ShellTool) else "", tool.grants()) for tool in self._granting()]
        every = [(name, grant) for name, grants in found for grant in grants]
        return list(dict.fromkeys([*every, *(("", name) for name in sorted(self.permissions.granted))]))

    def take_back(self, grant: str) -> None:
        for tool in self._granting():
            tool.take_back(grant)
        self.permissions.granted.discard(grant)

    def _granting(self) -> list[GrantingTool]:
        held = [*self._tools.values(), *([self._approvals] if self._approvals is not None else [])]
        return [each for each in held if isinstance(each, GrantingTool)]


async def _yes(question: ApprovalQuestion) -> ApprovalAnswer:
    """The answer to what was asked already, or is allowed by a rule."""
    return ApprovalAnswer("once")


def _offered(tool: AnyTool, access: SessionAccess) -> AnyTool | None:
    """`tool` for a session with `access`; None if not allowed. Fails closed, also without needs or narrowing."""
    needs = getattr(tool, "needs", None)
    narrows = isinstance(tool, SessionTool)
    if not access.offers(frozenset(needs) if isinstance(needs, Set) else None, narrows=narrows):
        return None
    try:
        return tool.for_session(access) if isinstance(tool, SessionTool) else tool
    except Exception:
        log.exception("tool %s is left out of a session", tool.spec.name)
        return None


def explain_malformed(raw: str) -> str:
    """What is wrong with `raw`, which should be a JSON object, and where."""
    try:
        value = json.loads(raw)
    except json.JSONDecodeError as error:
        begin = max(error.pos - CONTEXT_CHARS, 0)
        before, after = raw[begin : error.pos], raw[error.pos : error.pos + CONTEXT_CHARS]
        where = f"at character {error.pos} (line {error.lineno}): {before}>>>{after}"
        return f"The arguments are no valid JSON: {error.msg} {where} - send the call again."
    except ValueError:
        return "The arguments hold a number with thousands of digits. Send the call again, with a shorter one."
    except RecursionError:
        value = {}
    if isinstance(value, dict):
        return "The arguments are nested too deeply. Send the call again, with a flat object."
    kind = {"list": "an array", "str": "a string", "NoneType": "null"}.get(type(value).__name__, "a bare value")
    return f"The arguments must be one JSON object, got {kind}. Send the call again."


def build_toolbox(
    workspace: Path,
    settings: AgentSettings,
    clock: Clock,
    paths: Paths,
    extra: Sequence[AnyTool] = (),
    *,
    fence: Fence | None = None,
    asked: AskedFiles | None = None,
) -> Toolbox:
    """The tools of an agent: for files, the shell, `extra`, then those of packages, except those denied by the
    settings. Imports packages: blocks.

    `clock` measures the tools' time limits. `fence` (see `agent_fence`) is the reach of file tools, None for exactly
    the workspace; `asked` are the files whose changes need approval, None for those of the settings.
    """
    folder = WorkspaceFolder(workspace, fence=fence)
    asked = asked or AskedFiles(workspace, settings.tools.files.ask)
    limit = settings.tools.output_max_chars
    secrets = SecretNames(paths.env_file, settings.api_key_env)
    tools: list[AnyTool] = [
        ReadTool(folder, limit),
        WriteTool(folder, asked),
        EditTool(folder, asked),
        AppendTool(folder, asked),
        ListTool(folder),
        GrepTool(folder, clock),
        ShellTool(workspace, settings.tools.shell, state=paths.home, max_chars=limit, secrets=secrets, fence=fence),
        *extra,
    ]
    added = package_tools(ToolContext(folder, asked, settings, clock), {tool.spec.name for tool in tools})
    allowed = [tool for tool in (*tools, *added.tools) if tool.spec.name not in settings.tools.deny]
    approvals, rules = PackageApprovals(workspace, added.packages), Permissions(settings.permissions)
    return Toolbox(allowed, limit, approvals, added.warnings, permissions=rules)
