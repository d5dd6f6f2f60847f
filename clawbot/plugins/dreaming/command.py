"""`clawbot memory dream` and `/dream`: find proposals for MEMORY.md, show them with their sources, and write them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click
import msgspec
from msgspec import structs

from clawbot.agent.commands import AgentHost, CommandResult
from clawbot.agent.events import CommandOutput
from clawbot.cli.memory import Setup, one_agent
from clawbot.cli.output import answer, fail
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths
from clawbot.config.snapshot import quick_settings
from clawbot.context.privacy import privacy_of
from clawbot.errors import ClawbotError
from clawbot.history import history_of
from clawbot.plugins.dreaming.dream import accept, context_of
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line

if TYPE_CHECKING:
    from clawbot.plugins.dreaming.applying import Applied
    from clawbot.plugins.dreaming.dream import DreamOutcome

LINES = 20
"""The most proposals that `/dream` shows."""


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
    answer(as_json, data, _lines(outcome, applied), _remarks(outcome, applied))
    if any(each.status == "refused" for each in applied):
        fail(_("Not all of it could be written."))


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
    return outcome, await asyncio.to_thread(accept, context, history, outcome.pending)


def _lines(outcome: DreamOutcome, applied: Sequence[Applied]) -> Iterator[str]:
    """Yield the proposals, each with its lines of the file as in a diff, its sources and its reason."""
    done = {each.id: each for each in applied}
    for each in outcome.pending:
        yield f"{each.id} {each.kind} {each.file}{f' -> {each.target}' if each.target else ''}"
        yield from (f"  - {clean_line(old)}" for old in each.old)
        if each.text:
            yield f"  + {clean_line(each.text)}"
        yield f"  {clean_line(each.reason)} {', '.join(each.sources)}".rstrip()
        if each.id in done:
            yield f"  {done[each.id].status}{f': {done[each.id].reason}' if done[each.id].reason else ''}"


def _remarks(outcome: DreamOutcome, applied: Sequence[Applied]) -> Iterator[str]:
    if not outcome.pending:
        yield _("Nothing to propose.")
    elif not applied:
        yield _("Nothing was written; --apply writes all of them.")
    if outcome.refused:
        text = ngettext(
            "{n} proposal was refused: {reason}.",
            "{n} proposals were refused, the first one: {reason}.",
            len(outcome.refused),
        )
        yield text.format(n=len(outcome.refused), reason=outcome.refused[0].reason)


class SlashDream:
    """The command `/dream`."""

    name = "dream"
    help = N_("Propose changes of MEMORY.md from the notes; `/dream apply` writes them.")
    arguments = "[apply]"

    async def run(self, host: AgentHost, argument: str) -> CommandResult:
        """Dream with the model of the conversation. Raises ClawbotError."""
        from clawbot.plugins.dreaming.dream import dream

        deps = host.deps
        if not privacy_of(host.conversation.key).memory_file:
            raise ClawbotError(_("The memory is not for this conversation."))
        if argument not in ("", "apply"):
            raise ClawbotError(_("`/dream` takes nothing, or `apply`."))
        settings = await asyncio.to_thread(quick_settings, Paths(deps.profile.home))
        paths, agent_id = Paths(deps.profile.home), deps.profile.agent_id
        context = context_of(settings, paths, agent_id, deps.clock, deps.model.chat)
        context = structs.replace(context, workspace=deps.workspace)
        outcome = await dream(context)
        applied: Sequence[Applied] = ()
        if argument:
            history = history_of(settings, paths, agent_id, deps.clock)
            applied = await asyncio.to_thread(accept, context, history, outcome.pending)
        shown = [*_lines(outcome, applied)][: LINES * 4]
        text = "\n".join(["```", *shown, "```", *_remarks(outcome, applied)] if shown else _remarks(outcome, applied))
        data = {"proposals": [msgspec.to_builtins(each) for each in outcome.pending]}
        return CommandResult((CommandOutput(command="/dream", text=text, data=data),))


SLASH = SlashDream()
