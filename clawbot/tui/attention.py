"""What a terminal shows around the screen: its title, the progress of a turn, and a call for who looks elsewhere.

Nothing is sent to what is no terminal, or to a plain one (`TERM=dumb`). Sequences that a terminal might show as text,
or take for something else, are sent only to those that are known to have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line

Notify = Literal["off", "unfocused", "always"]

LONG_TURN = 15.0  # seconds after which nobody is expected to have watched
TITLE_CHARS = 80
BELL = "\a"
KEEP_TITLE, GIVE_TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"
BUSY, IDLE = "\x1b]9;4;3\a", "\x1b]9;4;0\a"


def notice_of(text: str, environ: Mapping[str, str]) -> str:
    """The sequences that call for attention with `text`: a bell, and where the terminal has them a notice of OSC 9 or
    OSC 777. Inside tmux the bell alone arrives."""
    text = clean_line(text)[:TITLE_CHARS]
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if "TMUX" in environ:
        return BELL
    if program in ("iTerm.app", "ghostty", "WezTerm") or term == "xterm-kitty":
        return f"{BELL}\x1b]9;{text}\a"
    if "VTE_VERSION" in environ or term.startswith(("rxvt", "foot")):
        return f"{BELL}\x1b]777;notify;clawbot;{text.replace(';', ',')}\a"
    return BELL


def shows_progress(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has the progress of OSC 9;4; others may take it for a notice that says `4;3`."""
    known = environ.get("TERM_PROGRAM", "") in ("ghostty", "WezTerm") or environ.get("ConEmuANSI") == "ON"
    return "TMUX" not in environ and (known or "WT_SESSION" in environ)


class Attention:
    """Tells the terminal by `write`, None where there is none to tell. `focused` says whether the user looks at it, as
    far as the terminal reports that. `notify` is the setting, off until it is read."""

    def __init__(
        self, write: Callable[[str], None] | None, environ: Mapping[str, str], focused: Callable[[], bool]
    ) -> None:
        self._write = write if environ.get("TERM", "") not in ("", "dumb") else None
        self._environ = environ
        self._focused = focused
        self._title = ""
        self._busy = False
        self.notify: Notify = "off"

    def show(self, place: str, *, busy: bool, asking: bool) -> None:
        """`place`, the conversation, and how it stands: in the title, and as progress."""
        if self._write is None:
            return
        mark = "? " if asking else "● " if busy else ""
        title = clean_line(f"{mark}clawbot · {place}")[:TITLE_CHARS]
        if title != self._title:
            self._write(f"{'' if self._title else KEEP_TITLE}\x1b]2;{title}\a")
            self._title = title
        if busy != self._busy:
            self._busy = busy
            if shows_progress(self._environ):
                self._write(BUSY if busy else IDLE)

    def call(self, text: str) -> None:
        """Call the user, as the settings want it."""
        if self._write is not None and (
            self.notify == "always" or (self.notify == "unfocused" and not self._focused())
        ):
            self._write(notice_of(text, self._environ))

    def turn_ended(self, seconds: float, status: str) -> None:
        """A turn of so many `seconds` is over: who waited for it is called if it was long."""
        if seconds >= LONG_TURN and status != "interrupted":
            self.call(_("The answer is there.") if status == "done" else _("The turn failed."))

    def leave(self) -> None:
        """The screen ends: the terminal gets its title back."""
        if self._write is not None and self._title:
            self._write(f"{IDLE if self._busy and shows_progress(self._environ) else ''}{GIVE_TITLE_BACK}")
            self._title = ""
