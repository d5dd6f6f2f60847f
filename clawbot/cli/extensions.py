"""The commands of `clawbot hooks` and `clawbot skills`: list them, explain why one can't be used, enable or disable
one."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic

import click
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from clawbot.cli.config import masked
from clawbot.cli.output import agent_option, answer, echo, fitted, options, print_json, shared_options, warn
from clawbot.config.env import load_env
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home
from clawbot.config.source import scalar
from clawbot.config.switches import switch, trust
from clawbot.config.values import format_duration
from clawbot.distribution import pip_install
from clawbot.errors import ClawbotError
from clawbot.extensions.discovery import F, Found
from clawbot.hooks.discovery import ABSENT, FoundHook, find_hooks, trusted_hooks
from clawbot.logs import setup_logging
from clawbot.skills.discovery import FoundSkill, SkillCatalog
from clawbot.text.sanitize import clean_line

_LABEL = 12
# The phrase for a requirement, and its kind in JSON.
_KINDS = {"bin": "bins", "any bin": "anyBins", "env": "env", "os": "os", "python": "python"}


class Extensions(ABC, Generic[F]):
    """The hooks or skills `found` for an agent, with their own switches although they may all be off."""

    found_type: ClassVar[type[Found[Any]]]
    noun: ClassVar[str]
    """The command, the section of the settings, the folders."""
    can: ClassVar[str]
    order: ClassVar[str]
    nature: ClassVar[str]
    own: ClassVar[str]
    """The key in JSON that only these have."""
    applies: ClassVar[str]

    def __init__(self, agent_id: str, config_file: Path | None) -> None:
        """Raises ClawbotError. Blocks."""
        # Log records of a broken package would reach the screen; the commands report it themselves.
        setup_logging(None)
        self.paths = Paths(find_home())
        load_env(self.paths)
        self.settings = load_settings(self.paths, config_file=config_file).settings
        self.section = self.settings.hooks if self.noun == "hooks" else self.settings.skills
        self.agent = self.settings.agent(agent_id)
        self.config_file = config_file or self.paths.config_file
        self.home = self.paths.home / self.noun
        self.switches_file = self.paths.home / f"{self.noun}.json"
        self.found = self.find()

    @abstractmethod
    def find(self) -> Sequence[F]:
        """All of the agent."""

    @abstractmethod
    def details(self, each: F) -> dict[str, Any]:
        """What only `info --json` prints."""

    @abstractmethod
    def facts(self, each: F) -> Iterable[tuple[str, str]]:
        """Labels with what only `info` prints."""

    def odd(self, each: F) -> list[str]:
        """What of the form of its manifest was put right."""
        return []

    def title(self, each: F) -> str:
        return each.name

    def save(self, each: F, *, on: bool) -> None:
        """Save that `each` is on or off: one of a workspace by its folder and content, any other by its name."""
        if each.source == "workspace":
            trust(self.switches_file, os.path.realpath(each.folder), each.digest if on else None)
        else:
            switch(self.switches_file, each.name, on=on)

    def data(self, each: F) -> dict[str, Any]:
        """Return the JSON form of one."""
        eligible = each.ready and self.section.enabled
        return {**each.data(), "eligible": eligible, "missing": by_kind(each.missing)}

    def warnings(self) -> Iterator[str]:
        """What keeps some or all from being used."""
        for folder in self.section.dirs:
            if not folder.is_dir():
                yield f"{self.noun}.dirs: there is no folder {folder}"
        if not self.section.enabled:
            off = f"({self.noun}.enabled is false in the settings)"
            yield f"{self.noun.title()} are all off {off}: none of them can {self.can}."


Kind = type[Extensions[Any]]


def group(kind: Kind) -> click.Group:
    """Return the commands for `kind`."""
    eligible = click.option("--eligible", is_flag=True, help="Only those that are ready.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Also show what is missing or wrong.")
    name = click.argument("name", shell_complete=partial(_complete, kind))
    noun, one = kind.noun, kind.found_type.kind
    made = click.Group(help=f"List {noun}, explain why one can't {kind.can}, enable or disable one.")
    commands: dict[str, tuple[Callable[..., None], tuple[Any, ...], str]] = {
        "list": (_list, (eligible, verbose), _LIST.format(noun=noun, title=noun.title(), kind=kind)),
        "info": (_info, (name,), f"Show all details of the {one} NAME: what it is for, and what it requires."),
        "check": (_check, (), f"List the {noun} that can't {kind.can}, with reason and fix. Exits with 0 even then."),
        "enable": (
            partial(_switch, on=True),
            (name,),
            f"Enable the {one} NAME; one of the workspace as it is now. Refuses one that can't {kind.can}.",
        ),
        "disable": (partial(_switch, on=False), (name,), f"Disable the {one} NAME; your config file is unchanged."),
    }
    for command, (action, own, text) in commands.items():
        all_options = options(*own, agent_option("Whose workspace."), shared_options)
        made.command(command, help=text)(all_options(partial(action, kind)))
    return made


_LIST = """List the {noun} {kind.order}.

Status is ready, off, missing (an unmet requirement) or broken. With --json: an object with enabled (all of
{noun}), workspaceDir, managed{title}Dir (your own) and {noun}: name, description, source, folder, {kind.own}, enabled,
eligible, missing, problem, changed (since you enabled it).
"""


def _complete(kind: Kind, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return `shell_complete` for a name. Any failure completes nothing."""
    try:
        found = kind(context.params.get("agent_id") or MAIN_AGENT, context.params.get("file")).found
    except (ClawbotError, OSError):
        return []
    names = {each.name: each.manifest.description for each in found}
    return [CompletionItem(name, help=text) for name, text in sorted(names.items()) if name.startswith(incomplete)]


def _list(kind: Kind, agent_id: str, file: Path | None, as_json: bool, *, eligible: bool, verbose: bool) -> None:
    here = kind(agent_id, file)
    enabled = here.section.enabled
    found = [each for each in here.found if not eligible or (each.ready and enabled)]
    folders = {"workspaceDir": str(here.agent.workspace), f"managed{here.noun.title()}Dir": str(here.home)}
    data = {"enabled": enabled, **folders, here.noun: [here.data(each) for each in found]}
    none = (
        "None is ready."
        if eligible
        else f"No {here.noun}. Put folders with a {kind.found_type.kind.upper()}.md into {here.home}."
    )
    answer(as_json, data, _table(found, verbose=verbose) if found else [none], here.warnings())


def _table(found: Sequence[Found[Any]], *, verbose: bool) -> Iterator[str]:
    """Return the lines of a table in which descriptions are truncated to fit into the terminal."""
    rows = [("Status", found[0].kind.title(), "Description", "Source", "Why")]
    for each in found:
        why = each.reason().removeprefix("off: ")
        rows.append((each.state, each.name, each.manifest.description, each.source, why))
    return fitted(rows if verbose else [row[:-1] for row in rows], shutil.get_terminal_size().columns, 2)


def _info(kind: Kind, name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    here = kind(agent_id, file)
    each = kind.found_type.named(here.found, name)
    if as_json:
        print_json({**here.data(each), **here.details(each)})
        return
    echo(clean_line(f"{here.title(each)}: {each.state}"))
    if each.manifest.description:
        echo(f"  {clean_line(each.manifest.description)}")
    facts = [
        ("why", each.reason()),
        *(("form", text) for text in here.odd(each)),
        ("source", each.source),
        ("folder", str(each.folder)),
        *here.facts(each),
    ]
    needs = each.manifest.needs({})
    facts += [("requires", f"{need} (missing)" if need in each.missing else need) for need in needs]
    if each.manifest.always:
        facts.append(("requires", "nothing must be there (always)"))
    last = ""
    for label, text in facts:
        if text:
            echo(f"  {label if label != last else '':<{_LABEL}}{clean_line(text)}")
            last = label
    warn(*here.warnings())


def _check(kind: Kind, agent_id: str, file: Path | None, as_json: bool) -> None:
    here = kind(agent_id, file)
    ready = [each.name for each in here.found if each.ready]
    idle = [(each, list(fixes(each, here.config_file))) for each in here.found if not each.ready]
    reports = [
        {"name": each.name, "status": each.state, "reason": each.reason(), "fixes": steps} for each, steps in idle
    ]
    lines = [clean_line(f"{len(ready)} of {len(here.found)} ready" + (f": {', '.join(ready)}" if ready else ""))]
    for each, steps in idle:
        lines += [clean_line(f"{each.name}: {each.reason()}"), *(f"  fix: {clean_line(step)}" for step in steps)]
    odd = {each.name: texts for each in here.found if not each.problem and (texts := here.odd(each))}
    lines += [clean_line(f"{name}: {text}") for name, texts in odd.items() for text in texts]
    data = {"enabled": here.section.enabled, "ready": ready, "notReady": reports, "odd": odd}
    answer(as_json, data, lines, here.warnings())


def _switch(kind: Kind, name: str, agent_id: str, file: Path | None, as_json: bool, *, on: bool) -> None:
    here = kind(agent_id, file)
    each = kind.found_type.named(here.found, name)
    if on and (why := replace(each, enabled=True).reason()):
        hint = f"`clawbot {here.noun} check` shows what to do."
        raise ClawbotError(f"{name} can't {here.can}: {clean_line(why)}.", hint=hint)
    changed = each.enabled is not on
    if changed or each.off_because:
        here.save(each, on=on)
    warnings = []
    if on and each.source == "workspace":
        where = f"{here.nature} in the workspace, where the agent writes"
        warnings.append(f"{name} is {where}. Read it first: {each.entry}")
    if on and not here.section.enabled:
        warnings += list(here.warnings())[-1:]
    data = {"name": name, "enabled": on, "changed": changed, "file": str(here.switches_file), "warnings": warnings}
    word = "on" if on else "off"
    done = f"{name} is {word}. {here.applies}" if changed else f"{name} is {word} already."
    answer(as_json, data, [done], warnings)


def by_kind(phrases: Iterable[str]) -> dict[str, list[str]]:
    """Requirements by their kind."""
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS.values()}
    for phrase in phrases:
        kind, _, names = phrase.partition(": ")
        found[_KINDS[kind]] += names.split(" or " if kind == "os" else ", ")
    return found


def fixes(each: Found[Any], config_file: Path) -> Iterator[str]:
    """Yield the steps after which it can be used; none if it is for another system."""
    if each.problem:
        broken = f"check {each.folder}" if each.folder != Path() else "install the package again"
        absent = f"put it into {each.folder}, or take {each.name} out of hooks.entries in {config_file}"
        yield absent if each.problem == ABSENT else broken
        return
    needed = by_kind(each.missing)
    yield from (f"install {name}, so that it is on PATH" for name in needed["bins"])
    if needed["anyBins"]:
        yield f"install one of {', '.join(needed['anyBins'])}, so that it is on PATH"
    for name in needed["env"]:
        entry = f" or, in {config_file}, hooks: {{entries: {{{each.name}: {{env: {{{name}: …}}}}}}}}"
        yield f"export {name}=…{entry if isinstance(each, FoundHook) else ''}"
    yield from (pip_install(name) for name in needed["python"])
    if not each.enabled:
        first = f"read {each.entry}, then " if each.source == "workspace" else ""
        yield f"{first}clawbot {each.kind}s enable {each.name}"


class Hooks(Extensions[FoundHook]):
    """The hooks of an agent."""

    found_type, noun, can, nature, own = FoundHook, "hooks", "run", "code", "events"
    order = "in the order in which they run"
    applies = "It takes effect when clawbot starts next."

    def find(self) -> Sequence[FoundHook]:
        hooks = self.settings.hooks.model_copy(update={"enabled": True})
        trusted = trusted_hooks(self.switches_file, self.settings.workspaces)
        return find_hooks(self.paths, hooks, self.agent.workspace, trusted)

    def details(self, each: FoundHook) -> dict[str, Any]:
        manifest = each.manifest
        return {
            "emoji": manifest.emoji,
            "homepage": manifest.homepage,
            "order": manifest.order,
            "timeoutSeconds": manifest.timeout or self.settings.hooks.timeout,
            "always": manifest.always,
            "requires": by_kind(manifest.needs({})),
            "env": sorted(each.env),
            "settings": masked(dict(each.settings)),
        }

    def title(self, each: FoundHook) -> str:
        return f"{each.manifest.emoji} {each.name}"

    def facts(self, each: FoundHook) -> Iterable[tuple[str, str]]:
        details = self.details(each)
        return [
            ("homepage", each.manifest.homepage),
            ("events", ", ".join(each.manifest.events)),
            ("order", str(each.manifest.order)),
            ("timeout", format_duration(details["timeoutSeconds"])),
            ("required", "for tool calls" if each.required else ""),
            *(("settings", f"{key}: {scalar(value)}") for key, value in details["settings"].items()),
            *(("env", name) for name in details["env"]),
        ]

    def save(self, each: FoundHook, *, on: bool) -> None:
        """Also change the switch of the name, as far as it decides about one of a workspace."""
        super().save(each, on=on)
        by_name = self.settings.hooks.entry(each.name).enabled
        if each.source != "workspace":
            return
        if on and by_name is False:
            switch(self.switches_file, each.name, on=True)
        elif by_name and not on:
            switch(self.switches_file, each.name, on=None)
            if self.config_file.is_file():
                settings = load_settings(self.paths, config_file=self.config_file).settings
                if settings.hooks.entry(each.name).enabled:
                    switch(self.switches_file, each.name, on=False)


hooks = group(Hooks)


class Skills(Extensions[FoundSkill]):
    """The skills of an agent."""

    found_type, noun, can, nature, own = FoundSkill, "skills", "be used", "text", "state"
    order, applies = "by name", "It takes effect with the next message."

    def find(self) -> Sequence[FoundSkill]:
        settings = self.settings.skills.model_copy(update={"enabled": True})
        return SkillCatalog(self.paths, settings, self.agent.workspace, self.agent.skills).scan()

    def odd(self, each: FoundSkill) -> list[str]:
        return list(each.manifest.odd)

    def details(self, each: FoundSkill) -> dict[str, Any]:
        manifest = each.manifest
        return {
            "license": manifest.license,
            "compatibility": manifest.compatibility,
            "allowedTools": list(manifest.allowed_tools),
            "modelInvocable": not manifest.disable_model_invocation,
            "userInvocable": manifest.user_invocable,
        }

    def facts(self, each: FoundSkill) -> Iterable[tuple[str, str]]:
        manifest = each.manifest
        callers = [] if manifest.disable_model_invocation else ["the model"]
        callers += ["you (/skill)"] if manifest.user_invocable else []
        return [
            ("called by", " and ".join(callers)),
            ("license", manifest.license),
            ("needs", manifest.compatibility),
            *(("tools", f"{tool} (its own claim; that allows nothing)") for tool in manifest.allowed_tools),
        ]


skills = group(Skills)
