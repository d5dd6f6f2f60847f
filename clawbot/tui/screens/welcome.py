"""The first page of a conversation: the program, examples or the last sessions, the model, the folder of the notes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.clock import age
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line, tilde
from clawbot.tui.render.items import Item, NoticeItem, Page, UserItem, spread
from clawbot.tui.render.lines import (
    BLANK,
    StyledLine,
    StyledSpan,
    cells_of,
    cut_spans,
    ellipsis,
    middle,
    short_model,
    width_of,
    wrap,
)
from clawbot.tui.screens.common import turns

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.llm.protocol import ModelInfo
    from clawbot.tui.widgets.transcript import TranscriptView


OFFLINE = "offline"
MARK = "╱╱╱ "
PROMISE = N_("an agent that does not forget")
EXAMPLES = (N_("remember that I prefer tabs"), N_("what do I prefer?"), N_("show USER.md"))
SESSIONS_SHOWN = 3
LEFT = "   "
AIRY = (60, 15)  # columns and rows from which there is room for air and long words
TERM = 10  # cells of the words at the left
TRY, SESSION, RUN = "try:", "session:", "run:"


def has_messages(items: Iterable[Item]) -> bool:
    """Return whether `items` hold more than notices and what slash commands printed."""
    return any(item.entry or (isinstance(item, UserItem) and not item.text.startswith("/")) for item in items)


class RecentSession(Struct, frozen=True):
    """An earlier session: its id, its title, how old it is and how long, in words."""

    session_id: str
    title: str
    detail: str


class Answering(Struct, frozen=True):
    """Who answers, and why; `others` are the other detected models, `server` one that waits for the user's consent;
    `local_key` gets a model on this machine, "" where one answers or none can be had."""

    name: str
    why: str
    others: tuple[str, ...] = ()
    server: str = ""
    local_key: str = ""


def answering(model: ModelInfo, found: Sequence[ModelInfo], local_key: str) -> Answering:
    """Describe `model`, which answers, where `found` can be used; `local_key` gets a model on this machine."""
    others = tuple(other.ref for other in found if other.ref not in (OFFLINE, model.ref))
    can_fetch = model.ref == OFFLINE and all(other.startswith("local/") for other in others)
    server = clean_line(model.found.server) if model.found else ""
    return Answering(
        clean_line(model.ref), clean_line(model.reason), others, server, local_key if can_fetch and not server else ""
    )


@dataclass
class StartItem(Item):
    """The first page of a conversation: examples, or the last `sessions` if there are any, the model, the folder of the
    `notes`, and `offers`, what could be imported. Each example and each session opens; `rows` is the page's height."""

    rows: int
    answers: Answering
    notes: str = ""
    sessions: Sequence[RecentSession] = ()
    offers: Sequence[str] = ()

    def lines(self, page: Page) -> list[StyledLine]:
        """Return the page, with blank lines and complete sentences if they fit."""
        width = page.width
        airy = width >= AIRY[0] and self.rows >= AIRY[1]
        sessions = [_choice(each.title, SESSION + each.session_id, width, each.detail) for each in self.sessions]
        examples = [_choice(text, TRY + text, width) for text in map(_, EXAMPLES)]
        parts = [_mark(width), sessions or examples, _models(self.answers, width, airy=airy)]
        if airy:
            notes = _("{folder}, plain Markdown").format(folder=middle(self.notes, width - len(LEFT) - TERM))
            parts.append([_term(_("notes"), notes, width), _term("/help", _("keys and commands"), width)])
        if self.offers:
            never = [_("{command} hides this").format(command="clawbot import dismiss")] if airy else []
            spans = [[StyledSpan(f"{LEFT}{text}", "tool-text")] for text in (*self.offers, *never)]
            parts.append([line for each in spans for line in map(StyledLine, map(tuple, wrap(each, width)))])
        air = [BLANK] if airy else []
        return [line for part in parts for line in (*air, *part)] + air


def _models(main: Answering, width: int, *, airy: bool) -> list[StyledLine]:
    """Return who answers, and the ways to another model: no sentence is split, all are on one line if they fit."""
    name = short_model(main.name)
    if main.name != OFFLINE:
        why = _("{model}: {why}").format(model=name, why=main.why) if main.why else name
        first = _("{model}, your choice").format(model=name) if main.why == _("your choice") else why
        ways = [(_("/model chooses another"), f"{RUN}choose_model")]
    else:
        first = (
            _("No language model yet. I remember, find and quote your notes.") if airy else _("No language model yet.")
        )
        ways = [(_("/model, ctrl+k: enter an API key"), f"{RUN}choose_model")]
        if main.server:
            ways.insert(
                0, (_("{server} runs on this machine: you are asked before it answers").format(server=main.server), "")
            )
        if main.others:
            ways.append((_("found here: {models}").format(models=_named(main.others)), f"{RUN}choose_model"))
        if main.local_key:
            local = _("{key}: a model on this machine, no key needed").format(key=main.local_key)
            ways.append((local, f"{RUN}run_local_model"))
    room = max(2, width - len(LEFT))
    spans = [StyledSpan(text, "note" if target else "tool-text", target) for text, target in ways]
    joined = [span for each in spans for span in (StyledSpan(" · ", "tool"), each)][1:]
    rows = [joined] if cells_of(joined) <= room else [[span] for span in spans]
    lines = [line for row in ([StyledSpan(first, "tool-text")], *rows) for line in wrap(row, room)]
    return [StyledLine((StyledSpan(LEFT), *line)) for line in lines]


def _named(models: Sequence[str]) -> str:
    shown, left = ", ".join(map(short_model, models[:3])), len(models) - 3
    if left > 0:
        shown = ngettext("{models} and {n} more", "{models} and {n} more", left).format(models=shown, n=left)
    return shown


def _mark(width: int) -> list[StyledLine]:
    spans = [StyledSpan(f"{LEFT}{MARK}", "you"), StyledSpan("clawbot", "strong"), StyledSpan(f"  {_(PROMISE)}", "tool")]
    return [StyledLine(tuple(spans if cells_of(spans) <= width else spans[:2]))]


def _choice(text: str, target: str, width: int, detail: str = "") -> StyledLine:
    right = [StyledSpan(f"  {detail}", "tool")] if detail else []
    room = width - len(LEFT) - 2
    if room - cells_of(right) < room // 2:
        right = []
    shown = ellipsis(clean_line(text), room - cells_of(right))
    return spread([StyledSpan(f"{LEFT}❯ ", "you"), StyledSpan(shown, "", target)], right, width)


def _term(term: str, text: str, width: int) -> StyledLine:
    first = StyledSpan(f"{LEFT}{term}{' ' * (TERM - width_of(term))}", "tool")
    return StyledLine(tuple(cut_spans([first, StyledSpan(text, "tool-text")], width)))


async def welcome(
    page: TranscriptView, runtime: RuntimeApi, now: datetime, local_key: str, *, fresh: bool = False
) -> None:
    """Show the first page if there are no messages, or update the one that is shown: the model, the last
    conversations. `local_key` gets a model on this machine; `fresh`: another session began, and what commands printed
    before it goes."""
    if has_messages(page.stack.items) and not any(isinstance(item, StartItem) for item in page.stack.items):
        return
    status = runtime.agent.status
    found = await runtime.models() if status.model.ref == OFFLINE else ()
    others = [each for each in await runtime.sessions.all() if each.turns and each.session_id != status.session_id]
    sessions = [
        RecentSession(each.session_id, each.title, f"{age(each.updated_at, now)} · {turns(each.turns)}")
        for each in others[:SESSIONS_SHOWN]
    ]
    offers = await asyncio.to_thread(_offers, runtime)
    answers = answering(status.model, found, local_key)
    items = list(page.stack.items)
    shown = next((item for item in items if isinstance(item, StartItem)), None)
    if shown is not None and (has_messages(items) or not fresh):
        shown.answers, shown.sessions, shown.offers = answers, sessions, offers
        page.update(shown)
    elif not has_messages(items):
        if fresh:
            page.clear()
            page.append([item for item in items if isinstance(item, NoticeItem)])
        start = StartItem(page.size.height, answers, tilde(status.workspace, Path.home()), sessions, offers)
        page.append([start])


def _offers(runtime: RuntimeApi) -> list[str]:
    """Return what could be imported, and how; else what other programs would read first in the workspace. Blocks."""
    from clawbot.importing.habits import expected_in
    from clawbot.importing.ledger import found_homes, is_dismissed

    lines = []
    for home in found_homes(runtime.paths):
        text = ngettext("{n} conversation of {program} found", "{n} conversations of {program} found", home.count)
        lines.append(f"{text.format(n=home.count, program=home.label)}: {home.command}")
    if not lines and not is_dismissed(runtime.paths):
        expected = expected_in(runtime.settings.agent(runtime.agent.status.agent_id))
        lines = [f"{message}: clawbot doctor" for message, _fix in itertools.islice(expected, 1)]
    return lines
