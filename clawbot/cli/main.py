"""The root command: its subcommands, each imported when used."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import click
from click.shell_completion import CompletionItem

from clawbot import __version__
from clawbot.cli.added import added, load_added
from clawbot.cli.output import dependable_streams, echo, reporting_errors
from clawbot.collector import collecting_later
from clawbot.errors import ClawbotError

# The subcommand, its module and its name there (`command` unless stated), and the line in `--help`, shown without
# importing the module.
COMMANDS = {
    "chat": ("clawbot.cli.chat", "Chat with the agent; `-p TEXT` for one turn without a screen."),
    "sessions": ("clawbot.cli.sessions", "List, show, export and repair conversations."),
    "memory": ("clawbot.cli.memory", "Search the memory, forget from it; index status, update, check."),
    "import": ("clawbot.cli.importing", "Import conversations and notes of other programs; undo it."),
    "hooks": ("clawbot.cli.extensions:hooks", "List and check hooks; switch one on or off."),
    "skills": ("clawbot.cli.extensions:skills", "List and check skills; trust those of a workspace."),
    "workspace": ("clawbot.cli.workspace", "Seed the workspace; compare it with the templates."),
    "schedule": ("clawbot.cli.schedule", "List the scheduled jobs; run those that are due."),
    "config": ("clawbot.cli.config", "Show, check and locate the settings."),
    "doctor": ("clawbot.cli.doctor", "Check what works here and how to fix the rest."),
    "feedback": ("clawbot.cli.feedback", "Write a bug report into a file, without secrets and conversations."),
    "extras": ("clawbot.cli.extras", "Install what optional features need."),
    "model": ("clawbot.cli.model", "Get a model that runs on this machine; serve it."),
    "mcp": ("clawbot.cli.mcp", "The memory as an MCP server; servers for the agent: add, list, test."),
    "script": ("clawbot.cli.script", "Serve a scripted model for tests."),
    "completion": ("clawbot.cli.completion", "Print the shell completion script."),
}
DEFAULT = "chat"
GROUP = "clawbot.cli"
"""The entry point group for the commands of plugins, each a click command."""


def _load(name: str) -> click.Command | None:
    """Import what COMMANDS or an entry point calls `name`; None if there is none. Raises ClawbotError for a command of
    a package that can't be used, TypeError for what is no command."""
    if name not in COMMANDS:
        with collecting_later():
            return load_added(GROUP, name)
    module, _, attribute = COMMANDS[name][0].partition(":")
    with nullcontext() if module in sys.modules else collecting_later():
        found = getattr(importlib.import_module(module), attribute or "command")
    if not isinstance(found, click.Command):
        raise TypeError(f"{COMMANDS[name][0]} is no click command")
    return found


def _help_lines(incomplete: str = "") -> Iterator[tuple[str, str]]:
    """Yield each name that begins with `incomplete`, with its line of help. Imports what entry points add."""
    for name in filter(lambda each: each.startswith(incomplete), [*COMMANDS, *sorted(added(GROUP, COMMANDS))]):
        try:
            found = None if name in COMMANDS else _load(name)
        except (ClawbotError, TypeError) as error:
            yield name, str(error)
        else:
            yield name, COMMANDS[name][1] if found is None else found.get_short_help_str(120)


class LazyGroup(click.Group):
    """A group that imports a command when it runs, and treats `clawbot [OPTIONS]` as `clawbot chat [OPTIONS]`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in table order."""
        return [*COMMANDS, *sorted(added(GROUP, COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return `cmd_name`. Raises TypeError if it is no command, ClawbotError if it can't be used."""
        return _load(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; its errors are reported here."""
        with reporting_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands from the table, so that help imports only what entry points add."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_help_lines()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete subcommands by their lines of help: the shell calls this at every Tab."""
        nouns = [CompletionItem(name, help=line) for name, line in _help_lines(incomplete)]
        return nouns + click.Command.shell_complete(self, ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default subcommand before options unknown to the root."""
        own = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        # Completing the first word passes no words at all.
        bare = not args and not ctx.resilient_parsing
        if bare or (args and args[0].startswith("-") and args[0] not in own):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


@click.group(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, help="Print the version.")
@click.option("--verbose", is_flag=True, help="With --version: also the machine, the libraries and the terminal.")
@click.pass_context
def root(context: click.Context, version: bool, verbose: bool) -> None:
    """A local AI agent in the terminal that does not forget."""
    if version:
        echo(f"clawbot, version {__version__}")
        if verbose:
            echo(importlib.import_module("clawbot.cli.extras").about())
        context.exit()
    if context.invoked_subcommand is None:
        raise click.UsageError("--verbose goes with --version.")


def main(**extra: Any) -> None:
    """Run the command line."""
    try:
        with dependable_streams():
            root.main(prog_name="clawbot", **extra)
    finally:
        # Skip the interpreter's final collection of everything: 15 ms.
        gc.freeze()
