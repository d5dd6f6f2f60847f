"""`clawbot memory log`, `show` and `undo`: who changed which memory file, and back again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from clawbot.cli.output import agent_option, answer, options, shared_options, warn
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, find_home
from clawbot.config.snapshot import quick_settings
from clawbot.logs import setup_logging

if TYPE_CHECKING:
    from clawbot.history import History

one_agent = options(agent_option("Whose memory."), shared_options)


def _opened(agent_id: str, file: Path | None) -> History:
    """The history, with what others changed until now."""
    # Deferred: searches do without.
    from clawbot.history import history_of

    paths = Paths(find_home())
    settings = quick_settings(paths, config_file=file)
    logging = settings.logging
    setup_logging(paths.log_file, logging.level, logging.max_bytes, logging.backups)
    history = history_of(settings, paths, agent_id, SystemClock())
    history.warn = warn
    try:
        history.notice()
    except OSError as error:
        warn(f"Changes by others can't be recorded: {error.filename}: {error.strerror}.")
    return history


@click.command()
@click.argument("path", metavar="[FILE]", default="")
@one_agent
def log(path: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """List the changes of memory files, newest first: id, time, who, and the file. With FILE, a path in the workspace,
    only its changes, under earlier names too.

    With --json: an object with entries, an array of id, time (UTC), by, path, before and after (SHA-256 of the
    contents, "" for no file, "?" for unknown), and where they apply: was (the earlier name), session, key, entry (the
    id of the message), job, undoes (the id of a change), sources (the lines that a dream made it from).
    """
    from clawbot.history.output import entry_data, log_line

    history = _opened(agent_id, file)
    zone = SystemClock().zone
    given = Path(path)
    inside = given.relative_to(history.workspace) if given.is_relative_to(history.workspace) else given
    changes = history.changes(inside.as_posix() if path else "")
    lines = [log_line(change, zone) for change in changes] or ["No changes are recorded."]
    answer(as_json, {"entries": [entry_data(change) for change in changes]}, lines)


@click.command()
@click.argument("ident", metavar="ID")
@one_agent
def show(ident: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Show the change ID (its beginning is enough): who made it, when, for which message, and the diff.

    With --json: an object as in `memory log`, with diff (null if the contents are not stored).
    """
    from clawbot.history.output import change_diff, change_lines, entry_data

    history = _opened(agent_id, file)
    change = history.find(ident)
    data = {**entry_data(change), "diff": change_diff(history, change)}
    answer(as_json, data, change_lines(history, change, SystemClock().zone))


@click.command()
@click.argument("ident", metavar="ID")
@one_agent
def undo(ident: str, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Take the change ID back. What was changed later stays; if it contradicts, the difference is shown, nothing is
    written, and the exit code is 1.

    With --json: an object with path, id (of the change that this makes), lines (first and last), removed, conflict (a
    diff, or "").
    """
    from clawbot.history.output import undone_text

    undone = _opened(agent_id, file).undo(ident)
    answer(as_json, structs.asdict(undone), undone_text(undone).splitlines())
    if undone.conflict:
        sys.exit(1)
