"""Slash commands: decorated functions whose docstrings are their help.

One registry feeds completion, `/help`, the README and the offline model's explanations.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from clawbot.agent.compacting import ALREADY, NOTHING
from clawbot.agent.events import CommandOutput, CompactionFinished, Event, ModelChanged, SessionChanged
from clawbot.agent.hooks_text import hooks_text
from clawbot.agent.resetting import Reason
from clawbot.agent.slash import ParsedCommand
from clawbot.agent.status import render_status, status_data
from clawbot.agent.views import AgentInfo, CommandInfo, ContextReport, HookStatus, RuntimeStatus
from clawbot.context.report_text import render_report
from clawbot.errors import ClawbotError
from clawbot.llm.protocol import ModelInfo
from clawbot.memory.values import SearchRequest
from clawbot.messages import ToolSpec
from clawbot.sessions.listing import SessionSummary
from clawbot.tools.memory import Recall


class CommandHost(Protocol):
    """What a command may ask of the conversation."""

    @property
    def status(self) -> RuntimeStatus:
        """How the conversation stands."""
        ...

    @property
    def zone(self) -> tzinfo | None:
        """Where the user's clock is."""
        ...

    @property
    def tool_specs(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""
        ...

    @property
    def recall(self) -> Recall | None:
        """The memory index; None when it is switched off."""
        ...

    async def reset(self, reason: Reason, text: str = "") -> SessionChanged:
        """Go on in a fresh session under the same key; `text` is what the user says first in it."""
        ...

    async def compact(self, focus: str) -> CompactionFinished:
        """Summarise the earlier turns now."""
        ...

    async def context_report(self) -> ContextReport:
        """Where the tokens of the window go."""
        ...

    async def set_model(self, ref: str) -> ModelInfo:
        """Answer with another model from now on."""
        ...

    async def models(self) -> list[ModelInfo]:
        """The models that can be used here."""
        ...

    async def sessions(self) -> list[SessionSummary]:
        """All conversations of the agent, newest first."""
        ...

    async def export(self, form: str, path: Path | None) -> Path:
        """Write the conversation to a file and return its path."""
        ...

    async def hooks(self) -> list[HookStatus]:
        """The hooks as they are found now, in the order in which they run."""
        ...

    @property
    def agents(self) -> Sequence[AgentInfo]:
        """The agents of the settings, main first."""
        ...


class CommandResult(Struct, frozen=True):
    """What a command did: events for the reader, and a text that is submitted as a message after it."""

    events: tuple[Event, ...] = ()
    message: str = ""


class Command(Struct, frozen=True):
    """One registered command."""

    info: CommandInfo
    run: Callable[[CommandHost, str], Awaitable[CommandResult]]


class UnknownCommandError(ClawbotError):
    """A `/word` that is no command."""


COMMANDS: dict[str, Command] = {}

CommandFunction = Callable[[CommandHost, str], Awaitable[CommandResult]]


def command(name: str, arguments: str = "") -> Callable[[CommandFunction], CommandFunction]:
    """Register a function as `/name`; the first line of its docstring is the help."""

    def register(function: CommandFunction) -> CommandFunction:
        help_line = (inspect.getdoc(function) or "").partition("\n")[0]
        COMMANDS[name] = Command(CommandInfo(f"/{name}", arguments, help_line), function)
        return function

    return register


async def run_command(parsed: ParsedCommand, host: CommandHost) -> CommandResult:
    """Run a command. Raises UnknownCommandError, and whatever ClawbotError the command meets."""
    found = COMMANDS.get(parsed.name)
    if found is None:
        near = difflib.get_close_matches(parsed.name, COMMANDS, n=1)
        hint = f"Did you mean /{near[0]}? " if near else ""
        raise UnknownCommandError(f"There is no command /{parsed.name}.", hint=f"{hint}/help lists them all.")
    return await found.run(host, parsed.argument)


def _said(name: str, text: str, data: object = None) -> CommandResult:
    return CommandResult((CommandOutput(command=f"/{name}", text=text, data=data),))


async def _reset(host: CommandHost, name: Reason, text: str) -> CommandResult:
    changed = await host.reset(name, text)
    said = CommandOutput(command=name, text="New session started.")
    return CommandResult((changed, said), message=text)


@command("new", "[text]")
async def new(host: CommandHost, argument: str) -> CommandResult:
    """End this conversation and start a fresh one; the text becomes its first message."""
    return await _reset(host, "/new", argument)


@command("reset", "[text]")
async def reset(host: CommandHost, argument: str) -> CommandResult:
    """The same as /new."""
    return await _reset(host, "/reset", argument)


@command("compact", "[focus]")
async def compact(host: CommandHost, argument: str) -> CommandResult:
    """Summarise the earlier turns to make room; the focus says what the summary must hold."""
    done = await host.compact(argument)
    if done.error in (NOTHING, ALREADY):
        return _said("compact", done.error, msgspec.to_builtins(done))
    if done.status != "done":
        raise ClawbotError(f"Not compacted: {done.error}", hint="The history is whole.")
    text = f"Compacted: {done.tokens_before:,} → about {done.tokens_after:,} tokens."
    return _said("compact", text, msgspec.to_builtins(done))


@command("context", "[detail|json]")
async def context(host: CommandHost, argument: str) -> CommandResult:
    """Show where the tokens of the context window go."""
    report = await host.context_report()
    data = msgspec.to_builtins(report)
    if argument == "json":
        return _said(
            "context", f"```json\n{msgspec.json.format(msgspec.json.encode(data), indent=2).decode()}\n```", data
        )
    return _said("context", render_report(report, detail=argument == "detail", zone=host.zone), data)


@command("status")
async def status(host: CommandHost, argument: str) -> CommandResult:
    """Show the model, the session, the context, the memory and the cost."""
    report = await host.context_report()
    now = host.status
    return _said("status", render_status(now, report, host.zone), status_data(now, report))


@command("sessions")
async def sessions(host: CommandHost, argument: str) -> CommandResult:
    """List the conversations; pick one to resume."""
    found = await host.sessions()
    lines = [
        f"- **{item.key}** {item.title or '(nothing said yet)'} · {item.turns} turns · {item.ended}" for item in found
    ]
    return _said("sessions", "\n".join(lines) or "No conversations yet.")


@command("model", "[name]")
async def model(host: CommandHost, argument: str) -> CommandResult:
    """Choose the model that answers: `provider/name`, `offline` or `auto`."""
    if not argument:
        lines = [f"- **{item.ref}** {item.reason}" for item in await host.models()]
        return _said("model", "\n".join([f"Now: **{host.status.model.ref}**", "", *lines]))
    info = await host.set_model(argument)
    changed = ModelChanged(model=info.ref, reason=info.reason)
    return CommandResult((changed, CommandOutput(command="/model", text=f"Now: **{info.ref}** {info.reason}")))


@command("agent", "[ID]")
async def agent(host: CommandHost, argument: str) -> CommandResult:
    """Talk to another agent, with a workspace and a memory of its own."""
    lines = [
        f"- **{item.agent_id}** {item.model} · {item.workspace}{' · this one' if item.current else ''}"
        for item in host.agents
    ]
    how = "`clawbot --agent ID` talks to another one; the chat screen (`clawbot`) changes to it."
    data = [
        {"agentId": item.agent_id, "workspace": str(item.workspace), "model": item.model, "current": item.current}
        for item in host.agents
    ]
    return _said("agent", "\n".join([*lines, "", how]), data)


@command("hooks")
async def hooks(host: CommandHost, argument: str) -> CommandResult:
    """Show the hooks: which are ready, what is missing, how each ran last."""
    found = await host.hooks()
    return _said("hooks", hooks_text(found, host.zone), msgspec.to_builtins(found))


@command("tools")
async def tools(host: CommandHost, argument: str) -> CommandResult:
    """List what the model can do."""
    lines = [f"- **{spec.name}** {spec.description.partition('. ')[0]}" for spec in host.tool_specs]
    return _said("tools", "\n".join(lines))


@command("edit", "FILE")
async def edit(host: CommandHost, argument: str) -> CommandResult:
    """Edit a workspace file such as AGENTS.md; the next message sees the change."""
    target = host.status.workspace / (argument or "AGENTS.md")
    return _said("edit", f"`{target}` opens in the chat screen (`clawbot`), or in any editor.")


@command("memory", "[QUERY]")
async def memory(host: CommandHost, argument: str) -> CommandResult:
    """Search what is remembered; without a query, the notes of the last days."""
    if host.recall is None:
        return _said("memory", "The memory index is off: `memory_search.enabled` in the settings.")
    if not argument:
        return _said("memory", "`/memory QUERY` searches the notes; the chat screen (`clawbot`) does so as you type.")
    found = await host.recall.search(SearchRequest(queries=(argument,)))
    lines = [f"- **{hit.path}:{hit.start_line}** {' '.join(hit.snippet.split())}" for hit in found.hits]
    notes = [f"_{note}_" for note in found.notes]
    return _said("memory", "\n".join([*(lines or ["Nothing found."]), *notes]), msgspec.to_builtins(found))


@command("export", "[md|json] [path]")
async def export(host: CommandHost, argument: str) -> CommandResult:
    """Write this conversation to a Markdown or JSON file."""
    form, _, rest = argument.partition(" ")
    if form not in {"md", "json"}:
        form, rest = ("json" if argument.endswith(".json") else "md"), argument
    path = await host.export(form, Path(rest.strip()) if rest.strip() else None)
    return _said("export", f"Written to `{path}`.", {"path": str(path)})


@command("copy")
async def copy_reply(host: CommandHost, argument: str) -> CommandResult:
    """Copy the last reply to the clipboard, over SSH too."""
    return _said("copy", "The chat screen (`clawbot`) copies; here, `clawbot chat -p TEXT` writes to standard output.")


@command("help")
async def show_help(host: CommandHost, argument: str) -> CommandResult:
    """Show the commands and keys."""
    lines = [f"- **{item.info.name}** {item.info.arguments} {item.info.help}" for item in COMMANDS.values()]
    return _said("help", "\n".join(lines))


@command("quit")
async def leave(host: CommandHost, argument: str) -> CommandResult:
    """Leave; the conversation goes on next time."""
    return _said("quit", "Goodbye.")
