"""A tool asks before it acts: the question in place of the prompt.

A stray key must not allow anything. A key that comes before the keyboard has rested for a moment is held back: when
nothing follows it was the answer, when more follows it was typing and goes into the prompt. Enter allows nothing.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static, TextArea

from clawbot.agent.events import ApprovalRequested
from clawbot.clock import Clock
from clawbot.tui.render.sanitize import clean, clean_line

REST = 0.5  # seconds without a key before an answer counts

Decision = Literal["once", "always", "deny"]
KEYS: dict[str, Decision] = {"y": "once", "a": "always", "n": "deny"}


class CommandEditor(TextArea):
    """The command, to be changed before it runs. Enter runs it, Esc goes back to the question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+j", "newline", "New line", show=False),
        Binding("escape", "back", "Back", show=False),
    ]

    class Done(Message):
        """The changed command, or None to go back."""

        def __init__(self, command: str | None) -> None:
            self.command = command
            super().__init__()

    async def _on_key(self, event: Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            if self.text.strip():
                self.post_message(self.Done(self.text))
        else:
            await super()._on_key(event)

    def action_newline(self) -> None:
        """Break the line."""
        self.insert("\n")

    def action_back(self) -> None:
        """Leave the command as it was."""
        self.post_message(self.Done(None))


class Approval(Vertical, can_focus=True):
    """Shows the oldest open question and takes the answer."""

    class Answered(Message):
        """The answer to the request; `command` when it was changed."""

        def __init__(self, request_id: str, decision: Decision, command: str | None = None) -> None:
            self.request_id = request_id
            self.decision = decision
            self.command = command
            super().__init__()

    class TypedOn(Message):
        """The user was in the middle of typing: these characters belong to the prompt."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.request: ApprovalRequested | None = None
        self.display = False
        self._last_key = 0.0
        self._mid_typing = False
        self._held = ""
        self._rest: Timer | None = None

    def compose(self) -> ComposeResult:
        """Question, command, reach, keys."""
        yield Static(id="approval-question", markup=False)
        with VerticalScroll(id="approval-command", can_focus=False):
            yield Static(id="approval-text", markup=False)
        yield Static(id="approval-reach", markup=False)
        yield Static(id="approval-keys")

    def ask(self, request: ApprovalRequested, *, mid_typing: bool) -> None:
        """Put `request` to the user; `mid_typing` says that they were writing something else just now."""
        self.request = request
        self._mid_typing = mid_typing
        self._last_key = self.clock.monotonic()
        self._held = ""
        self.query_one("#approval-question", Static).update(f"{clean_line(request.tool)} asks to run")
        self.query_one("#approval-text", Static).update(clean(request.command).expandtabs(4))
        reach = f"in {clean_line(request.folder)}" + (f" · {clean_line(request.reach)}" if request.reach else "")
        self.query_one("#approval-reach", Static).update(reach)
        self.query_one("#approval-keys", Static).update(self._keys(request))
        self.display = True
        self.query_one("#approval-command").scroll_home(animate=False)
        self.focus()

    @staticmethod
    def _keys(request: ApprovalRequested) -> Content:
        pairs = [("y", "once"), ("a", f"always {clean_line(request.pattern)}"), ("n", "no"), ("e", "edit first")]
        parts = [Content.assemble((key, "$accent bold"), " ", (text, "$foreground 60%")) for key, text in pairs]
        return Content("   ").join(parts)

    def close(self) -> None:
        """The question is over."""
        self.request = None
        self.display = False
        for editor in self.query(CommandEditor):
            editor.remove()

    def on_key(self, event: Key) -> None:
        """An answer, if the keyboard has rested; else the user is typing."""
        if self.request is None or event.key in ("up", "down", "pageup", "pagedown"):
            self._scroll(event.key)
            return
        now = self.clock.monotonic()
        rested = now - self._last_key >= REST and not self._held
        self._last_key = now
        if rested:
            self._mid_typing = False
            if self._take(event.key):
                event.stop()
        elif event.is_printable and event.character:
            event.stop()
            self._hold(event.character)

    def _hold(self, character: str) -> None:
        if self._mid_typing:
            self.post_message(self.TypedOn(character))
            return
        self._held += character
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(REST, self._rested)

    def _rested(self) -> None:
        """The keyboard has rested: one key was an answer, more were words."""
        held, self._held = self._held, ""
        if self.request is not None and not self._take(held) and held:
            self.post_message(self.TypedOn(held))

    def _take(self, key: str) -> bool:
        """Answer by `key`; False when it is no answer."""
        if self.request is None:
            return False
        if key in KEYS:
            self.post_message(self.Answered(self.request.request_id, KEYS[key]))
        elif key == "e":
            self._edit(self.request.command)
        else:
            return False
        return True

    def _scroll(self, key: str) -> None:
        text = self.query_one("#approval-command")
        steps = {"up": text.scroll_up, "down": text.scroll_down, "pageup": text.scroll_page_up}
        steps.get(key, text.scroll_page_down)(animate=False)

    def _edit(self, command: str) -> None:
        editor = CommandEditor(command, compact=True, highlight_cursor_line=False)
        editor.cursor_blink = False
        self.mount(editor, after="#approval-command")
        self.add_class("editing")
        self.query_one("#approval-keys", Static).update(
            Content.from_markup(
                "[$accent bold]enter[/] [$foreground 60%]runs it[/]   [$accent bold]esc[/] [$foreground 60%]back[/]"
            )
        )
        editor.focus()

    def on_command_editor_done(self, event: CommandEditor.Done) -> None:
        """Run the changed command, or ask again."""
        event.stop()
        self.remove_class("editing")
        for editor in self.query(CommandEditor):
            editor.remove()
        if self.request is None:
            return
        if event.command is not None:
            self.post_message(self.Answered(self.request.request_id, "once", event.command))
        else:
            self.query_one("#approval-keys", Static).update(self._keys(self.request))
            self._last_key = self.clock.monotonic()
            self.focus()
