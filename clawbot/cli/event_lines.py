"""The line of each event in the chat in lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from clawbot.agent.events import (
    CommandOutput,
    CompactionFinished,
    CompactionRunning,
    Event,
    MemoryWritten,
    ModelChanged,
    ModelLoading,
    ModelRetry,
    NoteKept,
    NotesQuoted,
    Notice,
    SessionChanged,
    SubagentStep,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from clawbot.sessions.summary import ended_words
from clawbot.text.interface import _, ngettext
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.render.call_titles import location_words, summary_words, title_words

LINE_END = "\n"
_SHOWN = 8  # lines below that of a call


def _tool_finished(event: ToolFinished) -> str:
    if isinstance(event.details, dict) and isinstance(shared := event.details.get("shared"), bool):
        line = _("shell: {summary}; the model sees it") if shared else _("shell: {summary}; the model does not see it")
        return LINE_END.join(filter(None, (clean(event.output), line.format(summary=summary_words(event.summary)))))
    below = "".join(f"{LINE_END}  {row}" for row in _results(event))
    if event.is_error:
        error = summary_words(event.summary) if below else clean(event.output).strip().partition(LINE_END)[0]
        return _("tool {name} failed: {error}").format(name=event.name, error=error) + below
    line = _("tool {name} done: {summary}") if event.summary else _("tool {name} done")
    return line.format(name=event.name, summary=summary_words(event.summary)) + below


def _results(event: ToolFinished) -> list[str]:
    """Return the first hits of a search, each with its file and line, or the last lines that a command printed."""
    if event.name == "shell":
        return clean(event.output).rstrip().split(LINE_END)[-_SHOWN:] if event.summary != "failed" else []
    if event.name == "grep" and not event.is_error:
        return clean(event.output).split(LINE_END)[:_SHOWN]
    found = event.details.get("results") if isinstance(event.details, dict) else None
    hits = [hit for hit in found if isinstance(hit, dict) and "path" in hit] if isinstance(found, list) else []
    return [clean_line(location_words(hit)) for hit in hits[:_SHOWN]]


def _memory_written(event: MemoryWritten) -> str:
    count = event.end_line - event.line + 1
    line = ngettext(
        "memory: {n:,} line to {file}, from line {line}", "memory: {n:,} lines to {file}, from line {line}", count
    )
    return line.format(n=count, file=event.path, line=event.line)


def _note_kept(event: NoteKept) -> str:
    line = _("the note {was} is now {file}") if event.was else _("the conversation is kept as {file}")
    return line.format(was=event.was, file=event.path)


def _compacted(event: CompactionFinished) -> str:
    if event.status != "done":
        return _("earlier turns could not be summarised: {error}").format(error=event.error)
    line = _("earlier turns are summarised: {before:,} to {after:,} tokens")
    return line.format(before=event.tokens_before, after=event.tokens_after)


def _model_changed(event: ModelChanged) -> str:
    line = _("{model} answers: {reason}") if event.reason else _("{model} answers")
    line = line.format(model=event.model, reason=event.reason)
    return _("{model_answers}; the text above is withdrawn").format(model_answers=line) if event.discard else line


def _noticed(event: Notice) -> str:
    location = f" ({event.path}{f':{event.line}' if event.line else ''})" if event.path else ""
    line = {"warning": _("warning: {text}"), "error": _("error: {text}")}.get(event.level, "{text}")
    return line.format(text=f"{event.text}{location}")


def _ended(event: TurnEnded) -> str:
    if event.status == "failed":
        return _("failed: {error}").format(error=f"{event.error} {event.hint}").rstrip()
    return _("interrupted; what was said is kept") if event.status == "interrupted" else ""


def _subagent_step(event: SubagentStep) -> str:
    if not isinstance(event.step, ToolStarted):
        return ""
    return _("sub-agent “{agent}”: {title}").format(agent=event.description, title=event.step.title)


LINES: dict[type[Event], Callable[[Any], str]] = {
    CommandOutput: lambda event: event.text,
    ToolStarted: lambda event: _("tool: {title}").format(
        title=title_words(event.name, event.title, event.arguments, "running")
    ),
    SubagentStep: _subagent_step,
    ToolFinished: _tool_finished,
    MemoryWritten: _memory_written,
    NoteKept: _note_kept,
    NotesQuoted: lambda event: _("notes quoted: {files}").format(files=", ".join(event.files)),
    CompactionRunning: lambda event: _("summarising earlier turns") if event.part == 1 else "",
    CompactionFinished: _compacted,
    ModelRetry: lambda event: _("{reason} Trying again in {n:.0f} s.").format(
        reason=event.reason, n=max(1, math.ceil(event.wait))
    ),
    ModelLoading: lambda event: (_("{model} is loaded") if event.done else _("loading {model}")).format(
        model=event.model
    ),
    ModelChanged: _model_changed,
    SessionChanged: lambda event: _("conversation {session} ({reason})").format(
        session=event.session_key, reason=ended_words(event.reason)
    ),
    Notice: _noticed,
    TurnEnded: _ended,
}
"""The line of each event; no line where it is empty."""
