"""How far memory was offered what was said, told from the records of a transcript. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from clawbot.sessions.audit import FINAL, OFFER, MemoryWrite, Offer, offer_of
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import CompactionEntry, CustomEntry, Entry

# After so many failures in a row no more flush is tried until the next compaction (reference sheet 8.4).
MOST_FAILURES = 3


class OfferState(Struct, frozen=True):
    """Where the offers of a session stand.

    `offered_to` is the id of the last entry that was offered for good, `flushed` whether the threshold made an offer in
    this cycle (since the last compaction), `failures` how often in a row it
    failed in this cycle, `stops` how often it was stopped. `transcript_bytes` is
    the size of the transcript when it was offered last. `open` is an offer that began and never ended, `open_writes`
    what it was about to write. `last` ended last, at `last_at` (ISO 8601).
    """

    offered_to: str = ""
    flushed: bool = False
    failures: int = 0
    stops: int = 0
    transcript_bytes: int = 0
    open: Offer | None = None
    open_writes: tuple[MemoryWrite, ...] = ()
    last: Offer | None = None
    last_at: str = ""

    @property
    def exhausted(self) -> bool:
        """Whether memory failed or was stopped too often in this cycle to be tried again."""
        return self.failures + self.stops >= MOST_FAILURES


def offers_of(entries: Iterable[Entry]) -> OfferState:
    """What `entries`, oldest first, say of the offers."""
    state = OfferState()
    for entry in entries:
        state = after_entry(state, entry)
    return state


def after_entry(state: OfferState, entry: Entry) -> OfferState:
    """`state` after `entry` was written."""
    match entry:
        case CompactionEntry(details=details):
            known = details if isinstance(details, dict) else {}
            return structs.replace(
                state,
                flushed=False,
                failures=0,
                stops=0,
                offered_to=state.offered_to or str(known.get("offeredTo") or ""),
                transcript_bytes=state.transcript_bytes or _count(known.get("transcriptBytes")),
            )
        case CustomEntry(custom_type=kind) if kind == OFFER:
            offer = offer_of(entry)
            return state if offer is None else _after_offer(state, offer, entry.timestamp)
        case _:
            return state


def unoffered_from(state: OfferState, items: Sequence[ContextItem], first: int) -> int:
    """The index in `items` from which on nothing was offered; `first` is that of the first one that is no summary."""
    if state.offered_to:
        for index in range(len(items) - 1, first - 1, -1):
            if items[index].entry_id == state.offered_to:
                return index + 1
    return first


def _after_offer(state: OfferState, offer: Offer, at: str) -> OfferState:
    if offer.phase == "begin":
        return structs.replace(state, open=offer, open_writes=())
    if offer.phase == "write":
        return structs.replace(state, open_writes=(*state.open_writes, *offer.writes))
    state = structs.replace(state, open=None, open_writes=(), last=offer, last_at=at)
    if offer.result in FINAL:
        return structs.replace(
            state,
            offered_to=offer.last,
            flushed=state.flushed or offer.exit == "threshold",
            failures=0,
            stops=0,
            transcript_bytes=offer.transcript_bytes,
        )
    return structs.replace(
        state, failures=state.failures + (offer.result == "failed"), stops=state.stops + (offer.result == "interrupted")
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
