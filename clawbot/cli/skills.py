"""`clawbot skills`: list skills, explain why one can't be used, enable or disable one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from clawbot.cli.hooks import fact_lines, missing_data, requirement_fixes, requirement_lines
from clawbot.cli.output import config_option, fitted, json_option, print_json, reports_errors, say, tell
from clawbot.config.env import load_env
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home
from clawbot.config.switches import switch, trust
from clawbot.errors import ClawbotError
from clawbot.logs import setup_logging
from clawbot.skills.discovery import FoundSkill, SkillShelf
from clawbot.skills.manifest import SKILL_FILE
from clawbot.text.sanitize import clean_line

ALL_OFF = "Skills are off as a whole (skills.enabled is false in the settings): none of them is used."
NEXT_MESSAGE = "It takes effect with the next message."


class AgentSkills(NamedTuple):
    """The skills of an agent with their own switches, regardless of `skills.enabled`, which is `any_used`."""

    skills: tuple[FoundSkill, ...]
    shelf: SkillShelf
    any_used: bool


def _look(agent_id: str, file: Path | None) -> AgentSkills:
    setup_logging(None)
    paths = Paths(find_home())
    load_env(paths)
    settings = load_settings(paths, config_file=file).settings
    every = settings.skills.model_copy(update={"enabled": True})
    shelf = SkillShelf(paths, every, settings.agent(agent_id).workspace)
    return AgentSkills(shelf.look(), shelf, settings.skills.enabled)


def skill_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`shell_complete` for a skill. Any failure completes nothing."""
    try:
        found = _look(context.params.get("agent_id") or MAIN_AGENT, context.params.get("file"))
    except (ClawbotError, OSError):
        return []
    names = {skill.name: skill.manifest.description for skill in found.skills}
    return [CompletionItem(name, help=text) for name, text in sorted(names.items()) if name.startswith(incomplete)]


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    agent = click.option(
        "--agent", "agent_id", metavar="ID", default=MAIN_AGENT, show_default=True, help="Whose workspace."
    )
    return agent(config_option(json_option(reports_errors(function))))


_name = click.argument("name", shell_complete=skill_names)


@click.group()
def command() -> None:
    """List skills, explain why one can't be used, enable or disable one."""


@command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that can be used.")
@click.option("-v", "--verbose", is_flag=True, help="Also show what is missing or wrong.")
@_options
def list_skills(agent_id: str, file: Path | None, as_json: bool, eligible: bool, verbose: bool) -> None:
    """List the skills by name.

    Status is ready, off, missing (an unmet requirement) or broken. With --json: an object with enabled (skills as a
    whole), workspaceDir, managedSkillsDir (your own) and skills: name, description, source, folder, enabled, eligible,
    state, missing, problem, changed.
    """
    found = _look(agent_id, file)
    skills = [skill for skill in found.skills if not eligible or (skill.ready and found.any_used)]
    if as_json:
        print_json(
            {
                "enabled": found.any_used,
                "workspaceDir": str(found.shelf.workspace),
                "managedSkillsDir": str(found.shelf.home),
                "skills": [_data(found, skill) for skill in skills],
            }
        )
        return
    if skills:
        say("\n".join(table(skills, shutil.get_terminal_size().columns, verbose=verbose)))
    else:
        say(
            f"No skills. Put folders with a {SKILL_FILE} into {found.shelf.home}." if not eligible else "None is ready."
        )
    _warn(found)


@command.command()
@_name
@_options
def info(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Show all details of the skill NAME: what it is for, where it is, what it requires."""
    found = _look(agent_id, file)
    skill = FoundSkill.named(found.skills, name)
    if as_json:
        manifest = skill.manifest
        more = {
            "license": manifest.license,
            "compatibility": manifest.compatibility,
            "allowedTools": list(manifest.allowed_tools),
            "modelInvocable": not manifest.disable_model_invocation,
            "userInvocable": manifest.user_invocable,
        }
        print_json({**_data(found, skill), **more})
        return
    say("\n".join(info_lines(skill)))
    _warn(found)


@command.command()
@_options
def check(agent_id: str, file: Path | None, as_json: bool) -> None:
    """List the skills that can't be used, the reason, and the fix. Exits with 0 even then."""
    found = _look(agent_id, file)
    idle = [skill for skill in found.skills if not skill.ready]
    ready = [skill.name for skill in found.skills if skill.ready]
    if as_json:
        told = [
            {"name": skill.name, "status": skill.state, "reason": skill.why, "fixes": list(fixes(skill))}
            for skill in idle
        ]
        print_json({"enabled": found.any_used, "ready": ready, "notReady": told})
        return
    say(f"{len(ready)} of {len(found.skills)} ready" + (f": {', '.join(ready)}" if ready else ""))
    for skill in idle:
        say(clean_line(f"{skill.name}: {skill.why}"))
        for fix in fixes(skill):
            say(f"  fix: {clean_line(fix)}")
    _warn(found)


@command.command()
@_name
@_options
def enable(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Enable the skill NAME; one of the workspace as it is now. Refuses one that can't be used."""
    found = _look(agent_id, file)
    skill = FoundSkill.named(found.skills, name)
    if skill.problem or skill.missing:
        why = skill.problem or f"missing {', '.join(skill.missing)}"
        raise ClawbotError(f"{name} can't be used: {clean_line(why)}.", hint="`clawbot skills check` says what to do.")
    _switch(found, skill, as_json, on=True)


@command.command()
@_name
@_options
def disable(name: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Disable the skill NAME."""
    found = _look(agent_id, file)
    _switch(found, FoundSkill.named(found.skills, name), as_json, on=False)


def _switch(found: AgentSkills, skill: FoundSkill, as_json: bool, *, on: bool) -> None:
    changed, file = skill.enabled is not on, found.shelf.switches_file
    if changed and skill.source == "workspace":
        trust(file, os.path.realpath(skill.folder), skill.digest if on else None)
    elif changed:
        switch(file, skill.name, on=on)
    warnings = []
    if on and skill.source == "workspace":
        where = skill.folder / SKILL_FILE
        warnings.append(f"{skill.name} lies in the workspace, where the agent writes. Read it first: {where}")
    if on and not found.any_used:
        warnings.append(ALL_OFF)
    if as_json:
        print_json({"name": skill.name, "enabled": on, "changed": changed, "file": str(file), "warnings": warnings})
        return
    word = "on" if on else "off"
    say(f"{skill.name} is {word}. {NEXT_MESSAGE}" if changed else f"{skill.name} is {word} already.")
    for warning in warnings:
        tell(f"clawbot: {warning}")


def _warn(found: AgentSkills) -> None:
    for folder in found.shelf.settings.dirs:
        if not folder.is_dir():
            tell(f"clawbot: skills.dirs: there is no folder {folder}")
    if not found.any_used:
        tell(f"clawbot: {ALL_OFF}")


# -- what is printed: pure texts and plain data from the skills that were found


def _data(found: AgentSkills, skill: FoundSkill) -> dict[str, Any]:
    return skill.data() | {"eligible": skill.ready and found.any_used, "missing": missing_data(skill.missing)}


def table(skills: Sequence[FoundSkill], columns: int, *, verbose: bool) -> Iterator[str]:
    """The skills as lines below a header; descriptions are truncated to fit into `columns`."""
    rows = [("Status", "Skill", "Description", "Source", "Why")]
    rows += [
        (skill.state, skill.name, skill.manifest.description, skill.source, skill.why.removeprefix("off: "))
        for skill in skills
    ]
    return fitted(rows if verbose else [row[:-1] for row in rows], columns, 2)


def info_lines(skill: FoundSkill) -> Iterator[str]:
    """All details of a skill."""
    manifest = skill.manifest
    yield clean_line(f"{skill.name}: {skill.state}")
    if manifest.description:
        yield f"  {clean_line(manifest.description)}"
    callers = [] if manifest.disable_model_invocation else ["the model"]
    callers += ["you (/skill)"] if manifest.user_invocable else []
    yield from fact_lines(
        [
            ("why", skill.why),
            ("source", skill.source),
            ("folder", str(skill.folder)),
            ("called by", " and ".join(callers)),
            ("license", manifest.license),
            ("needs", manifest.compatibility),
            *(("tools", f"{tool} (it says so; that allows nothing)") for tool in manifest.allowed_tools),
            *(
                ("requires", line)
                for line in requirement_lines(manifest.requires, skill.missing, always=manifest.always)
            ),
        ]
    )


def fixes(skill: FoundSkill) -> Iterator[str]:
    """The steps after which the skill can be used; none if it is for another system."""
    if skill.problem:
        yield f"look into {skill.folder}"
        return
    yield from requirement_fixes(skill.missing)
    if not skill.enabled:
        first = f"read {skill.folder / SKILL_FILE}, then " if skill.source == "workspace" else ""
        yield f"{first}clawbot skills enable {skill.name}"
