"""`clawbot feedback`: writes what a bug report needs into one file, which the user can read before sending it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import click

from clawbot.cli.config import lines_of as settings_lines
from clawbot.cli.config import masked
from clawbot.cli.doctor import examine, inspect_setup
from clawbot.cli.doctor import lines_of as finding_lines
from clawbot.cli.doctor_storage import Here
from clawbot.cli.extras import about
from clawbot.cli.output import agent_option, config_option, echo
from clawbot.clock import SystemClock
from clawbot.config.errors import ConfigError
from clawbot.config.load import DEFAULT, load_settings
from clawbot.errors import ClawbotError
from clawbot.guarded import reached
from clawbot.logs import setup_logging
from clawbot.text.sanitize import clean
from clawbot.text.secrets import redact

LOG_BYTES = 64 * 1024  # read of the end of each log

HEAD = """# clawbot feedback

Read this before you send it. It holds the versions, what `clawbot doctor` finds, the settings that are not the default,
and the end of the logs. Secrets are left out, and your home folder is `~`. No conversation and no note was read for it,
but a line of the log can quote some words of one.
"""


@click.command()
@config_option
@click.argument("target", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@agent_option("Whose workspace and sessions.")
def command(file: Path | None, target: Path | None, agent_id: str) -> None:
    """Write what a bug report needs into FILE, a new one in this folder unless named. Nothing is sent."""
    # Log records would reach the screen, or the file that is read here.
    setup_logging(None)
    here = inspect_setup(agent_id, ping=False, config_file=file)
    report = report_of(here).encode("utf-8", "backslashreplace")
    path = target or Path(f"clawbot-feedback-{SystemClock().now():%Y%m%d-%H%M%S}.md")
    folder, name = reached(path, here.settings.workspace)
    if not folder.create(name, report):
        raise ClawbotError(f"{path} exists already.", hint="Name another file.")
    echo(f"Written: {path} ({len(report) / 1024:.1f} KB). Nothing was sent. Read it first, then add it to your report.")


def report_of(here: Here) -> str:
    """Return the full report, without secrets and without the name of the home folder. Blocks."""
    found = asyncio.run(examine(here))
    parts = [
        HEAD,
        _section("Program", about(here.environ)),
        _section("Doctor", "\n".join(f"{state:<7}{line}" if state else line for state, line in finding_lines(found))),
        _section("Settings", "\n".join(_settings(here)) or "none of your own"),
        *(_section(path.name, _end_of(path)) for path in (here.paths.log_file, here.paths.local_log)),
    ]
    return _unnamed(redact(clean("\n".join(parts))), here)


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n" + "\n".join(f"    {line}" for line in text.split("\n")) + "\n"


def _settings(here: Here) -> Iterator[str]:
    """Yield those that somebody set, as YAML; why they can't be read is among the findings."""
    if here.config_error is not None:
        return
    try:
        # A file of the user's need not exist; one that was named must.
        named = here.config_file if here.config_file != here.paths.config_file else None
        loaded = load_settings(here.paths, config_file=named)
    except ConfigError as error:
        yield str(error)
        return
    origins = {path: origin for path, origin in loaded.origins.items() if origin != DEFAULT}
    yield from settings_lines(masked(loaded.settings.model_dump(mode="json", by_alias=True)), origins)


def _end_of(log: Path) -> str:
    """Return the last full lines of `log`, or why there are none."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - LOG_BYTES))
            text = stream.read(LOG_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"({error.strerror or error})"
    return text.partition("\n")[2] if size > LOG_BYTES else text


def _unnamed(text: str, here: Here) -> str:
    """Return `text` with `~` for the user's home folder, and without it in the state folder's name."""
    for folder, name in ((str(here.paths.home), "~/.clawbot"), (str(Path.home()), "~")):
        text = text.replace(folder, name) if folder != "/" else text
    return text
