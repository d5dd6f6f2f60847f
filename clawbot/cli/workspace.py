"""`clawbot workspace`: create missing files, and compare existing ones with the templates."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from clawbot.cli.output import agent_option, answer, echo_content, options, print_json, shared_options
from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home, shipped
from clawbot.context.workspace import FileDifference, diff_workspace, seed_workspace
from clawbot.errors import ClawbotError
from clawbot.history import history_of

TEMPLATE = "workspace_template"


_options = options(
    agent_option("Whose workspace."),
    click.option(
        "--workspace", metavar="DIR", type=click.Path(path_type=Path), help="Use this folder instead of the agent's."
    ),
    shared_options,
)


@click.group()
def command() -> None:
    """Seed the workspace; compare it with the templates."""


@command.command()
@_options
def init(agent_id: str, workspace: Path | None, file: Path | None, as_json: bool) -> None:
    """Create the workspace and its missing files. Existing files are not changed."""
    folder = _folder(agent_id, workspace, file)
    paths = Paths(find_home())
    paths.ensure_home()
    settings = load_settings(paths, config_file=file, overrides={f"agents.{agent_id}.workspace": str(folder)}).settings
    clock, record = SystemClock(), paths.workspace_record(folder)
    made = seed_workspace(folder, shipped(TEMPLATE), clock, record, history_of(settings, paths, agent_id, clock))
    lines = [f"created {path}" for path in made] or [f"nothing to do: {folder} has all its files"]
    answer(as_json, {"workspace": str(folder), "created": [path.name for path in made]}, lines)


@command.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_options
def diff(names: tuple[str, ...], agent_id: str, workspace: Path | None, file: Path | None, as_json: bool) -> None:
    """Print the differences from the templates as a unified diff from the template to your file: of all files, or of
    those named.

    After the diffs it lists templates that are newer than your file. With --json: an object with workspace and files
    (name, state, diff); state is same, changed (by you), outdated (the template is newer, and you did not change the
    file), both, or missing.
    """
    folder = _folder(agent_id, workspace, file)
    if not folder.is_dir():
        raise ClawbotError(f"There is no workspace {folder}.", hint="`clawbot workspace init` creates it.")
    template = shipped(TEMPLATE)
    files = diff_workspace(folder, template, Paths(find_home()).workspace_record(folder), names)
    if as_json:
        print_json({"workspace": str(folder), "files": files})
        return
    echo_content("\n".join(_lines(files, folder, template)))


def _folder(agent_id: str, workspace: Path | None, file: Path | None) -> Path:
    """Return the folder to use; an unknown agent is an error even if the folder is given."""
    configured = load_settings(Paths(find_home()), config_file=file).settings.agent(agent_id).workspace
    return workspace.expanduser().absolute() if workspace else configured


def _lines(files: list[FileDifference], folder: Path, template: Path) -> list[str]:
    lines = [file.diff for file in files if file.diff]
    for file in files:
        if file.state == "missing":
            lines.append(f"missing: {file.name}")
        elif file.state == "outdated":
            copy = f"cp {shlex.quote(str(template / file.name))} {shlex.quote(str(folder / file.name))}"
            lines.append(f"outdated: {file.name} (the template is newer, and you did not change the file): {copy}")
        elif file.state == "both":
            lines.append(f"both: {file.name} (you changed it, and the template is newer: merge what you like)")
    return lines or ["no differences"]
