"""`clawbot doctor`: what works here and what does not, with the command that fixes it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import click

from clawbot import __version__
from clawbot.cli import doctor_setup as setup
from clawbot.cli import doctor_storage as storage
from clawbot.cli.doctor_storage import Finding, Findings, Here
from clawbot.cli.output import agent_option, echo, print_json, shared_options
from clawbot.clock import SystemClock
from clawbot.config.env import load_env
from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths, check_agent_id, find_home
from clawbot.config.schema import Settings
from clawbot.context.workspace import mend_workspace
from clawbot.logs import setup_logging
from clawbot.text.secrets import redact

log = logging.getLogger(__name__)

# The version of the JSON output: increment when a key changes its meaning or is removed.
VERSION = 1

Check = Callable[[Here], Findings | Awaitable[Findings]]

CHECKS: tuple[Check, ...] = (
    setup.python,
    setup.packages,
    setup.extensions,
    setup.sqlite,
    setup.configuration,
    setup.env_file,
    setup.keys,
    storage.permissions,
    setup.agents,
    setup.model,
    setup.local_servers,
    setup.mcp_servers,
    setup.hooks,
    setup.client,
    setup.other_programs,
    storage.state_folder,
    storage.workspace,
    setup.expected_elsewhere,
    storage.log_file,
    storage.disk,
    storage.sessions,
    storage.strangers,
    storage.locks,
    storage.index,
    setup.sandbox,
    setup.terminal,
)

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@shared_options
@agent_option("Whose workspace and sessions.")
@click.option("--ping/--no-ping", default=True, show_default=True, help="Call the model with a tiny request.")
@click.option(
    "--fix", is_flag=True, help="First set aside what is in the way of the workspace's own files and folders."
)
def command(file: Path | None, as_json: bool, agent_id: str, ping: bool, fix: bool) -> None:
    """Check what works here and what does not, with the command that fixes it. Exits with 1 if there is a problem."""
    # Log records would reach the screen; doctor itself writes nothing without --fix, not even a log.
    setup_logging(None)
    here = inspect_setup(agent_id, ping=ping, config_file=file)
    findings = [Finding("fixed", "ok", line) for line in mend_workspace(here.settings.workspace)] if fix else []
    findings += asyncio.run(examine(here))
    if as_json:
        print_json({"version": VERSION, "clawbot": __version__, "findings": findings})
    else:
        _print(findings)
    if any(finding.state == "problem" for finding in findings):
        sys.exit(1)


def inspect_setup(agent: str, *, ping: bool, config_file: Path | None = None) -> Here:
    """Collect what the checks need. An invalid configuration is a finding, not an error.

    Raises ConfigError for an agent that is not in the settings.
    """
    paths = Paths(find_home())
    check_agent_id(agent)
    with contextlib.suppress(ConfigError):  # which is a finding of its own
        load_env(paths)
    error: ConfigError | None = None
    notices: tuple[str, ...] = ()
    try:
        loaded = load_settings(paths, config_file=config_file)
        every, notices = loaded.settings, loaded.notices
    except ConfigError as caught:
        error = caught
        every = Settings.model_validate({}, context={"home": paths.home})
    return Here(
        paths=paths,
        config_file=config_file or paths.config_file,
        agent=agent,
        # Without readable settings the agents are unknown.
        settings=every.agent(MAIN_AGENT if error else agent),
        all_settings=every,
        config_error=error,
        config_notices=notices,
        environ=dict(os.environ),
        clock=SystemClock(),
        ping=ping,
    )


async def examine(here: Here, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """Run the checks concurrently; findings in the order of `checks`."""
    found = await asyncio.gather(*(_examine(check, here) for check in checks))
    return [finding for findings in found for finding in findings]


async def _examine(check: Check, here: Here) -> Findings:
    """Return the findings of one check. A crashing check is a finding too: the others are still needed."""
    try:
        found = await asyncio.to_thread(check, here)
        return await found if inspect.isawaitable(found) else found
    except Exception as error:
        log.debug("a check failed", exc_info=True)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        message = redact(f"this check itself failed: {type(error).__name__}: {error} ({where})")
        fix = "report it with `clawbot feedback`"
        return [Finding(getattr(check, "__name__", "check"), "problem", message, fix)]


def _print(findings: Sequence[Finding]) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    for state, line in lines_of(findings):
        # In whatever encoding the terminal has: a broken locale is one of the findings.
        shown = line.encode(encoding, "replace").decode(encoding)
        echo(shown, label=f"{state:<7}" if state else "", colour=COLOURS.get(state))


def lines_of(findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the report: the state at the start of each line, empty for none, and the rest."""
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        yield finding.state, f"  {finding.check:<{width}}  {finding.message}"
        if finding.fix:
            yield "", f"{'':<7}  {'':<{width}}  {'how' if finding.state == 'ok' else 'fix'}: {finding.fix}"
    count = Counter(finding.state for finding in findings)
    yield "", f"\n{count['ok']} ok, {count['warning']} to check, {count['problem']} to mend"
