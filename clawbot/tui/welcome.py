"""Fills the empty page of a start: the welcome of the first one, the last sessions on later ones."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.clock import age
from clawbot.text.sanitize import tilde
from clawbot.tui.render.start import TALKS_SHOWN, RecentTalk, StartItem, answering
from clawbot.tui.screens.common import turns

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.tui.screens.chat import ChatScreen


async def welcome(chat: ChatScreen, runtime: RuntimeApi) -> None:
    """Say what this is, what to try, and who answers."""
    keys = sum(len(provider.keys) for provider in runtime.providers)
    status, home = runtime.agent.status, Path.home()
    item = StartItem(
        chat.page.size.height,
        answering(status.model, await runtime.models(), keys, chat.keys.first("local_model")),
        tilde(status.workspace, home),
        tilde(runtime.paths.sessions(status.agent_id), home),
    )
    chat.writer.start(item)


async def offer_talks(chat: ChatScreen, runtime: RuntimeApi, now: datetime) -> None:
    """Show the last sessions, if there are others than this one and the page is still empty."""
    here = runtime.agent.status.session_id
    others = [each for each in await runtime.sessions.all() if each.turns and each.session_id != here]
    talks = [
        RecentTalk(each.session_id, each.title, f"{age(each.updated_at, now)} · {turns(each.turns)}")
        for each in others[:TALKS_SHOWN]
    ]
    if talks and not len(chat.page.stack):
        chat.writer.start(StartItem(chat.page.size.height, talks=talks))
