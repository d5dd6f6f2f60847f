"""Bases for the screens above the conversation: a frame, the line of keys, a question, a scrollable page; and the
simplest one, the help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Event, Mount, Resize
from textual.events import Key as KeyPress
from textual.reactive import reactive
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import Static

from clawbot.clock import month_of
from clawbot.config.keys import ACTIONS, KeyMap
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line
from clawbot.tui.render.lines import code_spans
from clawbot.tui.widgets.fields import TextField, typed_text

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi


BETWEEN, MORE = " · ", Content("…")  # keys in a line
WAYS_OUT = ("back", "close")  # actions that need no widgets
# On a screen with less room than this what is above the conversation needs all of it.
FRAME_WIDTH, FRAME_HEIGHT = 80, 18
WIDEST = 110  # columns of a frame


class OverScreen(ModalScreen[ScreenResultType]):
    """A modal screen that survives keys, signals and late results in any state. Its `#frame` is in the middle of the
    conversation, which is dim around it; on a small screen it has no edge and takes all of it.

    Textual removes a screen's widgets first and cancels its workers afterwards: workers check `has_left` after each
    wait, and then leave the widgets alone.
    """

    is_loading = False  # the next keys are for what is not there yet
    around: ClassVar[int] = 7  # rows around the body: margins, edges and air of the frame, the keys
    DEFAULT_CSS = """
    OverScreen {
        background: $background;
        #frame { padding: 1 1 0 1; }
        &.-framed {
            align: center middle;
            background: $background 60%;
            #frame {
                max-width: 110;
                height: auto;
                margin: 1 2;
                background: $surface;
                border: round $foreground 30%;
                border-title-color: $text-accent;
            }
        }
    }
    """

    def on_resize(self, event: Resize) -> None:
        self.set_class(self.is_framed, "-framed")
        for body in self.query(".body"):
            body.styles.max_height = self.size.height - self.around if self.is_framed else None

    @property
    def is_framed(self) -> bool:
        return self.size.width >= FRAME_WIDTH and self.size.height >= FRAME_HEIGHT

    @property
    def inner_width(self) -> int:
        """Return the columns of a text inside, without its scroll bar."""
        return min(WIDEST, self.size.width - 4) - 7 if self.is_framed else max(24, self.size.width - 5)

    @property
    def has_left(self) -> bool:
        """Whether the screen or the program is over. Its widgets may be gone, or may never have been there."""
        return not (self.is_running and self.is_attached and self in self.app.screen_stack)

    async def on_event(self, event: Event) -> None:
        """Skip a screen that is closed before it is made: it gets no widgets, but the event all the same."""
        if not (isinstance(event, Mount | Resize) and self.has_left):
            await super().on_event(event)
            if isinstance(event, Mount):  # at once, not by `focus()`: keys may be waiting
                fields = (each for each in self.query() if isinstance(each, TextField))
                self.set_focus(next((field for field in fields if field.focusable), None))

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with `result`. Further calls are ignored: a second key on its way must not close the screen below."""
        if self not in self.app.screen_stack:
            return AwaitComplete()
        return super().dismiss(result)

    def action_back(self) -> None:
        """Dismiss without a result."""
        self.dismiss(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key may do what it does now: before there are widgets it can but leave."""
        if not self.is_mounted and action not in WAYS_OUT:
            return False
        return super().check_action(action, parameters)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call `callback` once what was changed is shown, if the screen is still there then.

        Textual has the screen that is shown by then run it, which may be the one below.
        """

        def run() -> Any:
            return None if self.has_left else callback(*args, **kwargs)

        return super().call_after_refresh(run)


def turns(number: int) -> str:
    """Return `1 turn`, `14 turns`."""
    return ngettext("{n:,} turn", "{n:,} turns", number).format(n=number)


def day_group(then: datetime, now: datetime) -> str:
    """Return the heading for the time `then`: today, yesterday, a week, its month in the zone of
    `now`."""
    local = then.astimezone(now.tzinfo)
    days = (now.date() - local.date()).days
    if days < 2:
        return _("Yesterday") if days == 1 else _("Today")
    return _("Last 7 days") if days < 7 else month_of(local)


@dataclass(frozen=True)
class KeyHint:
    """A key in the last line: how it is written, what it does, and the action a click on it runs."""

    name: str
    label: str
    action: str


class KeyLine(Static):
    """The one quiet line at the bottom: the message of the screen, then its keys, each of which can be clicked."""

    DEFAULT_CSS = """
    KeyLine {
        height: 1;
        margin: 1 1 0 1;
        color: $text-muted;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        link-color: $text-muted;
        link-style: none;
        link-background: $background 0%;
        link-color-hover: $foreground;
        link-style-hover: none;
        link-background-hover: $foreground 10%;
    }
    """

    status: reactive[str] = reactive("")

    def __init__(self, keys: Sequence[KeyHint]) -> None:
        super().__init__()
        self.keys = tuple(keys)

    def render(self) -> Content:
        parts = [
            Content.from_markup(f"[@click={key.action}]$text[/]", text=f"{_(key.name)} {_(key.label)}")
            for key in self.keys
        ]
        status = [Content.styled(self.status, "$foreground 80%")] if self.status else []
        # The key that leads back is in view at every width.
        way_out = next((at for at, key in enumerate(self.keys) if key.name == "esc"), len(self.keys) - 1)
        return Content(BETWEEN).join(fitting([*status, *parts], way_out + len(status), self.size.width))


def fitting(parts: Sequence[Content], kept: int, width: int) -> list[Content]:
    """Return as many of `parts` as fit into `width` cells, from the left, and in any case the one at the index `kept`.
    An ellipsis replaces the others."""
    others = [at for at in range(len(parts)) if at != kept]
    for count in range(len(others), -1, -1):
        left_out = others[count:]
        line = [part for at, part in enumerate(parts) if at not in left_out]
        if left_out:
            line.insert(sum(at not in left_out for at in range(left_out[0])), MORE)
        if sum(part.cell_length for part in line) + len(BETWEEN) * (len(line) - 1) <= width:
            return line
    return [parts[kept]] if parts else []


class AskScreen(OverScreen[str]):
    """A question with a few answers, each a key; dismisses with the key, or `escape`.

    Whoever types on does not answer: any other key returns `escape` as well, so that no later letter is an answer.
    """

    CSS_PATH = "../styles/ask.tcss"
    BINDINGS: ClassVar = [("escape", "answer('escape')", "Back")]

    def __init__(self, question: str, answers: Sequence[tuple[str, str]], back: str = "") -> None:
        super().__init__()
        self.question = question
        self.keys = [KeyHint(key, label, f"screen.answer('{key}')") for key, label in answers]
        self.keys.append(KeyHint("esc", back or _("go on editing"), "screen.answer('escape')"))
        self.answers = {key for key, _ in answers}

    def compose(self) -> ComposeResult:
        yield Static(Content(self.question), id="question")
        yield KeyLine(self.keys)

    def on_key(self, event: KeyPress) -> None:
        if event.key in self.answers or event.key == "enter" or typed_text(event):
            event.stop()
            self.dismiss(event.key if event.key in self.answers else "escape")

    def action_answer(self, key: str) -> None:
        self.dismiss(key)


class PageScreen(OverScreen[ScreenResultType]):
    """Scrolls the widget `#page`, which each such screen composes, and dismisses with None. Its style is
    `page.tcss`, which a screen names before its own sheet: Textual does not inherit `CSS_PATH`."""

    around = 6
    BINDINGS: ClassVar = [
        Binding("escape,q,enter", "back", "Back"),
        Binding("up,k", "scroll('scroll_up')", "Up", show=False),
        Binding("down,j", "scroll('scroll_down')", "Down", show=False),
        Binding("pageup", "scroll('page_up')", "Page up", show=False),
        Binding("pagedown,space", "scroll('page_down')", "Page down", show=False),
        Binding("home,g", "scroll('scroll_home')", "Top", show=False),
        Binding("end,G", "scroll('scroll_end')", "End", show=False),
    ]

    async def action_scroll(self, how: str) -> None:
        await self.query_one("#page").run_action(how)


# What is among the actions and can't be moved, by the action that it precedes.
FIXED_LINES = {
    "newline": (("enter", N_("send")),),
    "stop": (
        ("↑ ↓", N_("what you wrote before")),
        ("tab", N_("complete a command; @file attaches")),
        ("!", N_("shell command; !! shares its output")),
    ),
    "leave": ((N_("ctrl+c twice"), N_("leave")),),
}


def help_lines(keys: KeyMap) -> Iterator[tuple[str, str]]:
    """Yield all keys of the conversation, each with what it does; `none` where an action has no key."""
    for action in ACTIONS:
        yield from ((_(key), _(meaning)) for key, meaning in FIXED_LINES.get(action.name, ()))
        yield keys.shown(action.name) or _("none"), _(action.meaning)
        if action.name == "stop" and (key := keys.first("stop")):
            yield _("{key} twice").format(key=key), _("go back to an earlier message")


class HelpScreen(PageScreen[None]):
    """Shows the keys, and the commands of the runtime below them."""

    CSS_PATH: ClassVar = ["../styles/page.tcss", "../styles/help.tcss"]

    def __init__(self, runtime: RuntimeApi) -> None:
        super().__init__()
        self.runtime = runtime
        self.keys = tuple(help_lines(KeyMap(runtime.settings.tui.keys)))

    def compose(self) -> ComposeResult:
        commands = [(f"{command.name} {_(command.arguments)}", _(command.help)) for command in self.runtime.commands]
        with Vertical(id="frame") as frame:
            frame.border_title = _("Help")
            with VerticalScroll(id="page", can_focus=False, classes="body"):
                yield from self._column(_("Keys"), self.keys)
                yield from self._column(_("Commands"), commands)
            yield KeyLine(
                [KeyHint("↑ ↓", _("scroll"), "screen.scroll('page_down')"), KeyHint("esc", _("back"), "screen.back")]
            )

    def _column(self, title: str, lines: Iterable[tuple[str, str]]) -> ComposeResult:
        with Vertical(classes="column"):
            yield Static(title, classes="title")
            for term, meaning in lines:
                with Horizontal(classes="line"):
                    yield Static(clean_line(term), classes="term", markup=False)
                    parts = [
                        (each.text, "$text-accent" if each.style else "") for each in code_spans(clean_line(meaning))
                    ]
                    yield Static(Content.assemble(*parts), classes="meaning")
