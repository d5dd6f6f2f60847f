"""The root command: its subcommands, each imported when used."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from clawbot import __version__
from clawbot.cli.output import dependable_streams, reporting_errors, say
from clawbot.collector import collecting_later

# The subcommand, its module, and the line in `--help`, shown without importing the module.
COMMANDS = {
    "chat": ("clawbot.cli.chat", "Talk to the agent; `-p TEXT` for one turn without a screen."),
    "sessions": ("clawbot.cli.sessions", "List, show, export and repair conversations."),
    "memory": ("clawbot.cli.memory", "Search the memory, forget from it; index status, update, check."),
    "import": ("clawbot.cli.importing", "Import conversations and notes of other programs; undo it."),
    "hooks": ("clawbot.cli.hooks", "List and check hooks; switch one on or off."),
    "skills": ("clawbot.cli.skills", "List and check skills; trust those of a workspace."),
    "workspace": ("clawbot.cli.workspace", "Seed the workspace; compare it with the templates."),
    "schedule": ("clawbot.cli.schedule", "List the scheduled jobs; run those that are due."),
    "config": ("clawbot.cli.config", "Show, check and locate the settings."),
    "doctor": ("clawbot.cli.doctor", "Check what works here and how to fix the rest."),
    "feedback": ("clawbot.cli.feedback", "Write what a bug report needs into a file, without secrets and talks."),
    "extras": ("clawbot.cli.extras", "Install what optional features need."),
    "model": ("clawbot.cli.model", "Get a model that runs on this machine; serve it."),
    "serve": ("clawbot.cli.serve", "Serve the agents over HTTP; print the token for it."),
    "mcp": ("clawbot.cli.mcp", "The memory as an MCP server; servers for the agent: add, list, test."),
    "script": ("clawbot.cli.script", "Serve a scripted model for tests."),
    "completion": ("clawbot.cli.completion", "Print the shell completion script."),
}
DEFAULT = "chat"


class LazyGroup(click.Group):
    """A group that imports a command when it runs, and treats `clawbot [OPTIONS]` as `clawbot chat [OPTIONS]`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The subcommands in table order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of `cmd_name` and return its `command`. Raises TypeError if that is not one."""
        if cmd_name not in COMMANDS:
            return None
        module = sys.modules.get(COMMANDS[cmd_name][0])
        if module is None:
            with collecting_later():
                module = importlib.import_module(COMMANDS[cmd_name][0])
        found = module.command
        if not isinstance(found, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name][0]}.command is no click command")
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; its errors are reported here."""
        with reporting_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands from the table, so that help is as fast as `--version`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete subcommands from the table: the shell calls this at every Tab."""
        nouns = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
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
        say(f"clawbot, version {__version__}")
        if verbose:
            say(importlib.import_module("clawbot.cli.about").about())
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
