"""The chat in lines, for screen readers and for terminals that only print: nothing is drawn or moves, and each change
is a line of its own."""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator

from clawbot.agent.events import (
    ApprovalRequested,
    Event,
    MessageFinished,
    PlanReady,
    ReasoningDelta,
    TextDelta,
    TextWithdrawn,
)
from clawbot.agent.slash import parse_command
from clawbot.cli.event_lines import LINES
from clawbot.cli.output import CUT_OFF, Speech
from clawbot.errors import ClawbotError
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.signals import on_signals
from clawbot.text.interface import N_, _
from clawbot.text.visible import were_not_sent
from clawbot.tools.protocol import Decision

log = logging.getLogger(__name__)

PROMPT = "> "
GO_ON = "\\"  # the end of a line that the next one belongs to
KEYS = N_(
    "Enter sends, a backslash at the end continues the line. !command runs in the shell, !!command shares its output "
    "with the model. Ctrl+C stops an answer or leaves. /help, /quit."
)

_EARLIER = 6  # messages of the open conversation that are shown at the start
_DECISIONS: dict[str, Decision] = {"y": "once", "yes": "once", "a": "always", "n": "deny", "no": "deny"}
_WITH_NETWORK = "w"
_PLAN_ANSWERS = (
    N_("accept, ask before each change"),
    N_("accept, change without asking"),
    N_("no: say what should change"),
)
_READ = 65_536


class TypedLines:
    """What the user enters on `descriptor`, line by line; the terminal itself edits the line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        self._lines: list[str] = []
        self._ended = False
        self._changed = asyncio.Event()
        self.gone = False  # whether the terminal is: its window was closed

    def start(self) -> None:
        """Read from now on. On the running loop."""
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def stop(self) -> None:
        """Stop reading; a call that waits for a line returns None."""
        asyncio.get_running_loop().remove_reader(self._descriptor)
        self._ended = True
        self._changed.set()

    async def next(self, since: int = 0) -> str | None:
        """Return the next line, with those that continue it; None at the end of the input. The first `since` lines are
        left for later calls."""
        while True:
            while len(self._lines) <= since:
                if self._ended:
                    return None
                self._changed.clear()
                await self._changed.wait()
            for last in range(since, len(self._lines)):
                if not self._lines[last].endswith(GO_ON) or self._ended:
                    return self._take(since, last)
            self._changed.clear()
            await self._changed.wait()

    @property
    def waiting(self) -> int:
        """How many lines were entered and not taken yet."""
        return len(self._lines)

    def _take(self, first: int, last: int) -> str:
        taken = self._lines[first : last + 1]
        del self._lines[first : last + 1]
        return "\n".join(line.removesuffix(GO_ON) for line in taken)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ)
        except OSError:
            self.gone = True
            data = b""
        self._begun += self._decoder.decode(data, final=not data)
        *lines, self._begun = self._begun.split("\n")
        self._lines += lines
        self._changed.set()
        if not data:
            self.stop()


class EventPrinter:
    """Prints events: text as it streams, everything else as a line."""

    def __init__(self) -> None:
        self._speech = Speech()
        self._gone = False
        self._thinking_shown = False
        self._streamed = False  # of the answer that is under way

    def print(self, event: Event) -> None:
        """Print the line of `event`, if it has one."""
        match event:
            case TextDelta(text=text):
                self._streamed = True
                self._write(text)
            case TextWithdrawn():
                self._streamed = False
                self.line(_("the text above was the model's thinking"))
            case ReasoningDelta() if not self._thinking_shown:
                self._thinking_shown = True
                self.line(_("thinking"))
            case MessageFinished(text=text, stop_reason=stopped, reason=reason):
                if not self._streamed:
                    self._write(text)
                self._streamed = self._thinking_shown = False
                self._end()
                if stopped == "length":
                    self.line(reason or _(CUT_OFF))
            case _:
                if line := LINES[type(event)](event) if type(event) in LINES else "":
                    self.line(line)

    def line(self, text: str) -> None:
        self.prompt(text)
        self._end()

    def prompt(self, text: str) -> None:
        """Write what precedes the user's next words."""
        self._end()
        self._write(text)

    def entered(self) -> None:
        """The user ended the line of the prompt."""
        self._speech.is_open = False

    def _write(self, text: str) -> None:
        self._dependably(lambda: self._speech.write(text))

    def _end(self) -> None:
        self._dependably(self._speech.end)

    def _dependably(self, write: Callable[[], None]) -> None:
        """Drop the output once the window is closed; the conversation is stored all the same."""
        if not self._gone:
            try:
                write()
            except OSError as error:
                log.info("the terminal is gone: %s", error)
                self._gone = True


class LineChat:
    """The conversation of `runtime`: reads lines and prints events."""

    def __init__(self, runtime: Runtime, typed: TypedLines, printer: EventPrinter) -> None:
        self._runtime = runtime
        self._typed = typed
        self._printer = printer
        self._running = False
        self._asking: asyncio.Task[str | None] | None = None
        self._warned = False
        self._aside: list[Event] = []  # events of no turn, while one runs
        self._leaving = False
        self._closing: asyncio.Task[None] | None = None
        self.signal = 0  # the one that ended it

    async def run(self) -> None:
        self._runtime.agent.listen(self._on_event)
        self._runtime.agent.runs_shell = True
        await self._begin()
        while not self._leaving:
            self._ask_for("")
            line = await self._typed.next()
            self._printer.entered()
            if line is None:
                break
            self._warned = False
            command = parse_command(line)
            if command is not None and command.name == "quit":
                break
            if line.strip():
                await self._turn(line)

    def listen(self) -> None:
        """Handle the signals of this process. On the running loop."""
        on_signals((signal.SIGINT,), lambda _number: self._interrupt())
        on_signals((signal.SIGTERM, signal.SIGHUP), self._end)

    async def close(self) -> None:
        """Close the runtime, which may save the conversation to memory first; Ctrl+C skips that."""
        if self._runtime.agent.will_flush and not self.signal:
            self._printer.line(_("Saving what matters to memory ... (Ctrl+C skips)"))
        self._closing = asyncio.create_task(self._runtime.close(hasty=bool(self.signal)))
        try:
            await self._closing
        except asyncio.CancelledError:
            if not self._closing.cancelled():
                raise

    def _interrupt(self) -> None:
        """Ctrl+C: stop what runs; with nothing running, the second one leaves."""
        if self._closing is not None:
            self._closing.cancel()
            return
        if self._asking is not None:
            self._asking.cancel()
        if self._running:
            self._runtime.agent.interrupt()
        elif self._warned:
            self._leave()
        elif self._asking is None:
            # The terminal has thrown away what was typed.
            self._warned = True
            self._printer.line(_("Ctrl+C again, or Ctrl+D, leaves."))
            self._ask_for("")

    def _end(self, number: int) -> None:
        self.signal = number
        self._leave()
        if self._closing is not None:
            self._closing.cancel()

    def _leave(self) -> None:
        self._leaving = True
        self._runtime.agent.interrupt()
        self._typed.stop()

    async def _begin(self) -> None:
        """Print the state of the conversation, and offer its unsent messages."""
        status = self._runtime.agent.status
        template = _("clawbot, agent {agent}, conversation {session}, model {model}.")
        self._printer.line(template.format(agent=status.agent_id, session=status.label, model=status.model.ref))
        self._printer.line(_(KEYS))
        for notice in self._runtime.notices:
            self._printer.print(notice)
        for item in await self._runtime.sessions.history(limit=_EARLIER):
            message = item.message
            if isinstance(message, UserMessage | AssistantMessage) and (text := message.text.strip()):
                by_user = isinstance(message, UserMessage)
                template = _("earlier, you: {text}") if by_user else _("earlier, clawbot: {text}")
                self._printer.line(template.format(text=text))
        if status.answered_before:
            template = _("{before} answered so far, {model} from here on.")
            self._printer.line(template.format(before=status.answered_before, model=status.model.ref))
        await self._offer_unsent()

    async def _offer_unsent(self) -> None:
        outbox = self._runtime.agent.outbox
        if not (left := list(outbox.left)):
            return
        self._printer.line(were_not_sent(len(left)))
        for unsent in left:
            self._printer.line(f"  {unsent.text}")
        answer = await self._answer(_("s sends, d drops, l asks later"), {"s", "d", "l"})
        if answer == "d":
            await outbox.drop(*(unsent.id for unsent in left))
        for unsent in left if answer == "s" else ():
            await self._turn(unsent.text, unsent.id)

    async def _turn(self, text: str, unsent_id: str = "") -> None:
        self._running = True
        plan: PlanReady | None = None
        try:
            async for event in self._runtime.agent.submit(text, unsent_id=unsent_id):
                self._printer.print(event)
                if isinstance(event, ApprovalRequested):
                    await self._approve(event)
                elif isinstance(event, PlanReady):
                    plan = event
        except (ClawbotError, OSError) as error:
            self._printer.line(_("failed: {error}").format(error=error))
        finally:
            self._running = False
        aside, self._aside = self._aside, []
        for event in aside:
            self._printer.print(event)
        if plan is not None and not self._typed.waiting and not self._leaving:
            await self._offer_plan(plan)

    async def _offer_plan(self, plan: PlanReady) -> None:
        """Ask whether the plan is to be carried out, and how far without a question."""
        self._printer.line(_("Carry out this plan?"))
        for number, text in enumerate(_PLAN_ANSWERS, 1):
            self._printer.line(f"{number}. {_(text)}")
        answer = await self._answer("1, 2, 3", {"1", "2", "3"})
        if answer in ("1", "2"):
            self._runtime.agent.set_mode("ask" if answer == "1" else "edits")
            await self._turn(plan.acceptance)

    async def _approve(self, request: ApprovalRequested) -> None:
        """Ask the user; lines that were entered before the question are not its answer."""
        for line in _question(request):
            self._printer.line(line)
        keys = {"y", "yes", "n", "no"} | ({"a"} if request.pattern else set())
        keys |= {_WITH_NETWORK} if request.network else set()
        answer = await self._answer(_answers(request), keys)
        if answer == _WITH_NETWORK:
            self._runtime.agent.answer(request.request_id, "once", network=True)
        else:
            self._runtime.agent.answer(request.request_id, _DECISIONS.get(answer or "n", "deny"))

    async def _answer(self, question: str, known: set[str]) -> str | None:
        """One of the `known` words, entered after this call; None when the input ends, and after Ctrl+C."""
        asking = self._asking = asyncio.create_task(self._listen_for(question, known))
        try:
            await asyncio.wait({asking})
        finally:
            asking.cancel()
            self._asking = None
        return None if asking.cancelled() else asking.result()

    async def _listen_for(self, question: str, known: set[str]) -> str | None:
        waiting = self._typed.waiting
        while True:
            self._ask_for(question)
            line = await self._typed.next(waiting)
            self._printer.entered()
            if line is None or (template := line.strip().lower()) in known:
                return None if line is None else template
            self._printer.line(_("That is none of the answers."))

    def _ask_for(self, question: str) -> None:
        self._printer.prompt(f"{question}{question and ' '}{PROMPT}")

    def _on_event(self, event: Event) -> None:
        """Print an event that belongs to no turn, after the running one."""
        if self._running:
            self._aside.append(event)
            return
        self._printer.print(event)
        self._ask_for("")


def _answers(request: ApprovalRequested) -> str:
    """Return the keys that answer `request`, and what each does."""
    parts = [_("y allows it until you quit") if request.asks else _("y runs it once")]
    if request.network:
        parts.append(_("{key} runs it once with the network").format(key=_WITH_NETWORK))
    if request.pattern:
        parts.append(_("a always allows {pattern}").format(pattern=request.pattern))
    return _(", ").join([*parts, _("n refuses")])


def _question(request: ApprovalRequested) -> Iterator[str]:
    if request.asks:
        yield _("question: {question} {about}").format(question=request.asks, about=request.command)
        yield request.reach
        return
    agent = _("the sub-agent “{agent}”, by {tool},").format(agent=request.by, tool=request.tool)
    wants = _("approval: {who} wants to change {what}") if request.diff else _("approval: {who} wants to run {what}")
    yield wants.format(who=agent if request.by else request.tool, what=request.command)
    where = _("in {folder}").format(folder=request.folder)
    yield f"{where}: {request.reach}" if request.reach else where
    yield from (_("risk: {risk}").format(risk=_(risk)) for risk in request.risks)
    if request.diff:
        yield request.diff


async def run_line_chat(options: RuntimeOptions, opened: list[Runtime]) -> int:
    """Chat in lines until the user leaves; returns the exit code. `opened` gets the runtime. Raises ClawbotError if
    nothing could start.

    SIGTERM and a closed window end it at once; the messages are stored, and memory gets them later.
    """
    runtime = await Runtime.open(options)
    opened.append(runtime)
    typed = TypedLines(sys.stdin.fileno())
    chat = LineChat(runtime, typed, EventPrinter())
    try:
        typed.start()
        chat.listen()
        await chat.run()
    finally:
        chat.signal = chat.signal or (signal.SIGHUP if typed.gone else 0)
        await chat.close()
    return 128 + chat.signal if chat.signal else 0
