"""`clawbot hooks`: which hooks there are, why one does not run, and switching one on or off."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from clawbot.cli import hooks_output as output
from clawbot.cli.config import config_option
from clawbot.cli.output import json_option, print_json, reports_errors
from clawbot.config.edit import set_value
from clawbot.config.env import load_env
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home
from clawbot.config.schema_hooks import HookSettings
from clawbot.errors import ClawbotError
from clawbot.hooks.discovery import FoundHook, Places, discover
from clawbot.hooks.places import places_of
from clawbot.tui.render.sanitize import clean_line

ALL_OFF = "Hooks are off as a whole (hooks.enabled is false in the settings): none of them runs."
NEXT_START = "It counts when clawbot starts next."


class Found(NamedTuple):
    """The hooks of an agent, each on or off by itself, whatever `hooks.enabled` says."""

    hooks: list[FoundHook]
    settings: HookSettings
    places: Places
    workspace: Path
    config_file: Path

    def named(self, name: str) -> FoundHook:
        """The hook `name`: of several, the one that can run. Raises ClawbotError when there is none."""
        found = sorted((hook for hook in self.hooks if hook.name == name), key=lambda hook: bool(hook.problem))
        if found:
            return found[0]
        near = get_close_matches(name, [hook.name for hook in self.hooks], n=1)
        hint = f"Did you mean {near[0]}?" if near else "`clawbot hooks list` shows all."
        raise ClawbotError(f"There is no hook {name!r}.", hint=hint)


def _look(agent_id: str, file: Path | None) -> Found:
    paths = Paths(find_home())
    load_env(paths)
    settings = load_settings(paths, config_file=file).settings
    workspace = settings.agent(agent_id).workspace
    places = places_of(paths, settings.hooks, workspace)
    hooks = discover(places, settings.hooks.model_copy(update={"enabled": True}))
    return Found(hooks, settings.hooks, places, workspace, file or paths.config_file)


def hook_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What can be typed for a hook: `shell_complete` of an argument. Whatever fails completes nothing."""
    try:
        found = _look(context.params.get("agent_id") or MAIN_AGENT, context.params.get("file"))
    except (ClawbotError, OSError):
        return []
    names = {hook.name: hook.manifest.description for hook in found.hooks}
    return [CompletionItem(name, help=text) for name, text in sorted(names.items()) if name.startswith(incomplete)]


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    agent = click.option(
        "--agent", "agent_id", metavar="ID", default=MAIN_AGENT, show_default=True, help="Whose workspace."
    )
    return agent(config_option(json_option(reports_errors(function))))


_name = click.argument("name", shell_complete=hook_names)


@click.group()
def command() -> None:
    """List hooks, say why one does not run, switch one on or off."""


@command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that run.")
@click.option("-v", "--verbose", is_flag=True, help="Also what each one lacks.")
@_options
def list_hooks(agent_id: str, file: Path | None, as_json: bool, eligible: bool, verbose: bool) -> None:
    """List the hooks in the order in which they run.

    Status is ready, off, missing (something that the hook needs) or broken. With --json: an object with enabled (hooks
    as a whole), workspaceDir, managedHooksDir (your own) and hooks: name, description, source, folder, events, enabled,
    eligible, missing, problem.
    """
    found = _look(agent_id, file)
    runs = found.settings.enabled
    hooks = [hook for hook in found.hooks if not eligible or (hook.ready and runs)]
    if as_json:
        print_json(
            {
                "enabled": runs,
                "workspaceDir": str(found.workspace),
                "managedHooksDir": str(found.places.home),
                "hooks": [output.hook_data(hook, any_runs=runs) for hook in hooks],
            }
        )
        return
    if hooks:
        click.echo("\n".join(output.table(hooks, shutil.get_terminal_size().columns, verbose=verbose)))
    else:
        click.echo("No hooks." if not eligible else "No hook runs.")
    _warn(found)


@command.command()
@_name
@_options
def info(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Show all about the hook NAME: its events, what it needs, its settings."""
    found = _look(agent_id, file)
    hook = found.named(name)
    if as_json:
        print_json(output.info_data(hook, found.settings.timeout, any_runs=found.settings.enabled))
        return
    click.echo("\n".join(output.info_lines(hook, found.settings.timeout)))
    _warn(found)


@command.command()
@_options
def check(agent_id: str, file: Path | None, as_json: bool) -> None:
    """Say which hooks don't run, why, and what mends it. Exits with 0 even then."""
    found = _look(agent_id, file)
    if as_json:
        print_json(output.check_data(found.hooks, found.config_file, any_runs=found.settings.enabled))
        return
    click.echo("\n".join(output.check_lines(found.hooks, found.config_file)))
    _warn(found)


@command.command()
@_name
@_options
def enable(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Switch the hook NAME on, in your config file. Refuses one that can't run."""
    found = _look(agent_id, file)
    hook = found.named(name)
    if hook.problem or hook.missing:
        why = output.reason(hook).removeprefix("off; ")
        raise ClawbotError(f"{name} can't run: {clean_line(why)}.", hint="`clawbot hooks check` says what to do.")
    _switch(found, hook, as_json, on=True)


@command.command()
@_name
@_options
def disable(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Switch the hook NAME off, in your config file."""
    found = _look(agent_id, file)
    _switch(found, found.named(name), as_json, on=False)


def _switch(found: Found, hook: FoundHook, as_json: bool, *, on: bool) -> None:
    changed = hook.enabled is not on
    if changed:
        set_value(found.config_file, ("hooks", "entries", hook.name, "enabled"), on)
    warnings = []
    if on and hook.source == "workspace":
        warnings.append(f"{hook.name} is code in the workspace, where the agent writes. Read it first: {hook.folder}")
    if on and not found.settings.enabled:
        warnings.append(ALL_OFF)
    if as_json:
        file = str(found.config_file)
        print_json({"name": hook.name, "enabled": on, "changed": changed, "file": file, "warnings": warnings})
        return
    word = "on" if on else "off"
    click.echo(f"{hook.name} is {word}. {NEXT_START}" if changed else f"{hook.name} is {word} already.")
    for warning in warnings:
        click.echo(f"clawbot: {clean_line(warning)}", err=True)


def _warn(found: Found) -> None:
    for folder in found.places.dirs:
        if not folder.is_dir():
            click.echo(f"clawbot: hooks.dirs: there is no folder {clean_line(str(folder))}", err=True)
    if not found.settings.enabled:
        click.echo(f"clawbot: {ALL_OFF}", err=True)
