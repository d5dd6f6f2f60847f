"""Walks the tree of a transcript from its leaf to its root: which entries belong to the conversation as it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import UNSET, Struct, UnsetType

from clawbot.sessions.spans import HEADER, Report, Span

COMPACTION = "compaction"


class Tail(Struct, frozen=True):
    """The part of the path that the model's context is made of, oldest entry first.

    With a compaction in it, it begins at the first entry that this kept; `missing` is the id that it names when the
    path does not hold it.
    """

    spans: list[Span]
    compaction: Span | None = None
    missing: str | None = None


def walk(spans: Iterable[Span], wanted: str | UnsetType | None, report: Report) -> Iterator[Span]:
    """The path to the root, last entry first.

    `spans` come last one first and begin before the place that `wanted` is the parent of; UNSET takes the first of
    them. A parent is looked for further up in the file only, so no damage can make this walk go in circles. One that
    is not there is reported, and the entry before its child in the file stands in for it: what tore the chain is most
    likely a lost line just there.
    """
    ahead = iter(spans)
    skipped: list[Span] = []
    child: Span | None = None
    while wanted is not None:
        found = _next(ahead, wanted, skipped)
        if found is None:
            if child is not None and wanted is not UNSET:
                report(child.start, f"its parent {wanted} is missing; the entry before it stands in")
            if not skipped:
                return
            ahead, skipped, wanted = iter(skipped), [], UNSET
            continue
        skipped = []
        yield found
        child, wanted = found, found.parent_id


def _next(spans: Iterator[Span], wanted: str | UnsetType | None, skipped: list[Span]) -> Span | None:
    for span in spans:
        if span.kind == HEADER:
            continue
        if wanted is UNSET or span.id == wanted:
            return span
        skipped.append(span)
    return None


def tail(path: Iterable[Span], first_kept: Callable[[Span], str | None]) -> Tail:
    """Collect `path` (last entry first) back to what its last compaction kept, or to the root.

    `first_kept` tells the id that a compaction names.
    """
    taken: list[Span] = []
    compaction: Span | None = None
    since = 0
    target: str | None = None
    for span in path:
        taken.append(span)
        if compaction is None and span.kind == COMPACTION:
            compaction, target, since = span, first_kept(span), len(taken)
        if compaction is not None and (not target or span.id == target):
            return Tail(taken[::-1], compaction)
    if compaction is None:
        return Tail(taken[::-1])
    return Tail(taken[:since][::-1], compaction, missing=target)
