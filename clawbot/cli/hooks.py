"""`clawbot hooks`: list hooks, explain why one does not run, enable or disable one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from clawbot.cli.config import masked
from clawbot.cli.output import config_option, fitted, json_option, print_json, reports_errors, say, tell
from clawbot.config.document import scalar
from clawbot.config.env import load_env
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home
from clawbot.config.schema_hooks import HookSettings
from clawbot.config.switches import switch, trust
from clawbot.config.values import format_duration
from clawbot.distribution import pip_install
from clawbot.errors import ClawbotError
from clawbot.extensions.manifest import Requires
from clawbot.hooks.discovery import ABSENT, FoundHook, HookPaths, discover, hook_paths
from clawbot.hooks.trust import trusted_hooks
from clawbot.logs import setup_logging
from clawbot.text.sanitize import clean_line

ALL_OFF = "Hooks are off as a whole (hooks.enabled is false in the settings): none of them runs."
NEXT_START = "It takes effect when clawbot starts next."


class AgentHooks(NamedTuple):
    """The hooks of an agent with their own switches, regardless of `hooks.enabled`."""

    hooks: list[FoundHook]
    settings: HookSettings
    places: HookPaths
    workspace: Path
    config_file: Path
    switches_file: Path

    def named(self, name: str) -> FoundHook:
        """The hook `name`: of several, the one that can run. Raises ClawbotError if there is none."""
        found = sorted((hook for hook in self.hooks if hook.name == name), key=lambda hook: bool(hook.problem))
        if found:
            return found[0]
        near = get_close_matches(name, [hook.name for hook in self.hooks], n=1)
        hint = f"Did you mean {near[0]}?" if near else "`clawbot hooks list` shows all."
        raise ClawbotError(f"There is no hook {name!r}.", hint=hint)


def _look(agent_id: str, file: Path | None) -> AgentHooks:
    # Log records of a broken package would reach the screen; the commands report it themselves.
    setup_logging(None)
    paths = Paths(find_home())
    load_env(paths)
    settings = load_settings(paths, config_file=file).settings
    workspace = settings.agent(agent_id).workspace
    places = hook_paths(paths, settings.hooks, workspace)
    trusted = trusted_hooks(paths.switches_file, settings.workspaces)
    hooks = discover(places, settings.hooks.model_copy(update={"enabled": True}), trusted)
    return AgentHooks(hooks, settings.hooks, places, workspace, file or paths.config_file, paths.switches_file)


def hook_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`shell_complete` for a hook. Any failure completes nothing."""
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
    """List hooks, explain why one does not run, enable or disable one."""


@command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that run.")
@click.option("-v", "--verbose", is_flag=True, help="Also show missing requirements.")
@_options
def list_hooks(agent_id: str, file: Path | None, as_json: bool, eligible: bool, verbose: bool) -> None:
    """List the hooks in the order in which they run.

    Status is ready, off, missing (an unmet requirement) or broken. With --json: an object with enabled (hooks as a
    whole), workspaceDir, managedHooksDir (your own) and hooks: name, description, source, folder, events, enabled,
    eligible, missing, problem, changed (since you enabled it).
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
                "hooks": [hook_data(hook, any_runs=runs) for hook in hooks],
            }
        )
        return
    if hooks:
        say("\n".join(table(hooks, shutil.get_terminal_size().columns, verbose=verbose)))
    else:
        say("No hooks." if not eligible else "No hook runs.")
    _warn(found)


@command.command()
@_name
@_options
def info(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Show all details of the hook NAME: its events, requirements and settings."""
    found = _look(agent_id, file)
    hook = found.named(name)
    if as_json:
        print_json(info_data(hook, found.settings.timeout, any_runs=found.settings.enabled))
        return
    say("\n".join(info_lines(hook, found.settings.timeout)))
    _warn(found)


@command.command()
@_options
def check(agent_id: str, file: Path | None, as_json: bool) -> None:
    """List the hooks that don't run, the reason, and the fix. Exits with 0 even then."""
    found = _look(agent_id, file)
    if as_json:
        print_json(check_data(found.hooks, found.config_file, any_runs=found.settings.enabled))
        return
    say("\n".join(check_lines(found.hooks, found.config_file)))
    _warn(found)


@command.command()
@_name
@_options
def enable(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Enable the hook NAME, overriding your config file; one of the workspace as it is now.

    Refuses one that can't run.
    """
    found = _look(agent_id, file)
    hook = found.named(name)
    if hook.problem or hook.missing:
        why = "; ".join(filter(None, (hook.problem, f"missing {', '.join(hook.missing)}" if hook.missing else "")))
        raise ClawbotError(f"{name} can't run: {clean_line(why)}.", hint="`clawbot hooks check` says what to do.")
    _switch(found, hook, as_json, on=True)


@command.command()
@_name
@_options
def disable(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Disable the hook NAME, overriding your config file."""
    found = _look(agent_id, file)
    _switch(found, found.named(name), as_json, on=False)


def _switch(found: AgentHooks, hook: FoundHook, as_json: bool, *, on: bool) -> None:
    changed = hook.enabled is not on
    if changed or hook.off_because:
        _keep(found, hook, on=on)
    warnings = []
    if on and hook.source == "workspace":
        warnings.append(f"{hook.name} is code in the workspace, where the agent writes. Read it first: {hook.folder}")
    if on and not found.settings.enabled:
        warnings.append(ALL_OFF)
    if as_json:
        file = str(found.switches_file)
        print_json({"name": hook.name, "enabled": on, "changed": changed, "file": file, "warnings": warnings})
        return
    word = "on" if on else "off"
    say(f"{hook.name} is {word}. {NEXT_START}" if changed else f"{hook.name} is {word} already.")
    for warning in warnings:
        tell(f"clawbot: {warning}")


def _keep(found: AgentHooks, hook: FoundHook, *, on: bool) -> None:
    """Write down that `hook` is on or off: one of a workspace by its folder and content, and by its name only as far as
    that stands in the way."""
    by_name = found.settings.entry(hook.name).enabled
    if hook.source != "workspace":
        switch(found.switches_file, hook.name, on=on)
        return
    trust(found.switches_file, os.path.realpath(hook.folder), hook.digest if on else None)
    if on and by_name is False:
        switch(found.switches_file, hook.name, on=True)
    elif by_name and not on:
        switch(found.switches_file, hook.name, on=None)
        if found.config_file.is_file() and _named_by(found.config_file, hook.name):
            switch(found.switches_file, hook.name, on=False)


def _named_by(config_file: Path, name: str) -> bool:
    """Whether the settings still switch on the hook called `name`."""
    settings = load_settings(Paths(find_home()), config_file=config_file).settings
    return settings.hooks.entry(name).enabled is True


def _warn(found: AgentHooks) -> None:
    for folder in found.places.dirs:
        if not folder.is_dir():
            tell(f"clawbot: hooks.dirs: there is no folder {folder}")
    if not found.settings.enabled:
        tell(f"clawbot: {ALL_OFF}")


# -- what is printed: pure texts and plain data from the hooks that were found

_HEAD = ("Status", "Hook", "Description", "Source")
_LABEL = 12
# The phrase for a requirement, and its kind in JSON.
_KINDS = {"bin": "bins", "any bin": "anyBins", "env": "env", "os": "os", "python": "python"}


def status(hook: FoundHook) -> str:
    """One word: `ready`, `off`, `missing` (an unmet requirement) or `broken`."""
    if hook.problem:
        return "broken"
    if not hook.enabled:
        return "off"
    return "missing" if hook.missing else "ready"


# -- JSON --------------------------------------------------------------------------------------------------------------


def hook_data(hook: FoundHook, *, any_runs: bool) -> dict[str, Any]:
    """The JSON form of a hook. `any_runs`: hooks are not switched off as a whole."""
    return {
        "name": hook.name,
        "description": hook.manifest.description,
        "source": hook.source,
        "folder": str(hook.folder),
        "events": list(hook.manifest.events),
        "enabled": hook.enabled,
        "eligible": hook.ready and any_runs,
        "missing": missing_data(hook.missing),
        "problem": hook.problem,
        "changed": hook.changed,
    }


def info_data(hook: FoundHook, timeout: float, *, any_runs: bool) -> dict[str, Any]:
    """The JSON form of all details of a hook. `timeout` is the default, in seconds."""
    manifest = hook.manifest
    requires = {kind: list(names) for kind, names in _required(manifest.requires).items()}
    return {
        **hook_data(hook, any_runs=any_runs),
        "emoji": manifest.emoji,
        "homepage": manifest.homepage,
        "order": manifest.order,
        "timeoutSeconds": manifest.timeout or timeout,
        "always": manifest.always,
        "requires": requires,
        "env": sorted(hook.env),
        "settings": masked(dict(hook.settings)),
    }


def missing_data(phrases: Sequence[str]) -> dict[str, list[str]]:
    """Unmet requirements by their kind."""
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS.values()}
    for phrase in phrases:
        kind, _, names = phrase.partition(": ")
        found[_KINDS[kind]] += names.split(" or " if kind == "os" else ", ")
    return found


def _required(requires: Requires) -> Mapping[str, Sequence[str]]:
    return {
        "bins": requires.bins,
        "anyBins": requires.any_bins,
        "env": requires.env,
        "os": requires.os,
        "python": requires.python,
    }


# -- list --------------------------------------------------------------------------------------------------------------


def table(hooks: Sequence[FoundHook], columns: int, *, verbose: bool) -> Iterator[str]:
    """The hooks as lines below a header; descriptions are truncated to fit into `columns`."""
    head = [*_HEAD, "Missing"] if verbose else [*_HEAD]
    return fitted([head, *(_row(hook, verbose=verbose) for hook in hooks)], columns, 2)


def _row(hook: FoundHook, *, verbose: bool) -> list[str]:
    cells = [status(hook), hook.name, hook.manifest.description, hook.source]
    if verbose:
        cells.append(hook.problem or ", ".join(hook.missing) or hook.off_because)
    return cells


# -- info --------------------------------------------------------------------------------------------------------------


def info_lines(hook: FoundHook, timeout: float) -> Iterator[str]:
    """All details of a hook. `timeout` is the default, in seconds."""
    manifest = hook.manifest
    yield clean_line(f"{manifest.emoji} {hook.name}: {status(hook)}")
    if manifest.description:
        yield f"  {clean_line(manifest.description)}"
    facts = [
        ("problem", hook.problem),
        ("off", hook.off_because),
        ("source", hook.source),
        ("folder", str(hook.folder)),
        ("homepage", manifest.homepage),
        ("events", ", ".join(manifest.events)),
        ("order", str(manifest.order)),
        ("timeout", format_duration(manifest.timeout or timeout)),
        ("required", "for tool calls" if hook.required else ""),
        *(("requires", line) for line in requirement_lines(manifest.requires, hook.missing, always=manifest.always)),
        *(("settings", f"{key}: {scalar(value)}") for key, value in masked(dict(hook.settings)).items()),
        *(("env", name) for name in sorted(hook.env)),
    ]
    yield from fact_lines(facts)


def fact_lines(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Labels with what they say; one that is empty is left out, and a label that is repeated stands once."""
    last = ""
    for label, text in facts:
        if text:
            yield f"  {label if label != last else '':<{_LABEL}}{clean_line(text)}"
            last = label


def requirement_lines(requires: Requires, missing: Sequence[str], *, always: bool) -> Iterator[str]:
    """What is required, each with a word if it is `missing`; `always`: nothing of it must be there."""
    phrases = [f"{kind}: {name}" for kind in ("bins", "env", "python") for name in _required(requires)[kind]]
    phrases = [phrase.replace("bins:", "bin:") for phrase in phrases]
    phrases += [f"any bin: {', '.join(requires.any_bins)}"] if requires.any_bins else []
    phrases += [f"os: {' or '.join(requires.os)}"] if requires.os else []
    yield from (f"{phrase} (missing)" if phrase in missing else phrase for phrase in phrases)
    if always:
        yield "nothing must be there (always)"


# -- check -------------------------------------------------------------------------------------------------------------


def check_data(hooks: Sequence[FoundHook], config_file: Path, *, any_runs: bool) -> dict[str, Any]:
    """The JSON form of a check."""
    idle = [
        {"name": hook.name, "status": status(hook), "reason": hook.reason, "fixes": list(fixes(hook, config_file))}
        for hook in hooks
        if not hook.ready
    ]
    return {"enabled": any_runs, "ready": [hook.name for hook in hooks if hook.ready], "notReady": idle}


def check_lines(hooks: Sequence[FoundHook], config_file: Path) -> Iterator[str]:
    """The number of ready hooks, then each hook that does not run: the reason, and the fix."""
    ready = [hook.name for hook in hooks if hook.ready]
    yield f"{len(ready)} of {len(hooks)} ready" + (f": {', '.join(map(clean_line, ready))}" if ready else "")
    for hook in hooks:
        if not hook.ready:
            yield clean_line(f"{hook.name}: {hook.reason}")
            yield from (f"  fix: {clean_line(fix)}" for fix in fixes(hook, config_file))


def fixes(hook: FoundHook, config_file: Path) -> Iterator[str]:
    """The steps that make the hook run; none if it is for another system."""
    if hook.problem:
        broken = f"look into {hook.folder}" if hook.folder != Path() else "install the package again"
        absent = f"put it into {hook.folder}, or take {hook.name} out of hooks.entries in {config_file}"
        yield absent if hook.problem == ABSENT else broken
        return

    def in_settings(name: str) -> str:
        return f" or, in {config_file}, hooks: {{entries: {{{hook.name}: {{env: {{{name}: …}}}}}}}}"

    yield from requirement_fixes(hook.missing, in_settings)
    if not hook.enabled:
        first = f"read {hook.folder}, then " if hook.source == "workspace" else ""
        yield f"{first}clawbot hooks enable {hook.name}"


def requirement_fixes(missing: Sequence[str], or_else: Callable[[str], str] = lambda name: "") -> Iterator[str]:
    """The steps that meet what is `missing`; `or_else` says another way to give a variable."""
    needed = missing_data(missing)
    yield from (f"install {name}, so that it is on PATH" for name in needed["bins"])
    if needed["anyBins"]:
        yield f"install one of {', '.join(needed['anyBins'])}, so that it is on PATH"
    for name in needed["env"]:
        yield f"export {name}=…{or_else(name)}"
    for name in needed["python"]:
        yield pip_install(name)
