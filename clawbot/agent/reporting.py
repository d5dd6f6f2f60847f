"""Brings together what `/context` and the status line show."""

from __future__ import annotations

from clawbot.agent.offers import OfferState
from clawbot.agent.viewing import Shown, Viewing
from clawbot.agent.views import ContextReport
from clawbot.context.report import LastFlush, ReportInputs, build_report
from clawbot.llm.protocol import ModelInfo


def last_flush(state: OfferState) -> LastFlush | None:
    """When memory was offered something last, and where it wrote."""
    offer = state.last
    if offer is None:
        return None
    if not offer.writes:
        return LastFlush(at=state.last_at, result=offer.result)
    first, last = offer.writes[0], offer.writes[-1]
    return LastFlush(
        at=state.last_at,
        result=offer.result,
        path=first.path,
        line=first.line,
        end_line=last.end_line,
        bytes=sum(write.size for write in offer.writes),
    )


def report_of(
    shown: Shown, viewing: Viewing, model: ModelInfo, state: OfferState, *, automatic: bool, compactions: int
) -> ContextReport:
    """The report on `shown`. Blocks: tools and files are counted one by one. `automatic`: compaction comes by
    itself."""
    inputs = ReportInputs(
        view=shown.view,
        measure=shown.measure,
        budget=shown.budget,
        window=viewing.window(model),
        prompt=shown.built.inputs,
        automatic=automatic,
        compactions=compactions,
        last_flush=last_flush(state),
        pruned=viewing.pruned,
    )
    return build_report(inputs, viewing.counter)
