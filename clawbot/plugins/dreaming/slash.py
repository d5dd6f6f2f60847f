"""`/dream`: shows the proposals that wait, after a dream where there are none; dreams for the schedule; reminds once
a day of what waits. What only a dream needs is imported by the first one, in a thread."""

from __future__ import annotations

import asyncio
from importlib import import_module

from clawbot.agent.command_hosts import AgentHost
from clawbot.agent.commands import CommandResult
from clawbot.clock import Clock
from clawbot.config.paths import Paths
from clawbot.context.privacy import privacy_of
from clawbot.errors import ClawbotError
from clawbot.files import PRIVATE_FILE, read_plain, write_atomic
from clawbot.plugins.dreaming.proposals import ProposalStore, proposal_store
from clawbot.text.interface import N_, _, ngettext

REMINDED = "reminded"
"""The file next to the record of proposals, with the day of the last reminder."""
_DAY_BYTES = 64
_JOB = "clawbot.plugins.dreaming.job"


class SlashDream:
    """The command `/dream`."""

    name = "dream"
    help = N_("Review proposals for MEMORY.md from the notes; `now` looks for more, `apply` writes them all.")
    arguments = "[now|apply]"

    async def run(self, host: AgentHost, argument: str) -> CommandResult:
        """Show what waits. Raises ClawbotError, and OSError."""
        if not privacy_of(host.conversation.key).memory_file:
            raise ClawbotError(_("The memory is not for this conversation."))
        if argument not in ("", "now", "apply"):
            raise ClawbotError(_("`/dream` takes nothing, `now` or `apply`."))
        await asyncio.to_thread(import_module, _JOB)
        from clawbot.plugins.dreaming.job import review

        return CommandResult((await review(host, argument),))

    async def scheduled(self, host: AgentHost) -> str:
        """Dream; returns the line on what was written, else the one on what waits, if none was shown today. Raises
        ClawbotError, and OSError."""
        await asyncio.to_thread(import_module, _JOB)
        from clawbot.plugins.dreaming.job import dream_for_schedule

        return await dream_for_schedule(host) or await self.remind(host)

    async def remind(self, host: AgentHost) -> str:
        """Return the line on what waits, once a day; "" in a conversation that may not know the memory, and where
        dreams are off. Raises ClawbotError, and OSError."""
        if not privacy_of(host.conversation.key).memory_file or host.deps.memory.settings.dream.mode == "off":
            return ""
        profile, clock = host.deps.profile, host.deps.clock
        return await asyncio.to_thread(_reminder, proposal_store(Paths(profile.home), profile.agent_id, clock), clock)


SLASH = SlashDream()


def _reminder(store: ProposalStore, clock: Clock) -> str:
    """Return the line, and store that it was shown today. Blocks. Raises OSError."""
    count, today = len(store.pending()), clock.now().date().isoformat()
    if not count or _last_day(store) == today:
        return ""
    write_atomic(store.folder / REMINDED, f"{today}\n".encode(), mode=PRIVATE_FILE)
    return ngettext("{n} proposal for MEMORY.md: /dream", "{n} proposals for MEMORY.md: /dream", count).format(n=count)


def _last_day(store: ProposalStore) -> str:
    try:
        return read_plain(store.folder / REMINDED, _DAY_BYTES).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
