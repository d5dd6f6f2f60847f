"""The first lines of an empty page: who this is, what to try, what is kept where, who answers, the last sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line
from clawbot.tui.render.items import Item, Page, spread
from clawbot.tui.render.lines import (
    BLANK,
    StyledLine,
    StyledSpan,
    cells_of,
    cut_spans,
    ellipsis,
    middle,
    short_model,
    width_of,
)

if TYPE_CHECKING:
    from clawbot.llm.protocol import ModelInfo

OFFLINE = "offline"
MARK = "╱╱╱ "
PROMISE = N_("an agent that does not forget")
EXAMPLES = (N_("remember that I prefer tabs over spaces"), N_("what do I prefer?"), N_("show USER.md"))
TALKS_SHOWN = 3
LEFT = "   "
AIRY = (60, 20)  # columns and rows from which there is room for air and long words
TERM = 10  # cells of the words at the left
TRY, TALK, RUN = "try:", "session:", "run:"


class RecentTalk(Struct, frozen=True):
    """An earlier session: its id, its title, how old it is and how long, in words."""

    session_id: str
    title: str
    detail: str


class Answering(Struct, frozen=True):
    """Who answers, and why; what else there is; the key that runs a model on this machine, "" where one answers."""

    name: str
    why: str
    others: tuple[str, ...]
    keys_looked_for: int
    local_key: str


def answering(model: ModelInfo, found: Sequence[ModelInfo], keys_looked_for: int, local_key: str) -> Answering:
    """What is told of `model`, which answers, where `found` can be used and so many variables were looked at;
    `local_key` runs a model on this machine."""
    others = tuple(other.ref for other in found if other.ref not in (OFFLINE, model.ref))
    can_fetch = model.ref == OFFLINE and all(other.startswith("local/") for other in others)
    key = local_key if can_fetch else ""
    return Answering(clean_line(model.ref), clean_line(model.reason), others, keys_looked_for, key)


@dataclass
class StartItem(Item):
    """See the module. On a first start `answers`, `notes` and `talks_in` (the folders) are told; later the `talks` are.
    Each example and each talk opens; `rows` is the height that there is."""

    rows: int
    answers: Answering | None = None
    notes: str = ""
    talks_in: str = ""
    talks: Sequence[RecentTalk] = ()

    def lines(self, page: Page) -> list[StyledLine]:
        """With air where there is room, else eight lines at most."""
        airy = page.width >= AIRY[0] and self.rows >= AIRY[1]
        parts = [_mark(page.width), self._talks(page.width) or self._examples(page.width)]
        if self.answers is not None:
            parts += [self._places(page.width, airy=airy), self._models(self.answers, page.width, airy=airy)]
        air = [BLANK] if airy else []
        return [line for part in parts for line in (*air, *part)] + air

    def _examples(self, width: int) -> list[StyledLine]:
        return [_choice(text, TRY + text, width) for text in map(_, EXAMPLES)]

    def _talks(self, width: int) -> list[StyledLine]:
        return [_choice(talk.title, TALK + talk.session_id, width, talk.detail) for talk in self.talks]

    def _places(self, width: int, *, airy: bool) -> list[StyledLine]:
        room = width - len(LEFT) - TERM
        notes = middle(self.notes, room)
        if not airy:
            return [_term(_("notes"), notes, width)]
        told = _("{folder}, plain Markdown").format(folder=notes)
        return [_term(_("notes"), told, width), _term(_("sessions"), middle(self.talks_in, room), width)]

    def _models(self, told: Answering, width: int, *, airy: bool) -> list[StyledLine]:
        name = short_model(told.name)
        why = _("{model}: {why}").format(model=name, why=told.why) if told.why else name
        lines = [_term(_("model"), why, width)]
        if airy and told.name == OFFLINE:
            lines.append(_term("", _("it remembers, finds and quotes your notes, and reads files"), width))
        choose = _("/model chooses another")
        lines.append(_term("", " · ".join([choose, *_found(told)]) if airy else choose, width, f"{RUN}choose_model"))
        if told.local_key:
            own = _("{key} runs one on this machine, without a key").format(key=told.local_key)
            lines.append(_term("", own, width, f"{RUN}run_local_model"))
        return lines


def _found(told: Answering) -> tuple[str, str]:
    """Which models there are beside the one that answers, and how many keys were looked for."""
    others = ", ".join(map(short_model, told.others[:3])) or _("none")
    left = len(told.others) - 3
    if left > 0:
        others = ngettext("{models} and {n} more", "{models} and {n} more", left).format(models=others, n=left)
    return (
        _("found here: {models}").format(models=others),
        _("keys looked for: {n}").format(n=told.keys_looked_for),
    )


def _mark(width: int) -> list[StyledLine]:
    spans = [StyledSpan(f"{LEFT}{MARK}", "you"), StyledSpan("clawbot", "strong"), StyledSpan(f"  {_(PROMISE)}", "tool")]
    return [StyledLine(tuple(cut_spans(spans, width)))]


def _choice(text: str, target: str, width: int, detail: str = "") -> StyledLine:
    """What can be chosen, with `detail` at the right where there is room for it."""
    right = [StyledSpan(f"  {detail}", "tool")] if detail else []
    room = width - len(LEFT) - 2
    if room - cells_of(right) < room // 2:
        right = []
    shown = ellipsis(clean_line(text), room - cells_of(right))
    return spread([StyledSpan(f"{LEFT}❯ ", "you"), StyledSpan(shown, "", target)], right, width)


def _term(term: str, text: str, width: int, target: str = "") -> StyledLine:
    first = StyledSpan(f"{LEFT}{term}{' ' * (TERM - width_of(term))}", "tool")
    spans = [first, StyledSpan(text, "note" if target else "tool-text", target)]
    return StyledLine(tuple(cut_spans(spans, width)))
