"""The user's earlier messages: one is chosen to be edited, and the conversation goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding

from clawbot.clock import Clock, age, moment_of
from clawbot.messages import UserMessage
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean_line
from clawbot.tui.screens.common import KeyHint, KeyLine, day_group
from clawbot.tui.screens.picker import PickerScreen, Row

if TYPE_CHECKING:
    from clawbot.agent.status_types import HistoryItem
    from clawbot.api import RuntimeApi

# Items of history that are read, some at a time: a message from before that is found by the search.
MOST_ITEMS = 2_000
PAGE = 200
TITLE_CHARS = 200
PROMISE = N_("nothing is deleted; files stay")


class EarlierMessage(NamedTuple):
    """The `entry` of the message to go on from: in a `fork`, or in the conversation itself."""

    entry: str
    fork: bool = False


class RewindScreen(PickerScreen[EarlierMessage]):
    """Gives the message to go on from, or None."""

    BINDINGS: ClassVar = [Binding("ctrl+b", "fork", "Fork", priority=True)]
    heading = N_("go back to")
    nothing = N_("Nothing was said yet.")
    keys: ClassVar = (
        KeyHint("enter", N_("edit it and go on"), "screen.choose"),
        KeyHint("ctrl+b", N_("fork here"), "screen.fork"),
        KeyHint("esc", N_("back"), "screen.back"),
    )
    letter_keys: ClassVar = {"f": "screen.fork"}

    def __init__(self, runtime: RuntimeApi, *, clock: Clock) -> None:
        super().__init__(runtime)
        self.clock = clock

    def on_mount(self) -> None:
        """Say what becomes of the rest."""
        self.query_one(KeyLine).status = _(PROMISE)

    async def load(self) -> list[Row]:
        """The messages, the last one first."""
        rows: list[Row] = []
        before: str | None = None
        for _page in range(MOST_ITEMS // PAGE):
            items = await self.runtime.sessions.history(before=before, limit=PAGE)
            rows += [row for item in reversed(items) if (row := self._row(item)) is not None]
            if len(items) < PAGE:
                break
            before = items[0].entry_id
        return rows

    def _row(self, item: HistoryItem) -> Row | None:
        message = item.message
        if not isinstance(message, UserMessage) or message.scheduled or not message.text.strip():
            return None
        now = self.clock.now()
        then = moment_of(item.timestamp, now.tzinfo)
        title = clean_line(message.text.strip()[:TITLE_CHARS])
        return Row(item.entry_id, title, right=age(then, now), group=day_group(then, now))

    def chosen(self, row: Row) -> None:
        """Give the message back."""
        self.dismiss(EarlierMessage(row.id))

    def action_fork(self) -> None:
        """Go on from before the highlighted message in a new conversation; this one stays as it is."""
        if self.current is not None:
            self.dismiss(EarlierMessage(self.current.id, fork=True))
