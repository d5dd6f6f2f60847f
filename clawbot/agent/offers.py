"""How much of a conversation was offered to memory, according to the transcript's records. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from msgspec import Struct, structs

from clawbot.messages import UserMessage
from clawbot.sessions.conversation import REWIND, ContextItem
from clawbot.sessions.entries import (
    FINAL,
    FLUSH,
    FORK,
    KEPT_NOTES,
    NOTE,
    OFFER,
    CompactionEntry,
    CustomEntry,
    Entry,
    MemoryWrite,
    Offer,
    Result,
    offer_of,
)
from clawbot.sessions.text import is_spoken

# After this many failures in a row no flush is tried until the next compaction.
MAX_FAILURES = 3

# Maximum failures of silent turns, over all starts, for an ended session.
MAX_TRIES = 9

NOTE_HOOK = "session-memory"
"""The hook that keeps a session as a note, and so takes the text in this note."""

Span = tuple[int, int]
"""Items of the context from the first index to before the second."""


class FlushOutcome(Struct, frozen=True):
    """What a flush came to: `written`, `nothing`, `failed` or `interrupted`, with all `writes` that are on disk.

    `reply` is the model's last word; `error` is what went wrong, if only after a write, and with `nothing` the last
    call that was refused. Both are without secrets and cut short. `tokens` is what the provider counted for
    all calls. `useless`: the model wrote prose or junk in place of notes, which another may do better.
    """

    result: Result
    writes: tuple[MemoryWrite, ...] = ()
    reply: str = ""
    error: str = ""
    tokens: int = 0
    useless: bool = False


class OfferState(Struct, frozen=True):
    """The state of a session's offers.

    `taken` are the first and the last entry (ids, "" for the beginning) of each offer that is final, `offered_to` is
    the last entry of the last of them, `flushed` whether the threshold made an offer in
    this cycle (since the last compaction), `failures` how often in a row a silent turn
    failed in this cycle, `stops` how often it was stopped, `tries` how often one failed over what was left.
    `transcript_bytes` is the size of the transcript when it was offered last. `open` is an offer that began and never
    ended, `open_writes` what it was about to write. `last` ended last, at `last_at` (ISO 8601).
    """

    taken: tuple[tuple[str, str], ...] = ()
    offered_to: str = ""
    flushed: bool = False
    failures: int = 0
    stops: int = 0
    tries: int = 0
    transcript_bytes: int = 0
    open: Offer | None = None
    open_writes: tuple[MemoryWrite, ...] = ()
    last: Offer | None = None
    last_at: str = ""

    @property
    def exhausted(self) -> bool:
        """Whether memory failed or was stopped too often in this cycle to be tried again."""
        return self.failures + self.stops >= MAX_FAILURES


def offers_of(entries: Iterable[Entry]) -> OfferState:
    """The state of the offers in `entries`, oldest first."""
    state = OfferState()
    for entry in entries:
        state = after_entry(state, entry)
    return state


def after_entry(state: OfferState, entry: Entry) -> OfferState:
    """`state` after `entry` was written."""
    match entry:
        case CompactionEntry(details=details):
            known = details if isinstance(details, dict) else {}
            carried = "" if state.offered_to else str(known.get("offeredTo") or "")
            return structs.replace(
                state,
                flushed=False,
                failures=0,
                stops=0,
                taken=(*state.taken, ("", carried)) if carried else state.taken,
                offered_to=state.offered_to or carried,
                transcript_bytes=state.transcript_bytes or _count(known.get("transcriptBytes")),
            )
        case CustomEntry(custom_type=kind, data=dict(data)) if kind in (REWIND, FORK):
            return _after_branching(state, data)
        case CustomEntry(custom_type=kind) if kind == OFFER:
            offer = offer_of(entry)
            return state if offer is None else _after_offer(state, offer, entry.timestamp)
        case _:
            return state


def _after_branching(state: OfferState, data: dict[str, object]) -> OfferState:
    raw = data.get("taken")
    taken: list[tuple[str, str]] = []
    for pair in raw if isinstance(raw, list) else []:
        match pair:
            case [str(first), str(last)]:
                taken.append((first, last))
    return structs.replace(
        state,
        taken=(*state.taken, *taken),
        offered_to=taken[-1][1] if taken else state.offered_to,
        flushed=state.flushed or data.get("flushed") is True,
        transcript_bytes=state.transcript_bytes or _count(data.get("transcriptBytes")),
    )


def carried_over(path: Sequence[Entry], items: Iterable[ContextItem]) -> dict[str, object]:
    """What a branch must know of the offers on `path`, which it leaves: which of its `items` memory has had, so that
    nothing is offered twice."""
    state = offers_of(path)
    positions = {entry.id: at for at, entry in enumerate(path)}
    had: set[str] = set()
    for begin, end in state.taken:
        if end in positions:
            had.update(entry.id for entry in path[positions.get(begin, 0) : positions[end] + 1])
    runs = [
        [item.entry_id for item in run] for known, run in groupby(items, lambda item: item.entry_id in had) if known
    ]
    return {"taken": [[run[0], run[-1]] for run in runs], "flushed": state.flushed}


def kept_notes(entries: Iterable[Entry]) -> dict[str, float]:
    """The digests of what the hooks wrote for a session before (after a crash, or before it was resumed), with the
    times, in seconds since the epoch."""
    return {digest: at for entry in entries for digest, at in _kept_by(entry)}


def _kept_by(entry: Entry) -> Iterator[tuple[str, float]]:
    match entry:
        case CompactionEntry(details=dict(details)) if isinstance(carried := details.get(KEPT_NOTES), list):
            for note in carried:
                match note:
                    case {"digest": str(digest), "at": int(at) | float(at)}:
                        yield digest, at
        case CustomEntry(custom_type=kind, data={"digest": str(digest)}) if kind == NOTE:
            yield digest, entry.moment / 1000
        case CustomEntry() if (offer := offer_of(entry)) is not None and offer.by == NOTE_HOOK:
            for write in offer.writes:
                yield write.digest, entry.moment / 1000


def unoffered_spans(state: OfferState, items: Sequence[ContextItem], first: int) -> list[Span]:
    """The parts of `items` not finally offered, in order; `first` is the index of the first item after the summary."""
    positions = {item.entry_id: at for at, item in enumerate(items) if item.entry_id}
    free = [at >= first for at in range(len(items))]
    for begin, end in state.taken:
        if (last := positions.get(end)) is not None:
            start = positions.get(begin, first)
            free[start : last + 1] = [False] * max(0, last + 1 - start)
    edges = [at for at, (one, other) in enumerate(pairwise([False, *free, False])) if one != other]
    return list(zip(edges[::2], edges[1::2], strict=True))


def held_from(items: Sequence[ContextItem], held: Collection[str], span: Span) -> int:
    """The index from which on a note answers for the items of `span`: it holds the texts of the entries `held`, and no
    text of the user behind that index is missing in it. The end of `span` when it answers for nothing.

    What is between the texts (results of tools, answers that only repeat them, quotes of notes) belongs to these.
    """
    start, stop = span
    found = stop
    for at in range(stop - 1, start - 1, -1):
        item = items[at]
        if item.entry_id in held:
            found = at
        elif isinstance(item.message, UserMessage) and is_spoken(item.message):
            break
    if found < stop and not any(is_spoken(item.message) for item in items[start:found]):
        return start
    return found


def _after_offer(state: OfferState, offer: Offer, at: str) -> OfferState:
    if offer.phase == "begin":
        return structs.replace(state, open=offer, open_writes=())
    if offer.phase == "write":
        # A note may take less than it was offered, which is known when it is written.
        return structs.replace(state, open=offer, open_writes=(*state.open_writes, *offer.writes))
    state = structs.replace(state, open=None, open_writes=(), last=offer, last_at=at)
    if offer.result in FINAL:
        return structs.replace(
            state,
            taken=(*state.taken, (offer.first, offer.last)),
            offered_to=offer.last,
            flushed=state.flushed or offer.exit == "threshold",
            failures=0,
            stops=0,
            tries=0,
            transcript_bytes=offer.transcript_bytes,
        )
    if offer.by != FLUSH:
        # What kept a hook from it does not apply to a silent turn.
        return state
    failed = offer.result == "failed"
    return structs.replace(
        state,
        failures=state.failures + failed,
        stops=state.stops + (offer.result == "interrupted"),
        tries=state.tries + (failed and offer.exit in ("reset", "quit")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
