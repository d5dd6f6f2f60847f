"""`clawbot chat`: the screen, or one turn without a screen (`-p`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from clawbot.cli.output import echo, write_nowhere
from clawbot.config.errors import MAX_BYTES, ConfigError
from clawbot.config.paths import Paths, find_home
from clawbot.files import read_plain
from clawbot.text.interface import _, language_of, set_language

if TYPE_CHECKING:
    from clawbot.config.schema import TuiSettings
    from clawbot.config.schema_agent import Mode
    from clawbot.runtime import Runtime, RuntimeOptions


# What textual-serve sets for a screen that it shows in a browser.
BROWSER = "textual.drivers.web_driver:WebDriver"
STARTED_AS = "CLAWBOT_STARTED_AS"
"""What the Makefile sets: there is no `clawbot` on the path of the shell that it goes back to."""
_HUNG_UP = 128 + 1  # the exit code after SIGHUP
_MODEL = re.compile(rb"""(?:^|[{,])[ \t]*["']?model["']?[ \t]*:[ \t]*["']?([^\s"',}#]+)""", re.MULTILINE)
_ONLY_PRINT = ("", "dumb", "unknown")  # terminals that can't draw


class Choices(TypedDict):
    """The choices of the command line, as arguments of `RuntimeOptions`."""

    agent: str | None
    session: str | None
    new: bool
    model: str | None
    config_file: Path | None
    workspace: Path | None
    mode: Mode | None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-p", "--print", "prompt", metavar="TEXT", help="One turn without a screen; `-` reads stdin.")
@click.option("--json", "as_json", is_flag=True, help="With -p: print one event a line as JSON.")
@click.option("--plain", is_flag=True, help="The chat in lines, for screen readers and simple terminals.")
@click.option("--agent", metavar="ID", help="The agent to use (default: main).")
@click.option("--session", metavar="KEY", help="The conversation: its key, its id or a prefix of its id.")
@click.option("--new", is_flag=True, help="Start another conversation.")
@click.option("--model", metavar="M", help="auto, offline, provider/model or script:FILE.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Use this config file.")
@click.option("--workspace", type=click.Path(path_type=Path), help="Use this folder as workspace.")
@click.option(
    "--mode", type=click.Choice(["plan", "ask", "edits"]), help="What may be changed (default: the settings)."
)
def command(prompt: str | None, as_json: bool, plain: bool, **chosen: Unpack[Choices]) -> None:
    """Chat with the agent. Without -p it opens the screen, or a chat in lines (--plain, `tui.plain`, TERM=dumb); the
    conversation continues where it was left.

    With -p only the reply is printed on stdout; a slash command works too (-p "/new"). Exits with 1 if the turn
    failed or was interrupted.
    """
    if chosen["session"] and chosen["new"]:
        raise click.UsageError("--session and --new exclude each other.")
    if prompt is None:
        if as_json:
            raise click.UsageError("--json goes with -p.")
        sys.exit(_open(chosen, plain=plain))
    if not as_json:  # which programs read
        _speak(_early(chosen["config_file"]))
    text = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace") if prompt == "-" else prompt
    if not text.strip():
        raise click.UsageError("There is nothing to send: the text is empty.")
    if not text.lstrip().startswith("/"):
        _begin_client(chosen["model"], chosen["config_file"])
    from clawbot.cli.one_turn import run_one_turn

    sys.exit(asyncio.run(run_one_turn(_load_runtime(chosen)[0].unattended(), text, as_json=as_json)))


def _open(chosen: Choices, *, plain: bool) -> int:
    """Open the chat; when it has closed, print how to come back."""
    in_browser = os.environ.get("TEXTUAL_DRIVER") == BROWSER
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and not in_browser:
        raise click.UsageError("The screen needs a terminal. Without one: clawbot chat -p TEXT, or -p - for stdin.")
    opened: list[Runtime] = []
    early = _early(chosen["config_file"])
    _speak(early)
    is_plain = plain or os.environ.get("TERM", "") in _ONLY_PRINT or (early is not None and early.plain)
    code = (_open_lines if is_plain and not in_browser else _open_screen)(chosen, opened)
    if code == _HUNG_UP:
        write_nowhere()
    elif opened:
        echo(_("Resume with: {command}").format(command=_resume_command(opened[-1])))
    return code


def _early(config_file: Path | None) -> TuiSettings | None:
    """Return the settings of the screen if they decide how the chat begins. Most don't: None, and they are not read
    before the first paint."""
    paths = Paths(find_home())
    try:
        written = read_plain(config_file or paths.config_file, MAX_BYTES)
    except OSError:  # which is reported when the settings are loaded
        return None
    if not any(name in written for name in (b"plain", b"language")):
        return None
    from clawbot.config.snapshot import quick_settings

    return quick_settings(paths, config_file=config_file).tui


def _begin_client(model: str | None, config_file: Path | None) -> None:
    """Start the process that calls models while the rest loads, if the settings seem to name a model that needs it."""
    from clawbot.config.env import load_env
    from clawbot.llm.providers import KEYS, is_known, provider_name
    from clawbot.llm.worker_reuse import begin

    paths, written = Paths(find_home()), b""
    try:
        load_env(paths)
        with contextlib.suppress(FileNotFoundError):
            written = read_plain(config_file or paths.config_file, MAX_BYTES)
    except (OSError, ConfigError):  # which is reported when the settings are loaded
        return
    named = _MODEL.search(written)
    ref = model or (named[1].decode(errors="replace") if named else "auto")
    if is_known(provider_name(ref)) or (ref == "auto" and any(map(os.environ.get, KEYS))):
        begin()


def _speak(early: TuiSettings | None) -> None:
    """Choose the language of the interface."""
    set_language(language_of(os.environ, early.language if early else "auto"))


def _open_lines(chosen: Choices, opened: list[Runtime]) -> int:
    from clawbot.cli.line_chat import run_line_chat

    return asyncio.run(run_line_chat(_load_runtime(chosen)[0], opened))


def _open_screen(chosen: Choices, opened: list[Runtime]) -> int:
    """Open the TUI; `opened` gets each runtime."""
    from clawbot.tui.run import run_chat

    async def open_runtime(agent: str | None = None) -> Runtime:
        # The prompt is already on the screen: imports here must not block the keyboard.
        options, runtime = await asyncio.to_thread(_load_runtime, _chosen_for(agent, chosen, opened))
        opened.append(await runtime.open(options))
        return opened[-1]

    return run_chat(open_runtime)


def _chosen_for(agent: str | None, chosen: Choices, opened: Sequence[Runtime]) -> Choices:
    """The command line's choices as they apply to `agent` (None: the first one). An agent that was `opened` before
    continues in its last conversation."""
    if agent is None or not opened:
        return chosen
    earlier = [runtime.agent.status for runtime in opened if runtime.agent.status.agent_id == agent]
    is_first = agent == opened[0].agent.status.agent_id
    return {
        **chosen,
        "agent": agent,
        "session": earlier[-1].session_key if earlier else None,
        "new": False,
        "workspace": chosen["workspace"] if is_first else None,
    }


def _resume_command(runtime: Runtime) -> str:
    now = runtime.agent.status
    agent = "" if now.agent_id == "main" else f" --agent {now.agent_id}"
    session = "" if now.session_key == "main" else f" --session {now.session_key}"
    chosen = f"{agent}{session}".strip()
    started = os.environ.get(STARTED_AS, "")
    if not started:
        return f"clawbot {chosen}".rstrip()
    return f"{started} ARGS={shlex.quote(chosen)}" if chosen else started


def _load_runtime(chosen: Choices) -> tuple[RuntimeOptions, type[Runtime]]:
    from clawbot.runtime import Runtime, RuntimeOptions

    return RuntimeOptions(**chosen), Runtime
