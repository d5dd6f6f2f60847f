"""`clawbot completion`: the shell completion script, and the completion of names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from clawbot.cli.output import echo
from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.scheduling.jobs import jobs_of
from clawbot.sessions.store import SessionStore
from clawbot.text.sanitize import clean_line

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "clawbot"
# The variable with which the script calls the program; click derives the same name.
VARIABLE = "_CLAWBOT_COMPLETE"

INSTALL = {
    "bash": 'eval "$(clawbot completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(clawbot completion zsh)"   # in ~/.zshrc',
    "fish": "clawbot completion fish > ~/.config/fish/completions/clawbot.fish",
}


@click.command(epilog="\b\n" + "\n".join(INSTALL.values()))
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_context
def command(context: click.Context, shell: str | None) -> None:
    """Print the completion script for SHELL; without SHELL, for the one in $SHELL."""
    chosen = shell or this_shell(os.environ.get("SHELL", ""))
    found = get_completion_class(chosen)
    if found is None:
        raise ClawbotError(f"There is no completion for {chosen}.", hint=f"Known: {', '.join(SHELLS)}.")
    echo(found(context.find_root().command, {}, PROGRAM, VARIABLE).source())


def this_shell(path: str) -> str:
    """Return the shell at `path`, the value of `$SHELL`. Raises ClawbotError if it is not supported."""
    name = Path(path).name
    if name not in SHELLS:
        reason = f"$SHELL is {path}" if path else "$SHELL is not set"
        raise ClawbotError(f"{reason}: name the shell.", hint=f"For example: {INSTALL['bash']}")
    return name


def session_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return `shell_complete` for a session argument: names first, then ids; titles as help.

    Read-only; any failure completes nothing, since a shell can't show errors.
    """
    agent = context.params.get("agent_id") or MAIN_AGENT
    try:
        store = SessionStore(Paths(find_home()).sessions(agent), SystemClock(), agent_id=agent)
        found = store.list()
    except (ClawbotError, OSError):
        return []
    named = [(summary.name, summary.title) for summary in found]
    return _typable([*named, *((summary.session_id, summary.title) for summary in found)], incomplete)


def job_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return `shell_complete` for a job of the schedule. Any failure completes nothing."""
    try:
        jobs = jobs_of(load_settings(Paths(find_home())).settings)
    except (ClawbotError, OSError):
        return []
    return _typable({job.name: job.timing for job in jobs}.items(), incomplete)


def _typable(words: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    """The words, with help, that start with `incomplete`. The shell prints them unchanged, so they are cleaned here."""
    return [
        CompletionItem(word, help=clean_line(text))
        for word, text in words
        if word.startswith(incomplete) and word == clean_line(word)
    ]
