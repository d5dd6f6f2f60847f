"""What `/dream` and the job of the schedule do with dreams."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Sequence

import msgspec

from clawbot.agent.command_hosts import AgentHost
from clawbot.agent.events import CommandOutput, Notice
from clawbot.authors import Recorder
from clawbot.config.paths import Paths
from clawbot.config.values import format_duration
from clawbot.deadline import deadline
from clawbot.errors import ClawbotError
from clawbot.plugins.dreaming.applying import Applied
from clawbot.plugins.dreaming.dream import DreamContext, DreamOutcome, accept, dream
from clawbot.plugins.dreaming.listing import lines_of, remarks_of
from clawbot.plugins.dreaming.proposals import Proposal, proposal_store
from clawbot.text.interface import _, ngettext

SCREEN = "dream"
"""The name of the review among the entry points `clawbot.screens`."""
MAX_LINES = 80
"""The most lines of proposals that `/dream` prints."""
_JOB_CHARS = 12


def context_in(host: AgentHost) -> DreamContext:
    """Return what the dreams of the agent of `host` work with."""
    deps = host.deps
    paths, agent_id = Paths(deps.profile.home), deps.profile.agent_id
    store = proposal_store(paths, agent_id, deps.clock)
    limits, model = deps.memory.settings.dream, deps.model.chat
    return DreamContext(deps.workspace, paths.sessions(agent_id), store, limits, deps.clock, model)


async def review(host: AgentHost, argument: str) -> CommandOutput:
    """Return what waits, after a dream if there is nothing or `argument` is "now"; "apply" writes it. Raises
    ClawbotError, and OSError."""
    context = context_in(host)
    waiting = tuple(await asyncio.to_thread(context.store.pending))
    outcome = DreamOutcome((), waiting) if waiting and argument != "now" else await dream(context)
    applied: Sequence[Applied] = ()
    if argument == "apply":
        applied = await asyncio.to_thread(accept, context, host.deps.memory.recorder, outcome.pending)
    shown, remarks = [*lines_of(outcome, applied)][:MAX_LINES], [*remarks_of(outcome, applied)]
    if shown and not applied:
        remarks[0] = _("Nothing is written yet. `/dream apply` writes all of it; the chat screen asks one by one.")
    text = "\n".join(["```", *shown, "```", *remarks] if shown else remarks)
    data = {"proposals": [msgspec.to_builtins(each) for each in outcome.pending]}
    screen = SCREEN if outcome.pending and not applied else ""
    return CommandOutput(command="/dream", text=text, data=data, screen=screen)


async def dream_for_schedule(host: AgentHost) -> str:
    """Dream; in the mode `auto` write what is proposed, and return a line that names it. Raises ClawbotError, and
    OSError."""
    context = context_in(host)
    limits = context.limits
    try:
        async with deadline(limits.time_limit):
            outcome = await dream(context)
    except TimeoutError:
        text = _("It took longer than {duration} and was stopped; nothing was proposed.")
        raise ClawbotError(text.format(duration=format_duration(limits.time_limit))) from None
    if limits.mode != "auto" or not outcome.new:
        return ""
    writing = asyncio.create_task(_write(context, host.deps.memory.recorder, outcome.new), name="proposals of a dream")
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        # Whoever stops the job now is shown all the same what was written.
        writing.add_done_callback(functools.partial(_show, host))
        raise


def _show(host: AgentHost, writing: asyncio.Task[str]) -> None:
    if text := writing.result():
        host.notify(Notice(level="info", text=text))


async def _write(context: DreamContext, history: Recorder | None, proposals: Sequence[Proposal]) -> str:
    """Write `proposals` and return one line on that."""
    job = uuid.uuid4().hex[:_JOB_CHARS]
    return written_text(await asyncio.to_thread(accept, context, history, proposals, job=job))


def written_text(done: Sequence[Applied]) -> str:
    """Return the line on what a dream wrote by itself, "" for nothing."""
    written = [each for each in done if each.status == "written"]
    files = _(", ").join(dict.fromkeys(path for each in written for path in each.paths))
    text = ngettext(
        "A dream made {n} change in {files}: /undo takes it back.",
        "A dream made {n} changes in {files}: /undo takes them back.",
        len(written),
    )
    return text.format(n=len(written), files=files) if written else ""
