"""The text that is being typed: its keys, its history, and placeholders for long pastes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from msgspec import structs
from textual.binding import BindingType
from textual.events import Key, Paste, Resize
from textual.message import Message
from textual.reactive import var
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from clawbot.deadline import deadline
from clawbot.text.interface import N_, _
from clawbot.tui.input import PromptHistory
from clawbot.tui.pasting import pasted_mention
from clawbot.tui.render.lines import width_of
from clawbot.tui.vi import (
    INSERT,
    LINES,
    NAMED,
    VISUAL,
    Step,
    Vi,
    clamped,
    line_end,
    line_start,
    location_of,
    press,
    shared,
)
from clawbot.tui.widgets.fields import Area, binding, typed_text

PASTE_CHARS = 2000  # a longer paste is shown as a placeholder
PASTE_LINES = 25
INVITATIONS = (N_("Ask, or / for commands, @ for files"), N_("Ask · / commands · @ files"), N_("Ask"))
DISK_SECONDS = 1.0  # a path on a disk that answers later is pasted as it is


def invitation(width: int) -> str:
    """Return the text of an empty prompt of `width` cells: the longest one that fits."""
    return next((text for text in map(_, INVITATIONS) if width_of(text) <= width), "")


class Prompt(Area):
    """The input of the user. Enter sends; Shift+Enter, Alt+Enter and Ctrl+J break the line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding("newline", "newline", priority=False),
        binding("later_input", "newer", priority=False),
        binding("undo", "undo_or_suspend", priority=False),
        binding("redo", "redo_or_yank", priority=False),
        # Here too, so that they win against the keys that edit the text.
        binding("stop", "screen.stop", priority=False),
        binding("paste_picture", "paste_picture", priority=False),
        # Not a priority binding: what was typed before it must have arrived when it asks whether the prompt is empty.
        binding("leave", "app.leave_or_delete", priority=False),
    ]

    class Typed(Message):
        """Any key press, for whoever needs to know that the user is typing."""

    class PictureWanted(Message):
        """The picture in the clipboard is to be attached."""

    mode: var[str] = var("")  # of vi

    def __init__(self, submit: Callable[[str, str], None], steer: Callable[[str], None]) -> None:
        """`submit` is called on Enter with the text, with pastes expanded and not; `steer` with a key for the
        completions: `up`, `down`, `tab`, `enter`. Calls rather than messages: keys of one burst would overtake a
        message and end up in the sent text."""
        super().__init__(compact=True, highlight_cursor_line=False, placeholder="")
        self._submit = submit
        self._steer = steer
        self.cursor_blink = False  # a blinking cursor is a timer that never sleeps
        self.inputs = PromptHistory()
        self.pastes: dict[str, str] = {}
        self.choosing = False  # the list of completions is open and takes its keys
        self.workspace: Path | None = None
        self._cut = ""  # what a key took out last
        self._vi: Vi | None = None

    def take(self, text: str) -> None:
        """Replace the text by `text`, cursor at the end."""
        self.load_text(text)
        self.move_cursor(self.document.end)
        self.changed()
        if self._vi is not None and not text:
            self._change_mode(structs.replace(self._vi, mode=INSERT, typed="", change="i", times=1, began=(0, 0)))

    def edit(self, edit: Edit) -> EditResult:
        """Apply any change by hand: an input of the history that is deleted is left."""
        result = super().edit(edit)
        if not self.text:
            self.inputs.leave()
        return result

    def expanded(self, text: str) -> str:
        for placeholder, pasted in self.pastes.items():
            text = text.replace(placeholder, pasted)
        return text

    @property
    def before_cursor(self) -> str:
        """The text from the start to the cursor; empty when it is long, where nothing is completed."""
        row, column = self.cursor_location
        if row > 50:
            return ""
        return "\n".join([*(self.document.get_line(n) for n in range(row)), self.document.get_line(row)[:column]])

    def on_resize(self, event: Resize) -> None:
        self.placeholder = invitation(event.size.width)

    async def take_key(self, event: Key) -> bool:
        """Edit by vi, send, steer the completions, or insert what was typed."""
        self.post_message(self.Typed())
        if self._vi is not None and self._is_for_vi(self._vi, event) and self._run_vi(self._vi, event):
            return True
        if event.key not in ("tab", "enter") and not (self.choosing and event.key in ("up", "down")):
            return await super().take_key(event)
        if event.key == "enter" and not self.choosing:
            self.submit()
        else:
            self._steer(event.key)
        return True

    # vi

    def edit_by_vi(self) -> None:
        """Edit as in vi from now on."""
        if self._vi is None:
            self.has_modes = True
            self._change_mode(Vi())

    def claims(self, key: str) -> bool:
        """Return whether `key` redoes a change, as ctrl+r does in vi, whatever else it is bound to."""
        return key == "ctrl+r" and self._vi is not None and self._vi.mode != INSERT

    @property
    def _at(self) -> int:
        row, column = self.cursor_location
        return sum(len(self.document.get_line(n)) + 1 for n in range(row)) + column

    def _location(self, at: int) -> Location:
        return location_of(self.text, at)

    def _is_for_vi(self, vi: Vi, event: Key) -> bool:
        if event.key == "escape":
            return not self.choosing
        named = event.key in NAMED or event.key == "ctrl+r"
        return vi.mode != INSERT and (named or bool(typed_text(event)))

    def _run_vi(self, vi: Vi, event: Key) -> bool:
        """Do what the key means; False where it means nothing here, and the screen may have it."""
        key = typed_text(event) or event.key
        text = self.text
        step = press(vi, text, self._at, key)
        if vi.mode != INSERT:
            self.history.checkpoint()  # so that undo takes back what one command changed or began to insert
        if step.text != text:
            self._replace_changed(text, step.text)
        self._change_mode(step.vi)
        self._select(step)
        match step.effect:
            case "undo":
                self.undo()
            case "redo":
                self.redo()
            case "older":
                self.action_older()
            case "newer":
                self.action_newer()
        if step.effect:
            self.move_cursor(self._location(clamped(self.text, self._at)))
        return step.effect != "stop"

    def _replace_changed(self, old: str, new: str) -> None:
        start, same = shared(old, new)
        first, last = map(self._location, (start, len(old) - same))
        self.replace(new[start : len(new) - same], first, last, maintain_selection_offset=False)

    def _select(self, step: Step) -> None:
        """Show the cursor, and what is selected: the character under the cursor belongs to it."""
        begin = end = step.cursor
        if step.vi.mode == VISUAL:
            begin = step.vi.anchor + (step.vi.anchor > end)
        elif step.vi.mode == LINES:
            above = end < step.vi.anchor
            begin = (line_end if above else line_start)(step.text, step.vi.anchor)
            end = (line_start if above else line_end)(step.text, end)
        self.selection = Selection(*map(self._location, (begin, end)))

    def _change_mode(self, vi: Vi) -> None:
        self._vi, self.mode = vi, vi.mode

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        mention = await self._mention(event.text)
        self.insert(f"{mention} " if mention else self.shortened(event.text))

    async def _mention(self, pasted: str) -> str | None:
        """Return the mention of the file whose path was pasted if a mention is read: in a message, behind no word."""
        before = self.before_cursor
        if self.workspace is None or self.text.startswith(("/", "!")) or not (not before or before[-1].isspace()):
            return None
        try:
            async with deadline(DISK_SECONDS):
                return await asyncio.to_thread(pasted_mention, pasted, self.workspace)
        except TimeoutError:
            return None

    def shortened(self, text: str) -> str:
        """Return `text`, or the placeholder that represents it until it is sent if it is long."""
        if len(text) <= PASTE_CHARS and text.count("\n") <= PASTE_LINES:
            return text
        placeholder = _("[pasted {n:,} characters]").format(n=len(text))
        number = 2
        while self.pastes.get(placeholder, text) != text:
            placeholder = _("[pasted {n:,} characters, {number}]").format(n=len(text), number=number)
            number += 1
        self.pastes[placeholder] = text
        return placeholder

    def submit(self) -> None:
        self._submit(self.expanded(self.text), self.text)

    def action_paste_picture(self) -> None:
        """Attach the picture in the clipboard; what was copied here is pasted where there is none."""
        self.post_message(self.PictureWanted())

    def action_newline(self) -> None:
        self.insert("\n")

    def action_cursor_up(self, select: bool = False) -> None:
        if not select and self.wrapped_document.location_to_offset(self.cursor_location).y == 0:
            self.action_older()
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move one line down; from the last one, to the input after."""
        last = self.wrapped_document.height - 1
        if not select and self.wrapped_document.location_to_offset(self.cursor_location).y >= last:
            self.action_newer()
        else:
            super().action_cursor_down(select)

    def action_undo_or_suspend(self) -> None:
        """Take the last change back; where there is none, do what the key does in a shell: `fg` comes back."""
        if self.history.undo_stack:
            self.undo()
        else:
            self.app.action_suspend_process()

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        """Delete for any key that takes something out; more than a character is kept for ctrl+y."""
        result = super()._delete_via_keyboard(start, end)
        if result is not None and len(result.replaced_text) > 1:
            self._cut = result.replaced_text
        return result

    def action_redo_or_yank(self) -> None:
        """Do again what was taken back; when nothing was, insert what a key cut out last."""
        if self.history.redo_stack:
            self.redo()
        elif self._cut:
            self.insert(self._cut)

    def action_older(self) -> None:
        text = self.inputs.older(self.text)
        if text is not None:
            self.take(text)

    def action_newer(self) -> None:
        text = self.inputs.newer()
        if text is not None:
            self.take(text)
