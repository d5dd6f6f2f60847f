"""Textual's terminal driver, extended to read early keys and to survive a terminal that disappears."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from codecs import getincrementaldecoder, register_error
from collections.abc import Iterable, Iterator
from io import StringIO
from selectors import EVENT_READ, SelectSelector
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO, cast

from textual._xterm_parser import _MAX_SEQUENCE_SEARCH_THRESHOLD, XTermParser
from textual.constants import ESCAPE_DELAY
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste
from textual.message import Message

from clawbot.text.sanitize import without_controls
from clawbot.tui.terminal import SavedTerminal

if TYPE_CHECKING:
    from textual.app import App

TICK = 0.1  # seconds between two checks whether what came in part is complete
READ = 4096  # bytes
LINE_BREAKS = ("\x1b\r", "\x1b\n")  # Alt+Enter of terminals that send Esc before a key; Textual reads it as Enter
# Keys as xterm's modifyOtherKeys and as kitty's protocol spell them. Textual returns no text for some that type it: for
# Shift+Space, and for those of the keypad.
_OTHER_KEY = re.compile(r"\x1b\[27;(\d{1,3});(\d{1,7})~")
_CODED_KEY = re.compile(r"\x1b\[(\d{1,7})(?:;(\d{1,3}))?u")
_SHIFT, _LOCKS = 1, 64 + 128
_KEYPAD = {57409: ".", 57410: "/", 57411: "*", 57412: "-", 57413: "+", 57415: "=", 57416: ","}
WORD_KEYS = ("\x1bb", "\x1bf")  # Alt with a letter, for which Textual returns the key that does the same
BYTES = "clawbot.c1"  # what becomes of a byte that is no UTF-8: the control character of 8 bits, or U+FFFD
PATIENCE = 2.0  # seconds of silence in which the rest of a paste or of an answer comes
MAX_PASTE = 2**24  # characters; a longer paste is delivered in parts

# How input is split: by ECMA-48, and with the F1 of the Linux console, the mouse of X10, that of xterm beyond the left
# edge, and the Shift+Delete of rxvt, which it doesn't allow. Only what begins like `_SURE` can't be Alt with a key.
_STRING = r"\x1b(?:\][\dlL]|P[\d!$+>|]|_G)[^\x00-\x1f\x7f\x9c]*"
_OTHER = r"\x1b[]PX^_][^\x00-\x1f\x7f\x9c]{0,200}"  # a string if its end comes at once
_C1 = {chr(0x80 + number): f"\x1b{chr(0x40 + number)}" for number in (0x10, 0x18, 0x1B, 0x1C, 0x1D, 0x1E, 0x1F)}
_SURE = re.compile(rf"{_STRING}|\x1b\[[0-?M]")
_TOKEN = re.compile(
    r"(?P<begin>\x1b\[200~)"
    rf"|(?P<answer>{_OTHER}(?:\x07|\x9c|\x1b\\)"
    rf"|{_STRING}(?:\x07|\x9c|\x1b\\|(?=[\x00-\x1a\x1c-\x1f\x7f]|\x1b[^\\]))"
    r"|\x1b\[(?!\d+\$)[0-?]+[ -/]*(?=[^ -~]))"
    rf"|(?P<held>(?:{_STRING}\x1b?|{_OTHER}\x1b?|\x1bO?"
    r"|\x1b\[(?!\d+\$)(?:M[^\x00-\x1f]{,2}|\[|<[-\d;]*|[0-?]*[ -/]*))\Z)"
    r"|(?P<key>\x1b\[(?:\[[A-E]|M[^\x00-\x1f]{3}|<[-\d;]*[mM]|\d+\$|(?![M[])[0-?]*[ -/]*[@-~])"
    r"|\x1bO?[^\x1b]|\x1b|[^\x1b])"
)
_PASTED = re.compile(r"(?P<end>\x1b\[201~)|(?P<held>\x1b(?:\[(?:2(?:0(?:1)?)?)?)?\Z)|(?P<text>\x1b|[^\x1b]+)")


def _decoded(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(chr(byte) if 0x80 <= byte < 0xA0 else "\ufffd" for byte in wrong), error.end


register_error(BYTES, _decoded)


class Writer:
    """The terminal as a file for one thread: writes after it has disappeared are dropped.

    An error would end that thread, and the screen would wait forever for room in its queue.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()


class AltKey(Key):
    """A key with Alt, or `apart`: Esc and a key in one read, which the terminal sends in the same way."""

    def __init__(self, key: Key, apart: list[Key]) -> None:
        super().__init__(key.key, key.character)
        self.apart = apart


class KeyParser(XTermParser):
    """Textual's parser (8.2.8 was read) for keys alone: a paste is text, whatever it holds, and answers of the terminal
    to others' questions are dropped."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._held = self._late = ""  # an incomplete sequence, and the last one that was taken for a key
        self._pasted, self._pasting, self._fed_at = StringIO(), False, 0.0

    def feed(self, data: str) -> Iterator[Message]:
        """Parse `data`; no data is a pause, not the end of the input."""
        text, at = self._continued(data) if data else "", 0
        while found := (_PASTED if self._pasting else _TOKEN).match(text, at):
            token, at = found.group(), found.end()
            match found.lastgroup:
                case "held":
                    self._held = token if len(token) < 1000 else token[:3] + token[-1]
                case "begin":
                    self._pasting = True
                case "text":
                    self._pasted.write(token)
                case "end":
                    self._pasting = False
                    yield self._take_paste()
                case "key" if token in _C1:
                    text, at = _C1[token] + text[at:], 0
                case "key":
                    yield from self._press(token)
        if self._pasted.tell() >= MAX_PASTE:
            yield self._take_paste()

    def _continued(self, data: str) -> str:
        silence, first = monotonic() - self._fed_at, _TOKEN.match(self._late + data)
        if first and silence < PATIENCE and first.lastgroup != "held" and _SURE.match(first.group()):
            self._held += self._late  # nobody types the rest of a sequence in one read
        if self._pasting and silence >= PATIENCE and first and first.group() == data:
            self._pasting, self._held = False, ""  # a single key: the end of the paste was lost
        held, self._held, self._late, self._fed_at = self._held, "", "", monotonic()
        return held + data

    @property
    def is_incomplete(self) -> bool:
        """Whether `tick` may deliver something."""
        return bool(self._pasted.tell() if self._pasting else self._held)

    def tick(self) -> Iterator[Message]:
        """After a silence, deliver what was pasted so far; drop half an answer, or take the begin of one for keys."""
        silence, is_sure = monotonic() - self._fed_at, _SURE.match(self._held)
        if self._pasting and silence >= PATIENCE and self._pasted.tell():
            yield self._take_paste()
        elif self._held and not self._pasting and silence >= (PATIENCE if is_sure else ESCAPE_DELAY):
            self._late, self._held = self._held, ""
            keys = () if is_sure or self._late == "\x1b[" else (self._late[:2], *self._late[2:])
            for key in keys:
                yield from self._press(key)

    def _take_paste(self) -> Paste:
        pasted, self._pasted = self._pasted.getvalue(), StringIO()
        return Paste(without_controls(pasted))

    def _press(self, token: str) -> Iterable[Message]:
        if len(token) > _MAX_SEQUENCE_SEARCH_THRESHOLD:  # such as a word of an input method
            return self._sequence_to_key_events(token)
        keys = list(super().feed(token))
        if self._timeout_time is not None:  # Textual doesn't know the sequence and waits for more
            self._timeout_time = 0.0
            reissued = list(super().tick())
            return [] if _SURE.match(token) else reissued
        return keys

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        if sequence in LINE_BREAKS:
            return [Key("alt+enter", None)]
        sequence = _OTHER_KEY.sub("\x1b[\\2;\\1u", sequence)
        parse, behind = super()._sequence_to_key_events, sequence if alt else sequence[1:]
        try:
            keys = list(parse(sequence, alt=alt))
        except (ValueError, OverflowError):  # of numbers that encode no character
            return []
        if keys and not keys[0].character and (coded := _CODED_KEY.fullmatch(sequence)):
            text, modifiers = chr(int(coded[1])).translate(_KEYPAD), int(coded[2] or 1) - 1
            if text.isprintable() and not modifiers & ~(_SHIFT | _LOCKS):
                return [Key(keys[0].key, text.upper() if modifiers & _SHIFT else text)]
        if behind.removeprefix("O")[1:] or not behind or not ((keys and keys[0].character) or sequence in WORD_KEYS):
            return keys
        return [AltKey(keys[0], [Key("escape", None), *(key for char in behind for key in parse(char))])]


class KeptDriver(LinuxDriver):
    """Reads the keys typed before it started, then those that follow, as long as there is a terminal."""

    kept = SavedTerminal()

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast("Any", Writer(sys.__stderr__ or sys.stderr))
        self._ended, self._end = os.pipe()  # ends the thread that reads keys, which waits without a time limit

    def disable_input(self) -> None:
        """End the thread that reads keys."""
        os.write(self._end, b"\n")
        super().disable_input()
        if self._key_thread is not None:
            self._key_thread.join()
        os.read(self._ended, 1)

    def run_input_thread(self) -> None:
        """Read keys until input is no longer wanted. A terminal that disappeared is reported by SIGHUP."""
        parser, decoder = KeyParser(self._debug), getincrementaldecoder("utf-8")(BYTES)
        typed = decoder.decode(self.kept.take())
        with SelectSelector() as selector:
            selector.register(self.fileno, EVENT_READ)
            selector.register(self._ended, EVENT_READ)
            while True:
                for message in (*parser.feed(typed), *parser.tick()):
                    self.process_message(message)
                typed = ""
                ready = {key.fd for key, _ in selector.select(TICK if parser.is_incomplete else None)}
                if self._ended in ready:
                    return
                if ready:
                    data = self._read()
                    if not data:
                        # The system only signals the leader of a session.
                        os.kill(os.getpid(), signal.SIGHUP)
                        return
                    typed = decoder.decode(data)

    def _read(self) -> bytes:
        """Return the typed bytes; empty if the terminal has disappeared: in raw mode there is no other end of input."""
        try:
            return os.read(self.fileno, READ)
        except OSError:
            return b""

    @property
    def _runs(self) -> bool:
        return self._key_thread is not None and self._key_thread.is_alive()

    def stop_application_mode(self) -> None:
        """Restore the original mode of the terminal, not the early mode that this class found."""
        if self.attrs_before is not None:
            self.attrs_before = self.kept.before
        super().stop_application_mode()

    def _sigtstp_application(self, *_: object) -> None:
        if self._runs:
            if os.getpgrp() == os.getsid(0):
                return  # no shell is there that could bring the leader of the session back
            self.suspend_application_mode()
            self._must_signal_resume = True
        # Not this process alone: `make`, or a script that started it, would keep the terminal, and no shell came.
        os.killpg(0, signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        if self._must_signal_resume:
            super()._sigcont_application()
        elif self._runs:
            self._loop.call_soon_threadsafe(self._restart)

    def _restart(self) -> None:
        """Take the terminal again: whoever stopped this program may have used it. Not if it has disappeared: the
        system sends SIGCONT with its SIGHUP, too."""
        if self._runs and os.isatty(self.fileno):
            self.suspend_application_mode()
            self._must_signal_resume = True
            self.resume_application_mode()


def driver_after(kept: SavedTerminal) -> type[Driver] | None:
    """Return the driver that continues after `kept`; None (Textual's own, for a browser) if there was no terminal."""
    if kept.before is None:
        from textual.drivers import web_driver

        vars(web_driver).update(XTermParser=KeyParser)
        return None
    return type("After", (KeptDriver,), {"kept": kept})
