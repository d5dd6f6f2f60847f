"""What a sub-agent does, on the card of the call that handed it out: a line while it works, its calls when the card is
unfolded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast, get_args

from clawbot.agent.events import ModelChanged, ModelRetry, SubagentStep, ToolFinished, ToolStarted
from clawbot.text.interface import _, ngettext
from clawbot.text.sanitize import clean_line
from clawbot.tui.render.call_titles import CardState, summary_words
from clawbot.tui.render.lines import StyledLine, StyledSpan, cut_spans, shown_spans, width_of

GLYPHS: dict[CardState, tuple[str, str]] = {
    "asking": ("●", "card-waits"),
    "running": ("●", "card-runs"),
    "done": ("✓", "card-done"),
    "failed": ("✕", "tool-error"),
    "declined": ("⊘", "card-waits"),
    "stopped": ("⊘", "card-waits"),
}


@dataclass
class SubagentCall:
    """One call of a sub-agent."""

    title: str
    state: CardState = "running"
    summary: str = ""


@dataclass
class SubagentRun:
    """What a sub-agent did so far; `now` is what it does besides calling tools."""

    calls: dict[str, SubagentCall] = field(default_factory=dict)
    count: int = 0
    tokens: int = 0
    now: str = ""

    def take(self, event: SubagentStep) -> None:
        self.count, self.tokens, self.now = event.calls, event.tokens, ""
        match event.step:
            case ToolStarted(call_id=call_id, title=title):
                self.calls[call_id] = SubagentCall(title)
            case ToolFinished(call_id=call_id) as done:
                state: CardState = "failed" if done.is_error else "done"
                if call_id in self.calls:
                    self.calls[call_id].state, self.calls[call_id].summary = state, done.summary
            case ModelRetry(reason=reason):
                self.now = reason
            case ModelChanged(model=model):
                self.now = model

    @classmethod
    def read(cls, details: Any) -> SubagentRun | None:
        """What is stored with a result; None if there is nothing of a sub-agent."""
        found = details.get("subagent") if isinstance(details, dict) else None
        if not isinstance(found, dict):
            return None
        rows = found.get("calls")
        calls = [_stored(row) for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict)]
        count, tokens = (value if isinstance(value := found.get(name), int) else 0 for name in ("count", "tokens"))
        return cls({str(at): call for at, call in enumerate(calls)}, count, tokens)

    def working(self, room: int) -> StyledLine:
        """What it does now, and how much it did, in a line of so many cells: the figures stay."""
        running = [call.title for call in self.calls.values() if call.state == "running"]
        now = clean_line(running[-1] if running else self.now) or _("thinking")
        figures = self.summary
        end = [StyledSpan(f" · {figures}", "tool")] if figures else []
        said = cut_spans(shown_spans(now, "tool-text"), max(1, room - sum(width_of(span.text) for span in end)))
        return StyledLine((*said, *end))

    @property
    def summary(self) -> str:
        calls = ngettext("{n:,} call", "{n:,} calls", self.count).format(n=self.count) if self.count else ""
        tokens = ngettext("{n:,} token", "{n:,} tokens", self.tokens).format(n=self.tokens) if self.tokens else ""
        return " · ".join(filter(None, (calls, tokens)))

    def lines(self, room: int) -> list[StyledLine]:
        rows = [_row(call, room) for call in self.calls.values()]
        if (more := self.count - len(self.calls)) > 0:
            left = ngettext("… {n:,} more call", "… {n:,} more calls", more).format(n=more)
            rows.append(StyledLine((StyledSpan(left, "tool"),)))
        return rows


def _stored(row: dict[str, Any]) -> SubagentCall:
    state = row.get("state")
    known = cast(CardState, state) if state in get_args(CardState) else "stopped"
    return SubagentCall(str(row.get("title", "")), known, str(row.get("summary", "")))


def _row(call: SubagentCall, room: int) -> StyledLine:
    sign, style = GLYPHS[call.state]
    end = clean_line(summary_words(call.summary))
    tail = [StyledSpan(f"  {end}", "tool-error" if call.state == "failed" else "tool")] if end else []
    title = cut_spans(shown_spans(clean_line(call.title), "tool-text"), max(1, room - 4 - width_of(end)))
    return StyledLine((StyledSpan(f"{sign} ", style), *title, *cut_spans(tail, max(1, room - 4))))
