"""Fills the page as long as nothing was said."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from clawbot.clock import age
from clawbot.text.sanitize import tilde
from clawbot.tui.render.items import NoticeItem
from clawbot.tui.render.start import OFFLINE, TALKS_SHOWN, RecentTalk, StartItem, answering
from clawbot.tui.screens.common import turns

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.tui.screens.chat import ChatScreen


async def welcome(chat: ChatScreen, runtime: RuntimeApi, now: datetime) -> None:
    """Show the first page if nothing but notices is on the page."""
    if not _is_empty(chat):
        return
    status = runtime.agent.status
    found = await runtime.models() if status.model.ref == OFFLINE else ()
    others = [each for each in await runtime.sessions.all() if each.turns and each.session_id != status.session_id]
    talks = [
        RecentTalk(each.session_id, each.title, f"{age(each.updated_at, now)} · {turns(each.turns)}")
        for each in others[:TALKS_SHOWN]
    ]
    if _is_empty(chat):
        told = answering(status.model, found, chat.keys.first("local_model"))
        chat.writer.start(StartItem(chat.page.size.height, told, tilde(status.workspace, Path.home()), talks))


def _is_empty(chat: ChatScreen) -> bool:
    return all(isinstance(item, NoticeItem) for item in chat.page.stack.items)
