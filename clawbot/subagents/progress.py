"""What a sub-agent has done so far, from the events of its talk: the steps that are told, and what stays of them with
the result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from clawbot.agent.events import (
    Event,
    MessageFinished,
    ModelChanged,
    ModelLoading,
    ModelRetry,
    Notice,
    SubagentStep,
    ToolFinished,
    ToolStarted,
)
from clawbot.messages import Usage

TOLD_CHARS = 400  # of an output, in the step that tells it
KEPT_CALLS = 100  # with the result: what the card shows when it is unfolded
STEPS = (ToolStarted, ToolFinished, MessageFinished, ModelRetry, ModelLoading, ModelChanged, Notice)


class Progress:
    """The calls and tokens of the sub-agent of the call `call_id`, which is about `description`."""

    def __init__(self, call_id: str, description: str, session_id: str) -> None:
        self._call_id = call_id
        self._description = description
        self._session_id = session_id
        self._calls: dict[str, dict[str, Any]] = {}
        self.calls = 0
        self.tokens = 0

    def take(self, event: Event) -> SubagentStep | None:
        """`event` of the talk as it is told; None for one that is not. A step of a sub-agent of its own stays."""
        if isinstance(event, SubagentStep):
            return event
        if not isinstance(event, STEPS):
            return None
        match event:
            case ToolStarted(call_id=call_id, title=title):
                self.calls += 1
                self._calls[call_id] = {"title": title, "state": "stopped"}
            case ToolFinished(call_id=call_id) as done:
                self._finished(call_id, done)
                event = structs.replace(done, output=done.output[:TOLD_CHARS], details=None)
            case MessageFinished(usage=Usage() as usage):
                self.tokens += usage.input + usage.cache_write + usage.output
            case _:
                pass
        return SubagentStep(
            parent_call_id=self._call_id,
            session_id=self._session_id,
            description=self._description,
            calls=self.calls,
            tokens=self.tokens,
            step=event,
        )

    def _finished(self, call_id: str, done: ToolFinished) -> None:
        declined = isinstance(done.details, dict) and done.details.get("declined") is True
        state = "declined" if declined else "failed" if done.is_error else "done"
        self._calls.setdefault(call_id, {"title": done.name}).update(state=state, summary=done.summary)

    @property
    def details(self) -> dict[str, Any]:
        """What is stored with the result, for the screen."""
        kept: Iterable[dict[str, Any]] = list(self._calls.values())[:KEPT_CALLS]
        return {
            "subagent": {
                "sessionId": self._session_id,
                "calls": list(kept),
                "count": self.calls,
                "tokens": self.tokens,
            }
        }

    @property
    def summary(self) -> str:
        """`3 calls, 12,400 tokens`."""
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        return f"{calls}, {self.tokens:,} tokens" if self.tokens else calls
