"""`clawbot config`: the merged settings with their origins, their errors, and the path of the user's file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from clawbot.cli.output import answer, echo, echo_error, json_option, print_json, shared_options
from clawbot.config.env import load_env
from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.config.source import KeyPath, dotted, scalar
from clawbot.text.secret_names import is_secret_name
from clawbot.text.secrets import MARK, redact


@click.group()
def command() -> None:
    """Show, check and locate the settings."""


@command.command()
@shared_options
def show(file: Path | None, as_json: bool) -> None:
    """Print the merged settings, each with its origin; secrets are masked."""
    loaded = load_settings(Paths(find_home()), config_file=file)
    values = masked(loaded.settings.model_dump(mode="json", by_alias=True))
    data = {"settings": values, "origins": loaded.origins, "files": [str(path) for path in loaded.files]}
    _answer(as_json, data, lines_of(values, loaded.origins), loaded.notices)


@command.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@json_option
def check(file: Path | None, as_json: bool) -> None:
    """Check FILE, or your own settings: prints ok, or one line for each mistake. Exits with 1 if there is a mistake."""
    paths = Paths(find_home())
    try:
        left_out = load_env(paths).notices(paths.env_file)
        loaded = load_settings(paths, config_file=file)
    except ConfigError as error:
        if as_json:
            problems = [{"place": each.position, "key": each.key, "text": each.text} for each in error.problems]
            print_json({"ok": False, "problems": problems, "notices": []})
        for line in () if as_json else [error] if error.hint else error.problems:
            echo_error(str(line))
        sys.exit(1)
    _answer(as_json, {"ok": True, "problems": []}, ["ok"], (*left_out, *loaded.notices))


@command.command()
def path() -> None:
    """Print where your own settings are, or would be."""
    echo(str(Paths(find_home()).config_file))


def _answer(as_json: bool, data: Mapping[str, Any], lines: Iterable[str], notices: Sequence[str]) -> None:
    answer(as_json, {**data, "notices": notices}, lines)
    for notice in () if as_json else notices:
        echo_error(f"note: {notice}")


def masked(value: Any, name: str = "") -> Any:
    """Return `value` without secrets: a hook may store one under a name that the schema does not know."""
    if isinstance(value, dict):
        return {key: masked(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [masked(item, name) for item in value]
    if isinstance(value, str):
        return MARK if is_secret_name(name) else redact(value)
    return value


def lines_of(values: Mapping[str, Any], origins: Mapping[str, str], path: KeyPath = ()) -> Iterator[str]:
    """YAML that can be loaded again, with the origin of each value as a comment. Inherited values are left out."""
    indent = "  " * len(path)
    for key, value in values.items():
        location = (*path, key)
        origin = origins.get(dotted(location))
        if origin is not None:
            first, *rest = scalar({} if isinstance(value, dict) else value, indent).split("\n")
            yield from [f"{indent}{key}: {first}  # {origin}", *rest]
        elif isinstance(value, dict):
            below = list(lines_of(value, origins, location))
            yield from [f"{indent}{key}:", *below] if below else []
