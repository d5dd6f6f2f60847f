"""One dream: reads, lets a model or the rules propose, checks each proposal, and records those that are new."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from clawbot.authors import Recorder
from clawbot.clock import Clock, epoch_ms
from clawbot.config.paths import Paths
from clawbot.config.schema import DreamSettings, Settings
from clawbot.deadline import Cancellation
from clawbot.llm.protocol import ChatModel
from clawbot.memory.documents.memory_files import MemoryDocuments
from clawbot.messages import OFFLINE
from clawbot.plugins.dreaming.applying import Applied, StaleError, apply
from clawbot.plugins.dreaming.asked import often_found
from clawbot.plugins.dreaming.book import RECENT, Book, Span, read_book
from clawbot.plugins.dreaming.model import Asked, ask_model
from clawbot.plugins.dreaming.offline import propose
from clawbot.plugins.dreaming.proposals import LastDream, Proposal, ProposalStore, proposal_store
from clawbot.plugins.dreaming.room import make_room
from clawbot.plugins.dreaming.rules import why_refused
from clawbot.text.sanitize import clean_line

log = logging.getLogger(__name__)


class DreamContext(Struct, frozen=True):
    """What a dream works with: the agent's `workspace` and `transcripts`, the record of its proposals, the settings.

    `clock` is in the user's zone. `model` None: by rules, as with the offline model. `cancel` ends a running call of
    the model."""

    workspace: Path
    transcripts: Path
    store: ProposalStore
    limits: DreamSettings
    clock: Clock
    cancel: Cancellation
    model: ChatModel | None = None


def context_of(
    settings: Settings, paths: Paths, agent_id: str, clock: Clock, model: ChatModel | None = None
) -> DreamContext:
    """Return the context of a dream of `agent_id`. Raises ConfigError for an unknown one."""
    workspace = settings.agent(agent_id).workspace
    store = proposal_store(paths, agent_id, clock)
    transcripts = paths.sessions(agent_id)
    return DreamContext(workspace, transcripts, store, settings.memory.dream, clock, Cancellation(), model)


class Refused(Struct, frozen=True):
    """A proposal that a rule refused: the beginning of its text, and why."""

    text: str
    reason: str


class DreamOutcome(Struct, frozen=True):
    """What a dream came to: `new` proposals, all that are `pending`, what was `refused`, the `tokens` of the calls, the
    lines of notes that were read, and those `left_out` since they hold a secret or an order."""

    new: tuple[Proposal, ...]
    pending: tuple[Proposal, ...]
    refused: tuple[Refused, ...] = ()
    tokens: int = 0
    lines: int = 0
    left_out: int = 0


async def dream(context: DreamContext, *, days: int | None = None, dry_run: bool = False) -> DreamOutcome:
    """Find proposals in the notes since the last dream, or of the last `days`, and record them unless `dry_run`.

    Raises ModelError, TimeoutError, InterruptedTurnError (then nothing is recorded), ConfigError and OSError.
    """
    now = context.clock.now()
    model = None if context.model is None or context.model.info.ref == OFFLINE else context.model
    book = await asyncio.to_thread(_read, context, now.date(), days, with_before=model is None)
    asked = Asked()
    if model is not None and book.notes:
        asked = await ask_model(model, book, context.limits.read_tokens, epoch_ms(now), context.cancel)
        proposals = list(asked.proposals)
    else:
        often = await asyncio.to_thread(often_found, context.transcripts, (now - RECENT).timestamp())
        proposals = await asyncio.to_thread(propose, book, often)
    return await asyncio.to_thread(_end, context, book, proposals, asked, None if dry_run else now)


def accept(
    context: DreamContext, history: Recorder | None, proposals: Iterable[Proposal], *, job: str = ""
) -> list[Applied]:
    """Write `proposals` and record what became of each. Blocks. A kill in between leaves one that is found done."""
    done = list[Applied]()
    for proposal in proposals:
        [applied] = apply(context.workspace, history, [proposal], job=job)
        if applied.status != "failed":
            context.store.decide(proposal.id, "stale" if applied.status == "refused" else "accepted", proposal.text)
        done.append(applied)
    return done


def _read(context: DreamContext, today: date, days: int | None, *, with_before: bool) -> Book:
    """Return what is to be read, as if all that waits were written: a dream goes on from there."""
    documents = MemoryDocuments(context.workspace, (), zone=context.clock.now().tzinfo)
    book = read_book(documents, context.workspace, _span(context.store.last, today, days), with_before=with_before)
    for each in context.store.pending():
        with contextlib.suppress(StaleError, ValueError):
            book = book.changed(each)
    return book


def _span(last: LastDream, today: date, days: int | None) -> Span:
    """Return the notes to read: of the last `days`, else of the days from that of the newest note that was read, and
    those changed since; at first all."""
    if days is not None:
        return Span(today - timedelta(days=days - 1))
    return Span(date.fromisoformat(last.day), last.time) if last.day else Span(date.min)


def _end(
    context: DreamContext, book: Book, proposals: list[Proposal], asked: Asked, moment: datetime | None
) -> DreamOutcome:
    """Check, bring MEMORY.md below its size, and record, at the `moment` of the dream; None: record nothing."""
    kept, refused = list[Proposal](), [Refused(*each) for each in asked.refused]
    max_tokens = context.limits.max_tokens
    for each in proposals:
        book = _taken(each, book, kept, refused)
    for each in make_room(book, max_tokens):
        book = _taken(each, book, kept, refused)
    log.info("a dream read %d lines: %d proposals, %d refused", len(book.notes), len(kept), len(refused))
    store = context.store
    new = store.record(kept, dry_run=moment is None)
    if moment is not None:
        newest = max((line.day for line in book.notes if line.day is not None), default=None)
        store.end_dream(LastDream(moment.timestamp(), str(newest) if newest else store.last.day))
    pending = store.pending() if moment is not None else [*store.pending(), *new]
    return DreamOutcome(tuple(new), tuple(pending), tuple(refused), asked.tokens, len(book.notes), book.left_out)


def _taken(proposal: Proposal, book: Book, kept: list[Proposal], refused: list[Refused]) -> Book:
    """Add `proposal` to `kept`, or to what is `refused`. Returns the book as the next one finds it."""
    if problem := why_refused(proposal, book):
        refused.append(Refused(clean_line(proposal.text, 80), problem))
        return book
    kept.append(proposal)
    return book.changed(proposal)
