"""What each event of a conversation does to the page and to the status line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clawbot.agent import events
from clawbot.agent.slash import parse_command
from clawbot.text.interface import N_, _
from clawbot.tui.status_bar import StatusBar, reading
from clawbot.tui.transcript import idle_minutes, session_line
from clawbot.tui.writer import TranscriptWriter

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

THINKING = N_("thinking")
WRITING = "writing"
SUMMARISING = N_("summarising")
SHOWN_BY_DIVIDER = ("/new", "/reset", "/fork")  # commands that report no more than the divider that they cause

FOLLOWED_BY: dict[type[events.Event], str] = {
    events.TextDelta: WRITING,
    events.ReasoningDelta: THINKING,
    events.ToolFinished: THINKING,
    events.CompactionFinished: THINKING,
}
"""What runs from an event on."""

Handler = Callable[[Any], None]


class EventView:
    """Shows events by `writer` and `bar`; `runtime` is where they come from."""

    def __init__(self, writer: TranscriptWriter, bar: StatusBar) -> None:
        self._writer = writer
        self._bar = bar
        self.runtime: RuntimeApi | None = None
        self._retried = ""  # why the model was last called again
        self.asked_by = ""  # the title of the tool that runs, and may ask
        self.handlers = self._handlers()

    def show(self, event: events.Event) -> None:
        """Show `event`; one of a type that has no handler is ignored."""
        if isinstance(event, events.TextDelta | events.ReasoningDelta):
            self._bar.streamed(event.text)
        if handle := self.handlers.get(type(event)):
            handle(event)
        if activity := FOLLOWED_BY.get(type(event)):
            self._bar.runs(_(activity))

    def _handlers(self) -> dict[type[events.Event], Handler]:
        write = self._writer
        return {
            events.TurnStarted: self._turn_started,
            events.MessageSteered: self._steered,
            events.TextDelta: write.delta,
            events.TextWithdrawn: write.withdrawn,
            events.ReasoningDelta: write.reasoning,
            events.ToolStarted: self._tool_started,
            events.ToolOutput: write.tool_output,
            events.SubagentStep: write.subagent_step,
            events.ToolFinished: write.tool_finished,
            events.MessageFinished: self._message_finished,
            events.TurnEnded: self._turn_ended,
            events.MemoryWritten: write.memory_written,
            events.CompactionRunning: self._compaction_running,
            events.CompactionFinished: self._compaction_finished,
            events.NoteKept: write.note_kept,
            events.NotesQuoted: write.notes_quoted,
            events.Notice: write.notice,
            events.CommandOutput: self._command_output,
            events.MessageQueued: lambda _: None,  # shown by the line of what waits
            events.ApprovalRequested: lambda event: write.tool_is(event.call_id, "asking"),
            events.ModelRetry: self._model_retry,
            events.ModelLoading: lambda event: self._bar.runs(_(THINKING) if event.done else reading(event)[0]),
            events.PromptRead: lambda event: self._bar.runs(*reading(event)),
            events.ModelChanged: self._model_changed,
            events.ContextUsed: lambda _: self._bar.refresh(),
            events.SessionChanged: self._session_changed,
        }

    def _message_finished(self, event: events.MessageFinished) -> None:
        self._writer.message_finished(event)
        self._bar.answered(event.usage)

    def _turn_started(self, event: events.TurnStarted) -> None:
        self._retried = ""
        command = parse_command(event.text)
        self._bar.begins(f"/{command.name}" if command else _(THINKING))
        self._writer.user(event.text, event.entry_id, event.attached)

    def _steered(self, event: events.MessageSteered) -> None:
        self._writer.user(event.text, event.entry_id)
        self._writer.divider(_("said while the turn runs"))

    def _tool_started(self, event: events.ToolStarted) -> None:
        self._writer.tool_started(event)
        self.asked_by = event.title
        self._bar.runs(event.title)

    def _compaction_running(self, event: events.CompactionRunning) -> None:
        self._bar.runs(_(SUMMARISING), f"{event.part}/{event.parts}" if event.parts > 1 else "")

    def _compaction_finished(self, event: events.CompactionFinished) -> None:
        self._writer.compacted(event)
        self._bar.refresh()

    def _command_output(self, event: events.CommandOutput) -> None:
        if event.command not in SHOWN_BY_DIVIDER:
            self._writer.output(event.command, event.text)

    def _model_retry(self, event: events.ModelRetry) -> None:
        # On the page, where a long reason wraps; the same one once.
        if event.reason != self._retried:
            self._writer.notice(events.Notice(level="warning", text=event.reason))
        self._retried = event.reason
        template = _("attempt {n} in {seconds:.0f} s")
        self._bar.runs(template.format(n=event.attempt, seconds=max(1, math.ceil(event.wait))))

    def _model_changed(self, event: events.ModelChanged) -> None:
        if event.discard:
            self._writer.discard()
        self._writer.divider(
            " · ".join(part for part in (_("{model} answers").format(model=event.model), event.reason) if part)
        )
        self._bar.changed()

    def _session_changed(self, event: events.SessionChanged) -> None:
        self._writer.session_changed(session_line(event, idle_minutes(self.runtime)))
        self._bar.changed()

    def _turn_ended(self, event: events.TurnEnded) -> None:
        self._writer.ended(event)
        self._bar.ends()
