"""One turn without a screen: the reply on stdout, everything else on stderr, or events as JSON lines."""

from __future__ import annotations

import math
import shlex
import sys

from msgspec import structs

from clawbot.agent.events import (
    CommandOutput,
    CompactionFinished,
    Event,
    MessageFinished,
    ModelLoading,
    ModelRetry,
    Notice,
    PlanReady,
    ToolStarted,
    TurnEnded,
)
from clawbot.cli.output import CUT_OFF, draw, echo_content, echo_error, print_json_line, warn
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.envelopes import is_command
from clawbot.signals import on_interruption
from clawbot.text.interface import _
from clawbot.text.visible import were_not_sent


class _Printer:
    """Prints the reply once it is known to be the last one: text before a tool call is not the reply."""

    def __init__(self) -> None:
        self._reply = ""
        self._cut = ""  # why the reply is not complete
        self._drawn = False  # a line on the terminal that goes with the next event

    def take(self, event: Event) -> None:
        if self._drawn:
            draw(sys.stderr)
            self._drawn = False
        match event:
            case MessageFinished(text=text, stop_reason=stopped, reason=reason):
                self._reply, self._cut = text, (reason or _(CUT_OFF)) if stopped == "length" else ""
            case ToolStarted():
                self._reply = ""
            case CommandOutput(text=text):
                echo_content(text)
            case CompactionFinished(status="failed", error=error, trigger="threshold" | "overflow"):
                warn(_("earlier turns could not be summarised: {error}").format(error=error))
            case ModelRetry(wait=wait, reason=reason):
                warn(_("{reason} Trying again in {n:.0f} s.").format(reason=reason, n=max(1, math.ceil(wait))))
            case ModelLoading(model=model, done=False):
                self._load(model)
            case TurnEnded():
                self._finish(event)
            case _:
                print_notice(event)

    def _load(self, model: str) -> None:
        """Report that `model` is loaded; on a terminal until the next event."""
        text = _("loading {model} ...").format(model=model)
        self._drawn = sys.stderr.isatty()
        if self._drawn:
            draw(sys.stderr, f"clawbot: {text}")
        else:
            warn(text)

    def _finish(self, event: TurnEnded) -> None:
        if self._reply:
            echo_content(self._reply)
        if self._cut:
            warn(self._cut)
        if event.status == "failed":
            warn(f"{event.error} {event.hint}")
        elif event.status == "interrupted":
            warn(_("Interrupted; what was said is kept."))


def plan_words(agent: str, session: str) -> str:
    """How a plan is carried out by the next command, in the conversation `session` of `agent`."""
    where = "".join(
        f" --{option} {shlex.quote(value)}"
        for option, value in (("agent", agent), ("session", session))
        if value != "main"
    )
    command = f"clawbot chat{where} --mode edits -p 'Carry out the plan.'"
    return _("Nothing was changed. To carry the plan out: {command}").format(command=command)


def print_notice(event: Event) -> None:
    """Print events that belong to no answer on stderr, such as a hook that fails during exit."""
    if isinstance(event, Notice) and event.level != "info":
        warn(event.text)


async def run_one_turn(options: RuntimeOptions, text: str, *, as_json: bool) -> int:
    """Submit `text` and print the events; returns the exit code. Raises ClawbotError if nothing could start.

    Ctrl+C, SIGTERM and, unless it is ignored, SIGHUP interrupt the turn; the text so far is printed and kept.
    """
    take = print_json_line if as_json else _Printer().take
    status = ""
    calls_model = not is_command(text.strip())
    runtime = await Runtime.open(structs.replace(options, warm=calls_model, estimates=calls_model))
    runtime.agent.listen(print_notice)
    runtime.services.probe_vectors(deep=False)
    try:
        on_interruption(runtime.agent.interrupt)
        for notice in runtime.notices:
            take(notice)
        if unsent := len(runtime.agent.outbox.left):
            template = _("{messages}: open clawbot to send or drop them.")
            take(Notice(level="warning", text=template.format(messages=were_not_sent(unsent))))
        has_plan = False
        async for event in runtime.agent.submit(text):
            take(event)
            has_plan = has_plan or isinstance(event, PlanReady)
            status = event.status if isinstance(event, TurnEnded) else status
        if has_plan and not as_json:
            echo_error(plan_words(runtime.agent.status.agent_id, runtime.agent.status.session_key))
    finally:
        await runtime.close()
    return 0 if status == "done" else 1
