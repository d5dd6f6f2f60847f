"""Brings together what the status line, `/status` and `/context` show."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from clawbot.agent.conversation import Conversation
from clawbot.agent.offers import OfferState
from clawbot.agent.viewing import Shown, Viewing
from clawbot.agent.views import ContextReport, RuntimeStatus
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.budget import plan_budget
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


class StatusParts(Protocol):
    """What of an agent's parts the status tells."""

    @property
    def agent_id(self) -> str:
        """The agent."""
        ...

    @property
    def workspace(self) -> Path:
        """Its folder."""
        ...

    @property
    def settings(self) -> AgentSettings:
        """Its settings."""
        ...


def status_of(
    conversation: Conversation,
    viewing: Viewing,
    state: OfferState,
    parts: StatusParts,
    model: ModelInfo,
    *,
    busy: bool,
    notes: int,
) -> RuntimeStatus:
    """How the conversation stands, as far as it is known without counting."""
    tokens, exact = viewing.size()
    window = viewing.windows.of(model)
    shown = viewing.current
    return RuntimeStatus(
        agent_id=parts.agent_id,
        session_key=conversation.key,
        session_id=conversation.session_id,
        model=model,
        workspace=parts.workspace,
        tokens=tokens,
        window=window.tokens,
        exact=exact,
        cost=conversation.cost,
        busy=busy,
        notes=notes,
        budget=shown.budget if shown else plan_budget(window.tokens, parts.settings.compaction, viewing.weighed),
        stale=shown.measure.stale if shown else False,
        compactions=conversation.session.record.compaction_count,
        last_flush=last_flush(state),
        window_source=window.source,
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
        window=viewing.windows.of(model),
        prompt=shown.built.inputs,
        automatic=automatic,
        compactions=compactions,
        last_flush=last_flush(state),
        pruned=viewing.pruned,
    )
    return build_report(inputs, viewing.counter)
