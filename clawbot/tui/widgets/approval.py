"""The approval of a tool call, in place of the prompt.

A stray key must not allow anything. An allowing key counts only after the question was visible, and the keyboard idle,
for a moment: an earlier key was meant for the previous question, or was typing. It is held back; if more keys follow,
all go into the prompt, otherwise only a refusal counts. Enter takes what the cursor is on, under the same rule, and the
cursor begins at the refusal where the danger is grave. And nothing can be allowed before its end was shown: until then
the allowing keys scroll.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static
from textual.widgets.text_area import Edit, EditResult

from clawbot.agent.events import ApprovalRequested
from clawbot.clock import Clock
from clawbot.text.interface import _
from clawbot.text.visible import reveal, unwritten, visible
from clawbot.tools.protocol import danger_of
from clawbot.tui.render.lines import BLANK
from clawbot.tui.render.question import PlanAsked, Seen, View, choices_of, view_of
from clawbot.tui.widgets.fields import Area, typed_text
from clawbot.tui.widgets.line_view import Painted
from clawbot.tui.widgets.status_line import QueueLines

STYLES = (
    "question", "well", "gutter", "added", "removed", "quiet", "urgent", "hint", "danger", "key", "label", "chosen",
    "sign-odd", "sign-blank",
)  # fmt: skip
LOW = 16  # rows of a screen that has none to spare for air
AROUND = 3  # rows that the screen needs around the question: its header, the line above the question, the status
AIR = 1  # more of them on a screen that is not low: a row below the question
PAGE = 3  # rows of the conversation that remain in view


class QuestionView(Painted):
    """The rows of `clawbot.tui.render.question`, as many as the screen has room for."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"question--{name}" for name in STYLES}
    prefix = "question--"

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.drawn_at: float | None = None  # by the monotonic clock: when the question was first on the screen
        self.asked: ApprovalRequested | None = None
        self._seen = Seen()
        self.chosen = ""  # the key of the choice that the cursor is on

    def ask(self, asked: ApprovalRequested) -> None:
        self.asked = asked
        self.drawn_at = None
        # The plan itself is on the page.
        self._seen = Seen(all_seen=isinstance(asked, PlanAsked))
        first = choices_of(asked)[0].key
        self.chosen = "n" if danger_of(asked.risks) == "grave" else first
        self.refresh(layout=True)

    @property
    def view(self) -> View | None:
        if self.asked is None or not self.size.height:
            return None
        return view_of(self.asked, self.size.width, self.size.height, self._seen, self.chosen)

    @property
    def was_read(self) -> bool:
        """Whether the end of what is asked about has been on the screen."""
        view = self.view
        return view is not None and view.room > 0 and (self._seen.all_seen or not view.below)

    def scroll_rows(self, rows: int) -> None:
        """Move what is asked about by so many rows, and never past what is unread."""
        if (view := self.view) is None:
            return
        rows = max(-view.room, min(rows, view.room))
        top = max(0, min(view.top + rows, view.total - view.room))
        self._seen = Seen(top, self.was_read or top + view.room >= view.total)
        self.refresh()

    def move(self, step: int) -> None:
        """Move a row down or up: in the question as long as there is more of it, else through the choices."""
        view = self.view
        if self.asked is None or view is None:
            return
        keys = [choice.key for choice in choices_of(self.asked)]
        at = keys.index(self.chosen)
        if not self.was_read or (view.below if step > 0 else view.top and at == 0):
            self.scroll_rows(step)
        else:
            self.chosen = keys[max(0, min(at + step, len(keys) - 1))]
            self.refresh()

    def scroll_pages(self, pages: int) -> bool:
        """Turn the page, a row of it remains in view; False if all is in view."""
        view = self.view
        if view is None or view.room >= view.total:
            return False
        self.scroll_rows(pages * max(1, view.room - 1))
        return True

    def on_resize(self, event: Resize) -> None:
        """Fold the rows again in another width: what was not read to its end is read from its beginning."""
        if not self._seen.all_seen:
            self._seen = replace(self._seen, top=0)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(1)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-1)

    def render_line(self, y: int) -> Strip:
        view = self.view
        if view is not None and self.drawn_at is None:
            self.drawn_at = self.clock.monotonic()
        line = view.lines[y] if view is not None and y < len(view.lines) else BLANK
        strip = Strip(self.segments(line.spans, line.fill))
        return strip.crop_extend(0, self.size.width, self.named(line.fill))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if self.asked is None:
            return 0
        queue = self.screen.query_one(QueueLines)
        height = viewport.height - AROUND
        if queue.display:
            height -= queue.get_content_height(container, viewport, width)
        if viewport.height >= LOW:
            height -= AIR + PAGE
        return len(view_of(self.asked, width, height, self._seen).lines)


class CommandEditor(Area):
    """An editor for the command before it runs. Enter runs it, Esc returns to the question.

    It shows the visible form (`clawbot.text.visible`) and applies it to typed and pasted text; what runs is what the
    signs mean.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j", "newline", "New line", show=False),
        Binding("escape", "back", "Back", show=False),
    ]

    @dataclass
    class Done(Message):
        """The changed command, or None to go back."""

        command: str | None

    @dataclass
    class Refused(Message):
        """Why the text can't run."""

        reason: str

    def __init__(self, command: str) -> None:
        super().__init__(visible(command), compact=True, highlight_cursor_line=False)
        self.cursor_blink = False

    def edit(self, edit: Edit) -> EditResult:
        edit.text = visible(edit.text, blanks=False)
        return super().edit(edit)

    async def take_key(self, event: Key) -> bool:
        if event.key != "enter":
            return await super().take_key(event)
        self._run()
        return True

    def _run(self) -> None:
        try:
            command = reveal(self.text)
        except ValueError as error:
            self.post_message(self.Refused(str(error)))
            return
        if found := unwritten(command):
            self.post_message(
                self.Refused(
                    _("{sign} at character {place} is never run: take it out").format(
                        sign=found.name, place=found.position
                    )
                )
            )
        elif command.strip():
            self.post_message(self.Done(command))

    def action_newline(self) -> None:
        self.insert("\n")

    def action_back(self) -> None:
        self.post_message(self.Done(None))


def key_texts(*pairs: tuple[str, str]) -> list[Content]:
    """Return keys with what they do, as the line below a question shows them."""
    return [Content.assemble((key, "$accent bold"), " ", (text, "$foreground 70%")) for key, text in pairs]


REST = 0.5  # seconds without a key, and with the question on the screen, before an answer counts
REST_AFTER_ANSWER = 1.0  # on the screen, for a question that comes so soon after an answer

Decision = Literal["once", "always", "deny"]
KEYS: dict[str, Decision] = {
    "y": "once", "w": "once", "a": "always", "n": "deny",
    "1": "once", "2": "always", "3": "deny",
}  # fmt: skip
WITH_NETWORK = "w"
SHELL = "shell"  # the tool whose questions show what a command can touch


class Approval(Vertical, can_focus=True):
    """Shows the oldest open question and takes the answer."""

    @dataclass
    class Answered(Message):
        """The answer to the request; `command` when it was changed; `network` lets it have the network."""

        request_id: str
        decision: Decision
        command: str | None = None
        network: bool = field(default=False, kw_only=True)

    @dataclass
    class TypedOn(Message):
        """The user was typing: these characters belong to the prompt."""

        text: str

    editing: var[bool] = var(False, toggle_class="editing")  # the command is changed before it runs

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.request: ApprovalRequested | None = None
        self.display = False
        self._last_key = 0.0
        self._answered_at: float | None = None
        self._needed = REST
        self._mid_typing = False
        self._held = ""
        self._shown_reaches: set[str] = set()  # what commands can touch, as earlier questions showed
        self._rest: Timer | None = None

    def compose(self) -> ComposeResult:
        yield QuestionView(self.clock)
        yield Static(id="approval-editing")

    @property
    def question(self) -> QuestionView:
        return self.query_one(QuestionView)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def ask(self, request: ApprovalRequested, *, mid_typing: bool) -> None:
        """Put `request` to the user; `mid_typing`: they were writing something else just now."""
        self.request = request
        self._mid_typing = mid_typing
        self._last_key = now = self.clock.monotonic()
        follows = self._answered_at is not None and now - self._answered_at < REST_AFTER_ANSWER
        self._needed = REST_AFTER_ANSWER if follows else REST
        self._held = ""
        # What a command can touch is the same for most of them: it is shown once.
        was_shown = request.tool == SHELL and request.reach in self._shown_reaches
        self.question.ask(replace(request, reach="") if was_shown else request)
        for danger in ("caution", "grave"):
            self.set_class(danger_of(request.risks) == danger, f"-{danger}")
        self.display = True
        self.focus()

    def close(self) -> None:
        self.request = None
        self.display = False
        self._leave_editor()

    def on_key(self, event: Key) -> None:
        """Take a key as an answer if the keyboard has paused; else the user is typing."""
        if self.request is None:
            return
        if event.key in ("up", "down"):
            event.stop()
            self.question.move(1 if event.key == "down" else -1)
            return
        now, drawn_at = self.clock.monotonic(), self.question.drawn_at
        was_seen = drawn_at is not None and now - drawn_at >= self._needed
        paused = was_seen and now - self._last_key >= REST and not self._held
        self._last_key = now
        if paused:
            self._mid_typing = False
            if self._take(event.key):
                event.stop()
            elif isinstance(self.request, PlanAsked) and (typed := typed_text(event)):
                event.stop()
                self.post_message(self.TypedOn(typed))
        elif typed := typed_text(event):
            event.stop()
            self._hold(typed)

    def _hold(self, character: str) -> None:
        if self._mid_typing:
            self.post_message(self.TypedOn(character))
            return
        self._held += character
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(REST, self._after_pause)

    def _after_pause(self) -> None:
        """Judge the keys before a pause: one was a refusal or came too early to allow anything, more were words."""
        held, self._held = self._held, ""
        if self.request is not None and held in self._answers(self.request) and KEYS.get(held) == "deny":
            self._take(held)
        elif held and (self.request is None or held not in self._answers(self.request)):
            self.post_message(self.TypedOn(held))

    def _take(self, key: str) -> bool:
        """Answer by `key`, or turn the page where it asks to read on; False when it is neither."""
        request = self.request
        if key == "enter":
            key = self.question.chosen if self.question.was_read else "y"
        if request is None or key not in self._answers(request):
            return False
        if KEYS.get(key) != "deny" and not self.question.was_read:
            self.question.scroll_pages(1)
        elif key == "e":
            self._edit(request.command)
        else:
            self._answered_at = self._last_key
            self._shown_reaches.add(request.reach)
            self.post_message(self.Answered(request.request_id, KEYS[key], network=key == WITH_NETWORK))
        return True

    @staticmethod
    def _answers(request: ApprovalRequested) -> set[str]:
        return {choice.key for choice in choices_of(request)}

    def scroll_page(self, step: int) -> bool:
        """Turn the page of the question; False when there is nothing to turn."""
        return self.request is not None and not self.editing and self.question.scroll_pages(step)

    def _edit(self, command: str) -> None:
        editor = CommandEditor(command)
        self.mount(editor, before="#approval-editing")
        self.editing = True
        self._show_keys()
        editor.focus()

    def _show_keys(self, problem: str = "") -> None:
        parts = [Content.styled(problem, "$warning")] if problem else []
        parts += key_texts(("enter", _("runs it")), ("esc", _("back")))
        self.query_one("#approval-editing", Static).update(Content("   ").join(parts))

    def on_command_editor_refused(self, event: CommandEditor.Refused) -> None:
        event.stop()
        self._show_keys(event.reason)

    def on_command_editor_done(self, event: CommandEditor.Done) -> None:
        event.stop()
        self._leave_editor()
        if self.request is None:
            return
        if event.command is not None:
            self._answered_at = self.clock.monotonic()
            self.post_message(self.Answered(self.request.request_id, "once", event.command))
        else:
            self._last_key = self.clock.monotonic()
            self.focus()

    def _leave_editor(self) -> None:
        self.editing = False
        for editor in self.query(CommandEditor):
            editor.remove()
