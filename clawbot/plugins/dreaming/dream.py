"""One dream: reads, lets a model or the rules propose, checks each proposal, and records those that are new."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

from msgspec import Struct, structs

from clawbot.authors import Recorder
from clawbot.clock import Clock, epoch_ms
from clawbot.config.paths import Paths
from clawbot.config.schema import DreamSettings, Settings
from clawbot.llm.protocol import ChatModel
from clawbot.llm.tokens import weigh_tokens
from clawbot.memory.dates.validity import validity_of
from clawbot.memory.documents.memory_files import MemoryDocuments
from clawbot.messages import OFFLINE
from clawbot.plugins.dreaming.applying import MAIN, Applied, apply
from clawbot.plugins.dreaming.book import RECENT, Book, read_book
from clawbot.plugins.dreaming.lines import bare
from clawbot.plugins.dreaming.model import ask_model
from clawbot.plugins.dreaming.offline import often_found, propose
from clawbot.plugins.dreaming.proposals import (
    LastDream,
    Proposal,
    ProposalStore,
    Refused,
    RefusedError,
    SourceLine,
    identified,
    proposal_store,
)
from clawbot.plugins.dreaming.rules import EARLIER, MAX_OLD, OTHERS, check, pointer, topic_path
from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line
from clawbot.text.topics import topics

log = logging.getLogger(__name__)

_SLACK = 0.15
"""The part of the size of MEMORY.md that moves leave free, so that not every dream moves something."""

_FEWEST = 3  # lines that make a topic


class DreamContext(Struct, frozen=True):
    """What a dream works with: the agent's `workspace` and `transcripts`, the record of its proposals, the settings.

    `clock` is in the user's zone. `model` None: by rules, as with the offline model."""

    workspace: Path
    transcripts: Path
    store: ProposalStore
    limits: DreamSettings
    clock: Clock
    model: ChatModel | None = None


def context_of(
    settings: Settings, paths: Paths, agent_id: str, clock: Clock, model: ChatModel | None = None
) -> DreamContext:
    """Return the context of a dream of `agent_id`. Raises ConfigError for an unknown one."""
    workspace = settings.agent(agent_id).workspace
    store = proposal_store(paths, agent_id, clock)
    transcripts = paths.sessions(agent_id)
    return DreamContext(workspace, transcripts, store, settings.memory.dream, clock, model)


class DreamOutcome(Struct, frozen=True):
    """What a dream came to: `new` proposals, all that are `pending`, what was `refused`, and the number of `lines` of
    notes that were read."""

    new: tuple[Proposal, ...]
    pending: tuple[Proposal, ...]
    refused: tuple[Refused, ...] = ()
    lines: int = 0


async def dream(context: DreamContext, *, days: int | None = None, dry_run: bool = False) -> DreamOutcome:
    """Find proposals in the notes since the last dream, or of the last `days`, and record them unless `dry_run`.

    Raises ModelError, TimeoutError (then nothing is recorded), ConfigError and OSError.
    """
    now = context.clock.now()
    model = None if context.model is None or context.model.info.ref == OFFLINE else context.model
    book = await asyncio.to_thread(_read, context, now.date(), days, with_before=model is None)
    refused = list[Refused]()
    if model is not None and book.notes:
        proposals, refused = await ask_model(model, book, context.limits.read_tokens, epoch_ms(now))
    else:
        often = await asyncio.to_thread(often_found, context.transcripts, (now - RECENT).timestamp())
        proposals = await asyncio.to_thread(propose, book, often)
    outcome = await asyncio.to_thread(_end, context, book, proposals, refused, None if dry_run else now)
    # What the rules proposed themselves and refused is for the log alone.
    return outcome if model is not None else structs.replace(outcome, refused=())


def accept(
    context: DreamContext, history: Recorder | None, proposals: Iterable[Proposal], *, job: str = ""
) -> list[Applied]:
    """Write `proposals` and record what became of each. Blocks. A kill in between leaves one that is found done."""
    done = list[Applied]()
    for proposal in proposals:
        applied = apply(context.workspace, history, proposal, job=job)
        if applied.status != "failed":
            context.store.decide(proposal.id, "stale" if applied.status == "refused" else "accepted", proposal.text)
        done.append(applied)
    return done


def _read(context: DreamContext, today: date, days: int | None, *, with_before: bool) -> Book:
    """Return what is to be read, as if all that waits were written: a dream goes on from there. The notes are those of
    the last `days`, else of the days from that of the newest note that was read, and those changed since; at first
    all."""
    first, changed, last = date.min, math.inf, context.store.last
    if days is not None:
        first = today - timedelta(days=days - 1)
    elif last.day:
        first, changed = date.fromisoformat(last.day), last.time
    documents = MemoryDocuments(context.workspace, (), zone=context.clock.now().tzinfo)
    book = read_book(documents, context.workspace, first, changed, with_before=with_before)
    for each in context.store.pending():
        with contextlib.suppress(RefusedError, ValueError):
            book = book.changed(each)
    return book


def _end(
    context: DreamContext, book: Book, proposals: list[Proposal], refused: list[Refused], moment: datetime | None
) -> DreamOutcome:
    """Check, bring MEMORY.md below its size, and record, at the `moment` of the dream; None: record nothing."""
    book, kept = _checked(proposals, book, refused)
    kept += _checked(_make_room(book, context.limits.max_tokens), book, refused)[1]
    log.info("a dream read %d lines: %d proposals, %d refused", len(book.notes), len(kept), len(refused))
    store = context.store
    new = store.record(kept, dry_run=moment is None)
    if moment is not None:
        newest = max((line.day for line in book.notes if line.day is not None), default=None)
        store.end_dream(LastDream(moment.timestamp(), str(newest) if newest else store.last.day))
    pending = store.pending() if moment is not None else [*store.pending(), *new]
    return DreamOutcome(tuple(new), tuple(pending), tuple(refused), len(book.notes))


def _checked(proposals: Iterable[Proposal], book: Book, refused: list[Refused]) -> tuple[Book, list[Proposal]]:
    """Return the book after those of `proposals` that the rules allow, and these; the others are `refused`."""
    kept = list[Proposal]()
    for each in proposals:
        try:
            check(each, book)
        except RefusedError as error:
            refused.append(Refused(clean_line(each.text, 80), str(error)))
        else:
            kept.append(each)
            book = book.changed(each)
    return book, kept


def _make_room(book: Book, max_tokens: int) -> list[Proposal]:
    """Return the moves that bring the MEMORY.md of `book` below `max_tokens`: of all that has ended, and of the oldest
    lines as far as needed."""
    excess = weigh_tokens("\n".join(book.files.get(MAIN, ()))) - max_tokens
    if excess <= 0:
        return []
    excess += int(max_tokens * _SLACK)
    entries = [entry for entry in book.entries if entry.path == MAIN and entry.number]
    subjects = {entry.text: topics([bare(entry.text)], 4) for entry in entries}
    counts = Counter(word for found in subjects.values() for word in found)
    targets: dict[str, list[str]] = {}
    for entry in sorted(entries, key=_rank):
        has_ended = validity_of(entry.text).until is not None
        if excess <= 0 and not has_ended:
            break
        excess -= weigh_tokens(f"{entry.text}\n")
        targets.setdefault(EARLIER if has_ended else _target(subjects[entry.text], counts), []).append(entry.text)
    reason = _("MEMORY.md has grown beyond its size.")
    return [
        identified(
            Proposal("", "move", MAIN, pointer(target), (), reason, tuple(old[at : at + MAX_OLD]), target=target)
        )
        for target, old in targets.items()
        for at in range(0, len(old), MAX_OLD)
    ]


def _rank(entry: SourceLine) -> tuple[bool, date]:
    """What has ended comes first, by its end, then the others by their beginning; those of no day are the oldest."""
    validity = validity_of(entry.text)
    return validity.until is None, validity.until or validity.since or date.min


def _target(words: Sequence[str], counts: Counter[str]) -> str:
    """Return the topic file of the most frequent of `words`, if it has some more lines."""
    best = max(words, key=lambda word: counts[word], default="")
    path = f"memory/{best}.md"
    return path if best and counts[best] >= _FEWEST and topic_path(path) else OTHERS
