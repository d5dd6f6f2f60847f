"""What stands in place of the prompt: the question of a tool, that about a plan, or what becomes of texts that were not
sent; one at a time, and a tool's goes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.screen import Screen

from clawbot.agent.events import ApprovalRequested, Notice, PlanReady
from clawbot.text.interface import _, ngettext
from clawbot.tui.render.question import PlanAsked
from clawbot.tui.status_bar import StatusBar
from clawbot.tui.widgets.approval import Approval
from clawbot.tui.widgets.composer import Composer
from clawbot.tui.widgets.unsent import UnsentQuestion, UnsentTexts

PLAN = "plan"
"""The id of the question whether a plan is to be carried out: no turn waits for its answer."""


class Questions:
    """The open questions of `screen`, oldest first. `say` puts a notice on the page; `waits` is called when one
    begins to wait for its answer."""

    def __init__(
        self,
        screen: Screen[Any],
        bar: StatusBar,
        unsent: UnsentTexts,
        say: Callable[[Notice], None],
        waits: Callable[[], None],
    ) -> None:
        self._screen = screen
        self._approval = screen.query_one(Approval)
        self._composer = screen.query_one(Composer)
        self._unsent_question = screen.query_one(UnsentQuestion)
        self._bar = bar
        self._unsent = unsent
        self._say = say
        self._waits = waits
        self._open: list[ApprovalRequested] = []

    def offer_unsent(self, *, asked: bool = False) -> None:
        """Ask what to do with unsent texts; not while the user types, unless the user `asked`."""
        composer, texts = self._composer, self._unsent.texts
        if not texts:
            if asked:
                self._screen.notify(_("Everything was sent."), markup=False)
        elif not composer.is_empty or composer.is_mid_typing() or self._approval.request is not None:
            many = len(texts)
            text = ngettext(
                "{n:,} message was not sent before clawbot ended: /unsent shows it.",
                "{n:,} messages were not sent before clawbot ended: /unsent shows them.",
                many,
            ).format(n=many)
            self._say(Notice(level="warning", text=text))
        else:
            composer.display = False
            self._unsent_question.ask(texts)

    def close_unsent(self) -> None:
        """What was not sent is asked about no more."""
        self._unsent_question.close()
        self._show_prompt()

    def add(self, request: ApprovalRequested) -> None:
        """A tool asks: at once, or after those that asked before."""
        self._open.append(request)
        self.ask_next()

    def add_plan(self, event: PlanReady) -> None:
        """Ask whether the plan of the turn that has ended is to be carried out."""
        asks = _("Carry out this plan?")
        said = event.acceptance
        self.add(PlanAsked(request_id=PLAN, call_id="", tool=PLAN, command=said, folder="", pattern="", asks=asks))

    def drop_plan(self) -> str:
        """Ask about a plan no longer; returns what would be said by accepting it, "" where nothing was asked."""
        request = self._approval.request
        if request is None or not self.asks_plan:
            return ""
        self.answered(PLAN)
        return request.command

    @property
    def asks_plan(self) -> bool:
        """Whether the question about a plan is open."""
        return isinstance(self._approval.request, PlanAsked)

    def answered(self, request_id: str) -> str:
        """The question is answered; returns the id of the call that asked, empty if there is none."""
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
        """The turn has ended: nobody waits for an answer any more."""
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
