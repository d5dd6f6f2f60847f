"""What the slash commands of `clawbot.agent.slash` do, and those that packages add through the entry point group
`clawbot.commands` (docs/writing-commands.md)."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import EntryPoint
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.agent.command_hosts import AgentHost
from clawbot.agent.command_hosts import CommandHost as CommandHost
from clawbot.agent.events import (
    ALREADY_COMPACTED,
    NOTHING_TO_COMPACT,
    CommandOutput,
    Event,
    ModelChanged,
    ResetReason,
)
from clawbot.agent.intents import SessionIntents
from clawbot.agent.memory_commands import forget_words, search_memory, undo_change
from clawbot.agent.prompt_builder import ATTACHED_SHARE, called
from clawbot.agent.slash import COMMANDS, CommandInfo, ParsedCommand, nearest_command, parse_command
from clawbot.agent.status import (
    hooks_text,
    mcp_lines,
    mode_text,
    permissions_text,
    render_status,
    skills_text,
    status_data,
)
from clawbot.config.schema_agent import MODES
from clawbot.context.report import render_report
from clawbot.entry_points import BrokenExtension, Extension, installed
from clawbot.errors import ClawbotError
from clawbot.messages import UserBlock
from clawbot.sessions.summary import ended_words
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.numbers import whole_number
from clawbot.text.sanitize import clean_line

log = logging.getLogger(__name__)

GROUP = "clawbot.commands"


class CommandResult(Struct, frozen=True):
    """What a command did: events for the reader, and a text that is submitted as a message after it, with what is
    attached to that."""

    events: tuple[Event, ...] = ()
    message: str = ""
    attached: tuple[UserBlock, ...] = ()


CommandFunction = Callable[[AgentHost, str], Awaitable[CommandResult]]
HostFunction = Callable[[AgentHost], Awaitable[str]]
"""Returns a line for the user, "" for none."""


class Command(Struct, frozen=True):
    """A command that can be run: `run` gets the host and what follows the name. `scheduled` is its work for a job of
    the schedule, `remind` what it reports when a session begins, if anything."""

    info: CommandInfo
    run: CommandFunction
    scheduled: HostFunction | None = None
    remind: HostFunction | None = None


class CommandSet(Struct, frozen=True):
    """The commands by their names, without the slash; `problems` lists those of packages that are left out, and why."""

    commands: dict[str, Command]
    problems: tuple[str, ...] = ()

    @property
    def infos(self) -> list[CommandInfo]:
        """The commands as they are shown, in the order of `/help`."""
        return [command.info for command in self.commands.values()]


class UnknownCommandError(ClawbotError):
    """A `/word` that is no command."""


BUILTIN: dict[str, Command] = {}
_INFOS = {info.name: info for info in COMMANDS}


def command(name: str) -> Callable[[CommandFunction], CommandFunction]:
    """Register what the command `name` does where the screen does not answer it."""

    def register(function: CommandFunction) -> CommandFunction:
        BUILTIN[name.removeprefix("/")] = Command(_INFOS[name], function)
        return function

    return register


@functools.cache
def installed_commands() -> CommandSet:
    """The commands of clawbot, then those of the installed packages. The first call imports those: blocks."""
    return join_commands(installed(GROUP))


def join_commands(extensions: Iterable[Extension]) -> CommandSet:
    """The commands of clawbot and those of `extensions`. No two have one name: the first one is kept."""
    commands = {name: BUILTIN[name] for name in (info.name.removeprefix("/") for info in COMMANDS)}
    problems: list[str] = []
    for extension in extensions:
        found = extension.use(_packaged)
        if isinstance(found, BrokenExtension):
            problems.append(_("A command is missing: {problem}.").format(problem=found.problem))
            continue
        name = found.info.name.removeprefix("/")
        if name in commands:
            text = _("{command} of the package {package} is left out: the name is taken.")
            problems.append(text.format(command=found.info.name, package=extension.distribution))
        else:
            commands[name] = found
    return CommandSet(commands, tuple(problems))


def _packaged(point: EntryPoint) -> Command:
    """The command that `point` names: an object with `name`, `help` and an async `run`; `arguments`, and an async
    `scheduled` and `remind`, if it has them. Raises ValueError, TypeError, AttributeError, and what its package raises.
    """
    offered = point.load()
    name = f"/{offered.name.removeprefix('/')}"
    parsed = parse_command(name)
    if parsed is None or f"/{parsed.name}" != name:
        raise ValueError(f"{name!r} is no name of a command: letters, digits, - and _, in lower case")
    if not inspect.iscoroutinefunction(offered.run):
        raise TypeError(f"run of {name} is not async")

    async def run(host: AgentHost, argument: str) -> CommandResult:
        try:
            done = await offered.run(host, argument)
        except (ClawbotError, OSError):
            raise
        except Exception as error:
            log.exception("the command %s of a package failed", name)
            raise ClawbotError(f"{name} failed: {type(error).__name__}: {error}") from error
        return done if isinstance(done, CommandResult) else _output(name, str(done))

    info = CommandInfo(name, clean_line(getattr(offered, "arguments", "")), clean_line(offered.help))
    return Command(info, run, getattr(offered, "scheduled", None), getattr(offered, "remind", None))


async def run_command(parsed: ParsedCommand, host: AgentHost) -> CommandResult:
    """Run a command. Raises UnknownCommandError, and whatever ClawbotError the command meets."""
    commands = (await asyncio.to_thread(installed_commands)).commands
    found = commands.get(parsed.name)
    if found is None:
        near = nearest_command(f"/{parsed.name}", (f"/{name}" for name in commands))
        hint = _("Did you mean {command}? /help lists them all.") if near else _("/help lists them all.")
        problem = _("There is no command /{name}.").format(name=parsed.name)
        raise UnknownCommandError(problem, hint=hint.format(command=near))
    return await found.run(host, parsed.argument)


def _output(name: str, text: str, data: object = None) -> CommandResult:
    return CommandResult((CommandOutput(command=name, text=text, data=data),))


async def _fresh(name: ResetReason, host: AgentHost, text: str) -> CommandResult:
    changed = await host.reset(name, text)
    return CommandResult((changed, CommandOutput(command=name, text=_("New conversation started."))), message=text)


command("/new")(functools.partial(_fresh, "/new"))
command("/reset")(functools.partial(_fresh, "/reset"))


@command("/compact")
async def _compact(host: AgentHost, argument: str) -> CommandResult:
    done = await host.compact(argument)
    if done.error in (NOTHING_TO_COMPACT, ALREADY_COMPACTED):
        return _output("/compact", _(done.error), msgspec.to_builtins(done))
    if done.status != "done":
        raise ClawbotError(_("Not compacted: {reason}").format(reason=done.error), hint=_("The history is whole."))
    text = _("Compacted: {before:,} → about {after:,} tokens.")
    text = text.format(before=done.tokens_before, after=done.tokens_after)
    return _output("/compact", text, msgspec.to_builtins(done))


@command("/context")
async def _context(host: AgentHost, argument: str) -> CommandResult:
    report = await host.context_report()
    data = msgspec.to_builtins(report)
    text = render_report(report, detail=argument == "detail", zone=host.deps.zone)
    if argument == "json":
        text = f"```json\n{msgspec.json.format(msgspec.json.encode(data), indent=2).decode()}\n```"
    return _output("/context", text, data)


@command("/status")
async def _status(host: AgentHost, argument: str) -> CommandResult:
    report, now = await host.context_report(), host.status
    return _output("/status", render_status(now, report, host.deps.zone), status_data(now, report))


@command("/sessions")
async def _sessions(host: AgentHost, argument: str) -> CommandResult:
    found = await asyncio.to_thread(host.deps.store.list)
    lines: list[str] = []
    for item in found:
        turns = ngettext("{n:,} turn", "{n:,} turns", item.turns).format(n=item.turns)
        lines.append(f"- **{item.key}** {item.title or _('(nothing said yet)')} · {turns} · {ended_words(item.ended)}")
    return _output("/sessions", "\n".join(lines) or _("No conversations yet."))


@command("/rename")
async def _rename(host: AgentHost, argument: str) -> CommandResult:
    if not argument.strip():
        summary = await asyncio.to_thread(host.deps.store.summary, host.conversation.session.record)
        now = _("Now: **{title}**. `/rename TITLE` gives it another title.").format(title=clean_line(summary.title))
        return _output("/rename", now)
    title = await host.conversation.rename(argument)
    return _output("/rename", _("This conversation is now **{title}**.").format(title=title), {"title": title})


@command("/fork")
async def _fork(host: AgentHost, argument: str) -> CommandResult:
    was = host.conversation.key
    changed, _text = await host.fork(argument)
    key, is_here = changed.session_key, changed.session_id == host.conversation.session_id
    text = _("The fork is the conversation **{key}**; this one goes on as it is.")
    if is_here:
        text = _("This is now **{key}**, a fork; the conversation {was} stays as it is: `/sessions` leads back to it.")
    data = {"sessionKey": key, "sessionId": changed.session_id}
    output = CommandOutput(command="/fork", text=text.format(key=argument.strip() or key, was=was), data=data)
    return CommandResult((changed, output) if is_here else (output,))


@command("/unsent")
async def _unsent(host: AgentHost, argument: str) -> CommandResult:
    lines = [f"- {' '.join(each.text.split())}" for each in host.outbox.left]
    return _output("/unsent", "\n".join(lines) or _("Everything was sent."), [each.text for each in host.outbox.left])


@command("/model")
async def _model(host: AgentHost, argument: str) -> CommandResult:
    if not argument:
        lines = [f"- **{item.ref}** · {item.reason}" for item in await host.deps.model.find()]
        return _output("/model", "\n".join([_("Now: **{model}**").format(model=host.status.model.ref), "", *lines]))
    info = await host.set_model(argument)
    changed = ModelChanged(model=info.ref, reason=info.reason)
    now = _("Now: **{model}**").format(model=info.ref)
    return CommandResult((changed, CommandOutput(command="/model", text=f"{now} · {info.reason}")))


@command("/agent")
async def _agent(host: AgentHost, argument: str) -> CommandResult:
    agents, this = host.deps.profile.agents, f" · {_('this one')}"
    lines = [f"- **{each.agent_id}** {each.model} · {each.workspace}{this if each.current else ''}" for each in agents]
    how = _("`clawbot --agent ID` talks to another one; the chat screen (`clawbot`) changes to it.")
    data = [
        {"agentId": each.agent_id, "workspace": str(each.workspace), "model": each.model, "current": each.current}
        for each in agents
    ]
    return _output("/agent", "\n".join([*lines, "", how]), data)


@command("/hooks")
async def _hooks(host: AgentHost, argument: str) -> CommandResult:
    found = await host.hooks.status()
    return _output("/hooks", hooks_text(found, host.deps.zone), msgspec.to_builtins(found))


@command("/skills")
async def _skills(host: AgentHost, argument: str) -> CommandResult:
    catalog = host.deps.skills
    found = await asyncio.to_thread(catalog.scan) if catalog is not None else ()
    return _output("/skills", skills_text(found), [skill.data() for skill in found])


@command("/skill")
async def _skill(host: AgentHost, argument: str) -> CommandResult:
    if not argument or host.deps.skills is None:
        return await _skills(host, "")
    name, *words = argument.split(maxsplit=1)
    room = host.status.window * ATTACHED_SHARE or host.deps.skills.settings.max_chars
    block = await asyncio.to_thread(called, host.deps.skills, name, "".join(words), room)
    return CommandResult(message=f"/skill {argument}", attached=(block,))


@command("/mode")
async def _mode(host: AgentHost, argument: str) -> CommandResult:
    permissions = host.deps.tools.permissions
    chosen = next((mode for mode in MODES if mode == argument.lower()), None)
    if argument and chosen is None:
        problem = _("There is no mode {mode}.").format(mode=clean_line(argument))
        raise ClawbotError(problem, hint=_("Choose from {modes}.").format(modes=", ".join(MODES)))
    permissions.mode = chosen or permissions.mode
    return _output("/mode", mode_text(permissions.mode), {"mode": permissions.mode})


@command("/forget")
async def _forget(host: AgentHost, argument: str) -> CommandResult:
    return _output("/forget", await forget_words(host.deps.memory, argument))


@command("/undo")
async def _undo(host: AgentHost, argument: str) -> CommandResult:
    return _output("/undo", await undo_change(host.deps.memory, host.conversation))


@command("/done")
async def _done(host: AgentHost, argument: str) -> CommandResult:
    return _output("/done", await SessionIntents(host.deps, host.conversation).done())


@command("/permissions")
async def _permissions(host: AgentHost, argument: str) -> CommandResult:
    tools = host.deps.tools
    word, _space, number = argument.partition(" ")
    if word == "drop":
        grants = tools.grants()
        chosen = whole_number(number) or 0
        if not 1 <= chosen <= len(grants):
            raise ClawbotError(_("There is no such number."), hint=_("/permissions lists what was always allowed."))
        tools.take_back(grants[chosen - 1][1])
    text = permissions_text(tools, host.deps.settings, host.deps.profile)
    return _output("/permissions", text, {"mode": tools.permissions.mode, "always": tools.grants()})


@command("/tools")
async def _tools(host: AgentHost, argument: str) -> CommandResult:
    lines = [f"- **{spec.name}** {spec.description.partition('. ')[0]}" for spec in host.tool_specs]
    return _output("/tools", "\n".join(lines))


@command("/mcp")
async def _mcp(host: AgentHost, argument: str) -> CommandResult:
    found = host.deps.profile.mcp()
    lines = [line for server in found for line in mcp_lines(server)]
    none = _("No MCP servers. `clawbot mcp add NAME -- COMMAND` adds one.")
    return _output("/mcp", "\n".join(lines) or none, msgspec.to_builtins(found))


@command("/edit")
async def _edit(host: AgentHost, argument: str) -> CommandResult:
    target = host.status.workspace / (argument or "AGENTS.md")
    return _output("/edit", _("`{file}` opens in the chat screen (`clawbot`), or in any editor.").format(file=target))


@command("/memory")
async def _memory(host: AgentHost, argument: str) -> CommandResult:
    return _output("/memory", *await search_memory(host.deps.memory, argument))


@command("/export")
async def _export(host: AgentHost, argument: str) -> CommandResult:
    plain = " ".join(part for part in argument.split(" ") if part != "--with-secrets")
    with_secrets, argument = plain != argument, plain
    form, _space, rest = argument.partition(" ")
    if form not in {"md", "json"}:
        form, rest = ("json" if argument.endswith(".json") else "md"), argument
    path = await host.export(form, Path(rest.strip()) if rest.strip() else None, with_secrets=with_secrets)
    return _output("/export", _("Written to `{file}`.").format(file=path), {"path": str(path)})


@command("/help")
async def _help(host: AgentHost, argument: str) -> CommandResult:
    known = [info for info in installed_commands().infos if info.screen != "always" or info.name == "/quit"]
    return _output("/help", "\n".join(f"- **{info.name}** {_(info.arguments)} {_(info.help)}" for info in known))


# What the commands answer that only the chat screen has.
_ANSWERS = {
    "/rewind": N_("The chat screen (`clawbot`) goes back to an earlier message: esc twice."),
    "/theme": N_("The chat screen (`clawbot`) has the themes; `tui.theme` in the settings chooses one."),
    "/copy": N_("The chat screen (`clawbot`) copies; here, `clawbot chat -p TEXT` writes to standard output."),
    "/quit": N_("Goodbye."),
}


async def _fixed(name: str, host: AgentHost, argument: str) -> CommandResult:
    return _output(name, _(_ANSWERS[name]))


for _name in _ANSWERS:
    command(_name)(functools.partial(_fixed, _name))
