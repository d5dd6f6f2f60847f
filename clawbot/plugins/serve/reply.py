"""What the events of one turn come to as an answer: its text, its usage, and why it failed."""

from __future__ import annotations

from typing import Any

from clawbot.agent.events import (
    CommandOutput,
    CompactionFinished,
    Event,
    MessageFinished,
    Notice,
    SessionChanged,
    TextDelta,
    ToolStarted,
    TurnEnded,
)
from clawbot.messages import Usage
from clawbot.plugins.serve.answers import RefusalError

_GAP = "\n\n"
_STATUS = {"overflow": 400, "refused": 400, "rate_limit": 429, "internal": 500, "failed": 422}
"""The statuses of failures; all others are the model's: 502."""
_NEW = "A new conversation begins."


class Reply:
    """Takes the events of one turn. `sent` is all text that `take` and `unsaid` gave out."""

    def __init__(self) -> None:
        self.sent = ""
        self._text = ""
        self._outputs: list[str] = []
        self._notes: list[str] = []
        self._usages: list[Usage] = []
        self._cut = False
        self._gap = False
        self._ended: TurnEnded | None = None

    def take(self, event: Event) -> str:
        """Take the next event; returns the text that a stream shows of it."""
        match event:
            case TextDelta(text=text):
                return self._give(text)
            case MessageFinished(text=text, stop_reason=reason, usage=usage):
                self._text, self._cut = text, reason == "length"
                if usage is not None:
                    self._usages.append(usage)
            case ToolStarted():
                # Text before a call is not the reply.
                self._text, self._gap = "", bool(self.sent)
            case CommandOutput(text=text):
                self._outputs.append(text)
                self._gap = bool(self.sent)
                return self._give(text)
            case SessionChanged():
                self._notes.append(_NEW)
            case CompactionFinished(error=text) | Notice(text=text) if text:
                self._notes.append(text)
            case TurnEnded():
                self._ended = event
            case _:
                pass
        return ""

    def _give(self, text: str) -> str:
        part, self._gap = (_GAP if self._gap else "") + text, False
        self.sent += part
        return part

    @property
    def status(self) -> str:
        return self._ended.status if self._ended is not None else "failed"

    @property
    def text(self) -> str:
        """The reply, what commands printed, or else the notes."""
        texts = [*self._outputs, *([self._text] if self._text else [])]
        return _GAP.join(texts or self._notes)

    @property
    def unsaid(self) -> str:
        """What a stream shows at its end because it has shown nothing."""
        return self._give(self.text) if not self.sent else ""

    @property
    def finish_reason(self) -> str:
        return "length" if self._cut or self.status == "stopped" else "stop"

    @property
    def usage(self) -> dict[str, Any]:
        asked = sum(usage.prompt_tokens for usage in self._usages)
        written = sum(usage.output for usage in self._usages)
        return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}

    @property
    def failure(self) -> RefusalError | None:
        """Why there is no complete answer; None if there is."""
        ended = self._ended
        if ended is not None and ended.status in ("done", "stopped"):
            return None
        if ended is None or ended.status == "interrupted":
            return RefusalError(503, "interrupted", "The answer was interrupted; the text so far is kept.")
        kind = ended.error_kind or "failed"
        return RefusalError(_STATUS.get(kind, 502), kind, f"{ended.error} {ended.hint}".rstrip())
