"""`clawbot workspace`: seed the files that are missing, and compare what is there with the templates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from clawbot.cli.output import json_option, print_json, reports_errors
from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home, shipped
from clawbot.context.workspace import FileDifference, diff_workspace, seed_workspace
from clawbot.errors import ClawbotError

TEMPLATE = "workspace_template"


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    agent = click.option("--agent", metavar="ID", default=MAIN_AGENT, show_default=True, help="Whose workspace.")
    workspace = click.option(
        "--workspace", metavar="DIR", type=click.Path(path_type=Path), help="This folder in place of the agent's."
    )
    return agent(workspace(json_option(reports_errors(function))))


@click.group()
def command() -> None:
    """Seed the workspace; compare it with the templates."""


@command.command()
@_options
def init(agent: str, workspace: Path | None, as_json: bool) -> None:
    """Make the workspace and the files that are missing in it. Nothing that exists is touched."""
    folder = _folder(agent, workspace)
    paths = Paths(find_home())
    if paths.home in folder.parents:
        paths.ensure_home()
    made = seed_workspace(folder, shipped(TEMPLATE), SystemClock())
    if as_json:
        print_json({"workspace": str(folder), "created": [path.name for path in made]})
        return
    for path in made:
        click.echo(f"created {path}")
    if not made:
        click.echo(f"nothing to do: {folder} has all its files")


@command.command()
@_options
def diff(agent: str, workspace: Path | None, as_json: bool) -> None:
    """Print what differs from the templates, as a unified diff from the template to your file."""
    folder = _folder(agent, workspace)
    if not folder.is_dir():
        raise ClawbotError(f"There is no workspace {folder}.", hint="`clawbot workspace init` makes it.")
    files = diff_workspace(folder, shipped(TEMPLATE))
    if as_json:
        print_json({"workspace": str(folder), "files": files})
        return
    click.echo("\n".join(_lines(files)))


def _folder(agent: str, workspace: Path | None) -> Path:
    """The folder that is meant; an unknown agent is an error even when the folder is named."""
    configured = load_settings(Paths(find_home())).settings.agent(agent).workspace
    return workspace.expanduser().absolute() if workspace else configured


def _lines(files: list[FileDifference]) -> list[str]:
    lines = [file.diff for file in files if file.state == "changed"]
    lines += [f"missing: {file.name}" for file in files if file.state == "missing"]
    return lines or ["no differences"]
