"""The questions in place of the prompt: of a tool, which goes first, about a plan, about unsent texts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from clawbot.agent.events import ApprovalRequested, Notice, PlanReady
from clawbot.text.interface import _, ngettext
from clawbot.text.sanitize import clean_line, isolate
from clawbot.text.secrets import holds_secret
from clawbot.text.visible import were_not_sent
from clawbot.tui.render.lines import ellipsis
from clawbot.tui.render.question import PlanAsked
from clawbot.tui.status_bar import StatusBar
from clawbot.tui.turns import StartReader, Turns
from clawbot.tui.widgets.approval import REST, Approval, key_texts
from clawbot.tui.widgets.composer import Composer
from clawbot.tui.widgets.fields import typed_text

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.config.schema_agent import Mode
    from clawbot.tools.protocol import Decision
    from clawbot.tui.writer import TranscriptWriter


MODE_AFTER: dict[Decision, Mode] = {"once": "ask", "always": "edits"}
"""The modes in which a plan is carried out, by the answer to the question about it; else planning goes on."""


SHOWN = 4
DRAFT_SECONDS = 2.0  # between two checks of the draft
MARGIN = 7  # cells next to a text
SCANNED = 500  # characters of a text that one line is made of

Choice = Literal["send", "edit", "drop", "later"]
KEYS: dict[str, Choice] = {"s": "send", "e": "edit", "d": "drop"}


class UnsentQuestion(Vertical, can_focus=True):
    """Shows unsent texts and takes the answer."""

    @dataclass
    class Answered(Message):
        """What becomes of it; what was `typed` on belongs to the prompt."""

        choice: Choice
        typed: str = ""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self._held = ""
        self._rest: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="unsent-question", markup=False)
        yield Static(id="unsent-texts", markup=False)
        yield Static(id="unsent-keys")

    def ask(self, texts: Sequence[str]) -> None:
        self._held = ""
        self.query_one("#unsent-question", Static).update(were_not_sent(len(texts)))
        room = max(10, self.screen.size.width - MARGIN)
        shown = texts if len(texts) <= SHOWN + 1 else texts[:SHOWN]
        lines = [ellipsis(isolate(clean_line(text[:SCANNED])), room) for text in shown]
        if len(shown) < len(texts):
            left = len(texts) - len(shown)
            lines.append(ngettext("and {n:,} more", "and {n:,} more", left).format(n=left))
        self.query_one("#unsent-texts", Static).update("\n".join(lines))
        many = len(texts)
        send, drop = ngettext("send", "send all", many), ngettext("drop", "drop all", many)
        keys = key_texts(("s", send), ("e", _("edit")), ("d", drop), ("esc", _("later")))
        self.query_one("#unsent-keys", Static).update(Content("   ").join(keys))
        self.display = True
        self.focus()

    def close(self) -> None:
        if self._rest is not None:
            self._rest.stop()
        self.display = False

    def on_key(self, event: Key) -> None:
        """Take a key that is followed by a pause as the answer; Esc asks another time."""
        if event.key == "escape":
            event.stop()
            self.post_message(self.Answered("later", self._held))
        elif typed := typed_text(event):
            event.stop()
            self._held += typed
            if self._held not in KEYS:
                self.post_message(self.Answered("later", self._held))
                return
            self._rest = self.set_timer(REST, self._after_pause)

    def _after_pause(self) -> None:
        choice = KEYS.get(self._held)
        if self.display and choice is not None:
            self.post_message(self.Answered(choice))


class UnsentTexts:
    """Sends unsent texts by `turns`, puts it into the prompt of `composer`, or drops it. A draft, which was never
    entered, goes into the prompt by itself. `start` runs a job of the screen."""

    def __init__(self, composer: Composer, turns: Turns, start: StartReader) -> None:
        self._composer = composer
        self._prompt = composer.prompt  # which outlives the screen
        self._turns = turns
        self._start = start
        self._runtime: RuntimeApi | None = None
        self._draft = ""  # the id under which the text in the prompt is on disk
        self._saved = ""  # the prompt's text when it was last stored
        self._saving = False

    def connect(self, runtime: RuntimeApi) -> None:
        """Use the unsent texts of `runtime` from now on; the text in the prompt comes along."""
        before, self._runtime = self._runtime, runtime
        if before is None:
            self._prompt.set_interval(DRAFT_SECONDS, self._keep_typed)
        elif before is not runtime and self._draft:
            self._start(partial(before.agent.outbox.drop, self._draft))
            self._draft = ""
        self._saved = ""
        drafts = [
            unsent for unsent in runtime.agent.outbox.left if unsent.draft and unsent.id not in self._turns.sending
        ]
        if drafts and self._composer.is_empty:
            self._draft = drafts[-1].id
            self._fill(drafts[-1].text)

    @property
    def texts(self) -> list[str]:
        return [unsent.text for unsent in self._open]

    @property
    def _open(self) -> list[Any]:
        left = self._runtime.agent.outbox.left if self._runtime is not None else []
        sent = self._turns.sending
        return [unsent for unsent in left if unsent.id not in (self._draft, *sent)]

    def answer(self, choice: Choice) -> None:
        runtime, unsent = self._runtime, self._open
        if runtime is None or not unsent:
            return
        match choice:
            case "send":
                for each in unsent:
                    self._turns.submit(each.text, each.id)
            case "edit":
                text = "\n\n".join(each.text for each in unsent)
                self._fill(text)
                self._draft = uuid.uuid4().hex
                ids = [each.id for each in unsent]
                self._start(partial(runtime.agent.outbox.add, text, ids, ident=self._draft, draft=True))
            case "drop":
                self._start(partial(runtime.agent.outbox.drop, *(each.id for each in unsent)))
            case "later":
                pass

    def enter(self) -> str:
        """Return the id of the draft on disk, which goes with the message that is sent. A kill
        before or after the message is stored then finds the words once."""
        entered, self._draft, self._saved = self._draft, "", ""
        return entered

    async def leave(self, runtime: RuntimeApi) -> None:
        """Keep what no runtime has seen, and the text in the prompt, for the next start."""
        outbox = runtime.agent.outbox
        for text, ident in self._turns.held:
            await outbox.add(text, ident=ident)
        draft = self._prompt.expanded(self._prompt.text)
        if draft.strip():
            await outbox.add(draft, ident=self._draft, draft=True)
        elif self._draft:
            await outbox.drop(self._draft)

    def _keep_typed(self) -> None:
        """Store the text in the prompt, unless it is a secret: the program may be killed."""
        text = self._prompt.expanded(self._prompt.text)
        if self._runtime is not None and not self._saving and text != self._saved and not holds_secret(text):
            self._saved, self._saving = text, True
            self._start(partial(self._save, self._runtime, text))

    async def _save(self, runtime: RuntimeApi, text: str) -> None:
        try:
            if self._saved != text:
                return  # it was sent in the meantime
            if text.strip():
                self._draft = self._draft or uuid.uuid4().hex
                await runtime.agent.outbox.add(text, ident=self._draft, draft=True)
            elif stored := self._draft:
                self._draft = ""
                await runtime.agent.outbox.drop(stored)
        finally:
            self._saving = False

    def _fill(self, text: str) -> None:
        self._saved = text
        self._prompt.take(self._prompt.shortened(text))


PLAN = "plan"
"""The id of the question whether a plan is to be carried out: no turn waits for its answer."""


class Questions:
    """The open questions of `screen`, oldest first. `writer` puts a notice on the page; `waits` is called when one
    begins to wait for its answer."""

    def __init__(
        self,
        screen: Screen[Any],
        bar: StatusBar,
        unsent: UnsentTexts,
        writer: TranscriptWriter,
        waits: Callable[[], None],
    ) -> None:
        self._screen = screen
        self._approval = screen.query_one(Approval)
        self._composer = screen.query_one(Composer)
        self._unsent_question = screen.query_one(UnsentQuestion)
        self._bar = bar
        self._unsent = unsent
        self._writer = writer
        self._waits = waits
        self._open: list[ApprovalRequested] = []

    def offer_unsent(self, *, asked: bool = False) -> None:
        """Ask what to do with unsent texts; not while the user types, unless the user `asked`."""
        composer, texts = self._composer, self._unsent.texts
        if not texts:
            if asked:
                self._screen.notify(_("Everything was sent."))
        elif not composer.is_empty or composer.is_mid_typing() or self._approval.request is not None:
            many = len(texts)
            text = ngettext(
                "{n:,} message was not sent before clawbot ended: /unsent shows it.",
                "{n:,} messages were not sent before clawbot ended: /unsent shows them.",
                many,
            ).format(n=many)
            self._writer.notice(Notice(level="warning", text=text))
        else:
            composer.display = False
            self._unsent_question.ask(texts)

    def close_unsent(self) -> None:
        self._unsent_question.close()
        self._show_prompt()

    def add(self, request: ApprovalRequested) -> None:
        self._open.append(request)
        self.ask_next()

    def add_plan(self, event: PlanReady) -> None:
        asks = _("Carry out this plan?")
        text = event.acceptance
        self.add(PlanAsked(request_id=PLAN, call_id="", tool=PLAN, command=text, folder="", pattern="", asks=asks))

    def drop_plan(self) -> str:
        """Withdraw the question about a plan; return the message that accepts it, "" if nothing was asked."""
        request = self._approval.request
        if request is None or not self.asks_plan:
            return ""
        self.answered(PLAN)
        return request.command

    @property
    def asks_plan(self) -> bool:
        return isinstance(self._approval.request, PlanAsked)

    def answered(self, request_id: str) -> str:
        """Close the question; return the id of the call that asked, empty if there is none."""
        found = next((request.call_id for request in self._open if request.request_id == request_id), "")
        self._open = [request for request in self._open if request.request_id != request_id]
        self._close_approval()
        return found

    def ask_next(self) -> None:
        """Put the oldest open question, unless one is put already."""
        if not self._open or self._approval.request is not None:
            return
        if self._unsent_question.display:
            self.close_unsent()
        self._composer.display = False
        self._screen.add_class("asking")
        self._approval.ask(self._open[0], mid_typing=self._composer.is_mid_typing())
        if not self.asks_plan:
            self._bar.runs(_("waits for your answer"))
        self._bar.asks(True)
        self._waits()

    def drop(self) -> None:
        self._open.clear()
        self._close_approval()

    def _close_approval(self) -> None:
        if self._approval.request is not None:
            self._approval.close()
            self._screen.remove_class("asking")
            self._bar.asks(False)
        if not (self._composer.display or self._unsent_question.display):
            self._show_prompt()

    def _show_prompt(self) -> None:
        self._composer.display = True
        self._composer.prompt.focus()
