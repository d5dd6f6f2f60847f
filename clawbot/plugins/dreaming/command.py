"""`clawbot memory dream`: finds proposals for MEMORY.md, shows them with their sources, and writes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
import msgspec

from clawbot.cli.memory import Setup, one_agent
from clawbot.cli.output import answer, fail, warn
from clawbot.clock import SystemClock
from clawbot.history import history_of
from clawbot.plugins.dreaming.dream import accept, context_of
from clawbot.plugins.dreaming.listing import lines_of, remarks_of
from clawbot.text.interface import _

if TYPE_CHECKING:
    from clawbot.plugins.dreaming.applying import Applied
    from clawbot.plugins.dreaming.dream import DreamOutcome


@click.command("dream", short_help="Propose changes of MEMORY.md from the notes; --apply writes them.")
@click.option("--days", type=click.IntRange(min=1), metavar="N", help="Read the notes of the last N days.")
@click.option("--dry-run", is_flag=True, help="Only show what would be proposed; record nothing.")
@click.option("--apply", "applies", is_flag=True, help="Write all proposals; `clawbot memory undo` takes them back.")
@one_agent
def command(*, days: int | None, dry_run: bool, applies: bool, agent_id: str, file: Path | None, as_json: bool) -> None:
    """Propose changes of MEMORY.md from the notes since the last dream, and show all proposals that wait.

    With a model, it proposes and each proposal is checked against its sources; offline, rules propose. Nothing is
    written without --apply. Exits with 1 if a proposal could not be written.

    With --json: an object with proposals, an array of id, kind (add, merge, supersede, move, drop), file, text,
    sources (positions), reason; where they apply old (lines), until, target.
    """
    if dry_run and applies:
        raise click.UsageError("--dry-run and --apply exclude each other.")
    outcome, applied = asyncio.run(_dream(Setup.load(file), agent_id, days, dry_run=dry_run, applies=applies))
    data = {"proposals": [msgspec.to_builtins(each) for each in outcome.pending]}
    answer(as_json, data, lines_of(outcome, applied), remarks_of(outcome, applied))
    if (left := next((each for each in applied if each.status in ("refused", "failed")), None)) is not None:
        fail(_("Not all of it could be written: {reason}.").format(reason=left.reason))


async def _dream(
    setup: Setup, agent_id: str, days: int | None, *, dry_run: bool, applies: bool
) -> tuple[DreamOutcome, Sequence[Applied]]:
    # Deferred: what other commands on the memory do without.
    from clawbot.llm.factory import open_model
    from clawbot.llm.servers import ServerConsent
    from clawbot.plugins.dreaming.dream import dream

    agent = setup.settings.agent(agent_id)
    clock = SystemClock(ZoneInfo(agent.timezone) if agent.timezone else None)
    consent = ServerConsent(setup.paths.servers_file)
    model = await open_model(agent.model, agent, clock=clock, log_path=setup.paths.log_file, consent=consent)
    try:
        context = context_of(setup.settings, setup.paths, agent_id, clock, model)
        outcome = await dream(context, days=days, dry_run=dry_run)
    finally:
        await model.aclose()
    if not applies:
        return outcome, ()
    history = history_of(setup.settings, setup.paths, agent_id, clock)
    history.warn = warn
    return outcome, await asyncio.to_thread(accept, context, history, outcome.pending)
