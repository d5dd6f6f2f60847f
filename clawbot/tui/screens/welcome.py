"""Shows the first page as long as nothing was said."""

from __future__ import annotations

import asyncio
import itertools
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.clock import age
from clawbot.importing.habits import expected_in
from clawbot.importing.ledger import found_homes, is_dismissed
from clawbot.text.interface import ngettext
from clawbot.text.sanitize import tilde
from clawbot.tui.render.items import NoticeItem
from clawbot.tui.render.start import OFFLINE, TALKS_SHOWN, RecentTalk, StartItem, answering, is_said
from clawbot.tui.screens.common import turns

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.tui.widgets.transcript import TranscriptView


async def welcome(
    page: TranscriptView, runtime: RuntimeApi, now: datetime, local_key: str, *, anew: bool = False
) -> None:
    """Show the first page if nothing was said, or in one that is shown already what has changed: the model, the last
    conversations. `local_key` gets a model on this machine; `anew`: another session began, and what commands printed
    before it goes."""
    if is_said(page.stack.items) and not any(isinstance(item, StartItem) for item in page.stack.items):
        return
    status = runtime.agent.status
    found = await runtime.models() if status.model.ref == OFFLINE else ()
    others = [each for each in await runtime.sessions.all() if each.turns and each.session_id != status.session_id]
    talks = [
        RecentTalk(each.session_id, each.title, f"{age(each.updated_at, now)} · {turns(each.turns)}")
        for each in others[:TALKS_SHOWN]
    ]
    offers = await asyncio.to_thread(_offers, runtime)
    told = answering(status.model, found, local_key)
    items = list(page.stack.items)
    shown = next((item for item in items if isinstance(item, StartItem)), None)
    if shown is not None and (is_said(items) or not anew):
        shown.answers, shown.talks, shown.offers = told, talks, offers
        page.update(shown)
    elif not is_said(items):
        if anew:
            page.clear()
            page.append([item for item in items if isinstance(item, NoticeItem)])
        start = StartItem(page.size.height, told, tilde(status.workspace, Path.home()), talks, offers)
        page.append([start])


def _offers(runtime: RuntimeApi) -> list[str]:
    """What could be imported, and how; else the first thing that other programs would read in the workspace. Blocks."""
    lines = []
    for home in found_homes(runtime.paths):
        text = ngettext("{n} conversation of {program} found", "{n} conversations of {program} found", home.count)
        lines.append(f"{text.format(n=home.count, program=home.label)}: {home.command}")
    if not lines and not is_dismissed(runtime.paths):
        expected = expected_in(runtime.settings.agent(runtime.agent.status.agent_id))
        lines = [f"{message}: clawbot doctor" for message, _fix in itertools.islice(expected, 1)]
    return lines
