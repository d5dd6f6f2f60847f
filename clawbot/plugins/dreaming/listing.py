"""Proposals as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from clawbot.text.interface import _, ngettext
from clawbot.text.sanitize import clean_line

if TYPE_CHECKING:
    from clawbot.plugins.dreaming.applying import Applied
    from clawbot.plugins.dreaming.dream import DreamOutcome


def lines_of(outcome: DreamOutcome, applied: Sequence[Applied]) -> Iterator[str]:
    """Yield the proposals, each with its lines of the file as in a diff, its sources and its reason."""
    done = {each.id: each for each in applied}
    for each in outcome.pending:
        yield f"{each.id} {each.kind} {each.file}{f' -> {each.target}' if each.target else ''}"
        yield from (f"  - {clean_line(old)}" for old in each.old)
        if each.text:
            yield f"  + {clean_line(each.text)}"
        yield f"  {clean_line(each.reason)} {', '.join(each.sources)}".rstrip()
        if each.id in done:
            yield f"  {done[each.id].status}{f': {done[each.id].reason}' if done[each.id].reason else ''}"


def remarks_of(outcome: DreamOutcome, applied: Sequence[Applied]) -> Iterator[str]:
    """Yield what there is to add to the lines of `outcome`."""
    if not outcome.pending:
        yield _("Nothing to propose.")
    elif not applied:
        yield _("Nothing was written; --apply writes all of them.")
    if outcome.refused:
        text = ngettext(
            "{n} proposal was refused: {reason}.",
            "{n} proposals were refused, the first one: {reason}.",
            len(outcome.refused),
        )
        yield text.format(n=len(outcome.refused), reason=outcome.refused[0].reason)
