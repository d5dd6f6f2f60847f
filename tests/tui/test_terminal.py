"""The terminal around the screen: early keys count, its mode comes back; its title, progress and notices."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from selectors import SelectorKey, SelectSelector
from threading import Thread
from typing import Any, ClassVar

import pytest
from msgspec import structs
from textual.app import App
from textual.css.query import NoMatches
from textual.events import Key
from textual.message import Message

from clawbot.agent.events import ApprovalRequested, SessionTitled, ToolStarted
from clawbot.tui import driver
from clawbot.tui.app import ClawbotApp
from clawbot.tui.driver import TICK, KeptDriver, driver_after
from clawbot.tui.run import _run
from clawbot.tui.terminal import (
    BELL,
    BUSY,
    GIVE_TITLE_BACK,
    IDLE,
    KEEP_TITLE,
    MARK_PASTES,
    PLAIN_PASTES,
    Attention,
    Notify,
    SavedTerminal,
    notice_of,
    shows_progress,
    typing_kept,
)
from tests.tables import load_table
from tests.tui.chat_host import StepClock, chatting, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply


class Module:
    """Something that a weakref can watch."""


@dataclass
class Pty:
    """Both ends of a terminal; the program's end is stdin."""

    master: int
    slave: int

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def type_in_lines(self, text: str, *, echo: str) -> None:
        """Type, and read the echo up to its end: the line discipline has taken it then."""
        self.type(text)
        seen = b""
        while not seen.endswith(echo.encode()):
            seen += os.read(self.master, 1000)

    def told(self) -> bytes:
        """What was written or echoed and not read yet."""
        os.write(self.slave, b"|")
        seen = b""
        while not seen.endswith(b"|"):
            seen += os.read(self.master, 1000)
        return seen[:-1]


async def no_runtime(agent: str | None = None) -> Any:
    """A program that never gets further than its screen."""
    await asyncio.Event().wait()


@pytest.fixture
def pty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pty]:
    master, slave = os.openpty()
    with os.fdopen(slave, "rb", buffering=0) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield Pty(master, slave)
    os.close(master)


def test_keys_come_as_they_were_typed_and_are_not_echoed(pty: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = "你好\r\n\x03\x04\x1a\x11\x13\x16\x7f"
    before = pty.modes
    with open(pty.slave, "w", closefd=False) as stderr:
        # Not in the fixture: pytest puts its own stderr in the place of what was set up.
        monkeypatch.setattr(sys, "__stderr__", stderr)
        with typing_kept():
            pty.type(keys)
            assert os.read(pty.slave, 100) == keys.encode()
            assert pty.told() == MARK_PASTES.encode()
        assert pty.modes == before
        assert pty.told() == PLAIN_PASTES.encode()


def test_what_was_typed_in_line_mode_is_had_as_keys_once(pty: Pty) -> None:
    pty.type_in_lines("ax\x7f 你好\rrest\x04", echo="rest")
    with typing_kept() as kept:
        assert kept.take() == "a 你好\rrest\x04".encode()
        assert kept.take() == b""
        pty.type("\n")
        assert os.read(pty.slave, 100) == b"\n"


def test_keys_of_a_terminal_without_lines_stay_for_the_screen(pty: Pty) -> None:
    with typing_kept():
        pty.type("a\n")
        with typing_kept() as kept:
            assert kept.take() == b""
            assert os.read(pty.slave, 100) == b"a\n"


def test_the_terminal_can_be_given_back_earlier(pty: Pty) -> None:
    before = pty.modes
    with typing_kept() as kept:
        assert pty.modes != before
        kept.restore()
        assert pty.modes == before
        changed = pty.modes
        changed[3] &= ~termios.ECHO
        termios.tcsetattr(pty.slave, termios.TCSANOW, changed)
    assert pty.modes == changed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_end_from_outside_gives_the_terminal_back(number: signal.Signals, pty: Pty) -> None:
    before = pty.modes
    with pytest.raises(SystemExit) as ended, typing_kept():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number
    assert pty.modes == before
    assert signal.getsignal(number) is signal.SIG_DFL


def test_an_end_from_outside_that_python_drops_ends_the_program_nevertheless(
    pty: Pty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import runs many callbacks of weakrefs; what is raised in one of them goes nowhere."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    before, modules = pty.modes, [Module()]
    watch = weakref.ref(modules[0], lambda _: signal.raise_signal(signal.SIGHUP))

    def start() -> None:
        with typing_kept() as kept:
            modules.clear()
            assert watch() is None
            asyncio.run(_run(ClawbotApp(no_runtime), kept))

    with pytest.raises(SystemExit) as ended:
        start()
    assert ended.value.code == 128 + signal.SIGHUP
    assert pty.modes == before


def test_an_end_from_outside_that_python_wraps_keeps_its_exit_code(pty: Pty) -> None:
    """What comes out of `__set_name__` is a RuntimeError in Python 3.11, and the import of Textual runs many."""
    before = pty.modes

    def start() -> None:
        with typing_kept():
            try:
                signal.raise_signal(signal.SIGTERM)
            except SystemExit as end:
                raise RuntimeError from end

    with pytest.raises(SystemExit) as ended:
        start()
    assert ended.value.code == 128 + signal.SIGTERM
    assert pty.modes == before


async def test_what_is_missing_from_a_screen_that_is_ended_while_it_is_made_is_no_crash() -> None:
    app = ClawbotApp(no_runtime)
    async with app.run_test():
        app.end_by_signal(signal.SIGTERM)
        try:
            app.query_one("#not-there-yet")
        except NoMatches:
            app._fatal_error()
    assert (app.crash, app.ended_by) == (None, signal.SIGTERM)


def test_an_error_gives_the_terminal_back(pty: Pty) -> None:
    before = pty.modes
    with pytest.raises(ImportError), typing_kept():
        raise ImportError
    assert pty.modes == before


class CountedWaits(SelectSelector):
    """Records the time limit of each wait."""

    limits: ClassVar[list[float | None]] = []

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self.limits.append(timeout)
        return super().select(timeout)


async def test_a_terminal_at_rest_is_waited_for_without_a_time_limit(pty: Pty, monkeypatch: pytest.MonkeyPatch) -> None:
    tty.setraw(pty.slave)
    monkeypatch.setattr(sys, "__stdin__", sys.stdin)
    monkeypatch.setattr(driver, "SelectSelector", CountedWaits)
    monkeypatch.setattr(CountedWaits, "limits", [])
    reader, came = KeptDriver(App[None]()), SimpleQueue[Message]()
    monkeypatch.setattr(reader, "process_message", came.put)
    reader._key_thread = Thread(target=reader.run_input_thread)
    reader._key_thread.start()
    limits = []
    for typed, key in (("a", "a"), ("\x1b", "escape"), ("b", "b")):
        pty.type(typed)
        message = await asyncio.to_thread(came.get, timeout=10)
        assert isinstance(message, Key)
        assert message.key == key
        limits.append(set(CountedWaits.limits))
    reader.disable_input()
    assert not reader._key_thread.is_alive()
    assert limits == [{None}, {None, TICK}, {None, TICK}]
    assert CountedWaits.limits[-1] is None


def test_without_a_terminal_nothing_is_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with typing_kept() as kept:
            assert stdin.write(b"x") == 1
            assert kept.take() == b""


def test_the_usual_driver_is_used_where_there_was_no_terminal() -> None:
    assert driver_after(SavedTerminal()) is None


XTERM = {"TERM": "xterm-256color"}
GHOSTTY = {"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}


@pytest.mark.parametrize(
    ("environ", "sent"),
    [
        (XTERM, BELL),
        (GHOSTTY, f"{BELL}\x1b]9;done\a"),
        ({"TERM": "xterm-kitty"}, f"{BELL}\x1b]9;done\a"),
        ({"TERM": "foot"}, f"{BELL}\x1b]777;notify;clawbot;done\a"),
        ({**XTERM, "VTE_VERSION": "7200"}, f"{BELL}\x1b]777;notify;clawbot;done\a"),
        ({**GHOSTTY, "TMUX": "/tmp/tmux"}, BELL),
    ],
)
def test_a_call_is_what_the_terminal_understands(environ: dict[str, str], sent: str) -> None:
    assert notice_of("done", environ) == sent


def test_no_text_ends_a_sequence_or_begins_one() -> None:
    sent = notice_of("a\x1b]2;b\a;c\nd\x9c", {"TERM": "foot"})
    assert sent.count("\x1b") == 1
    assert sent.count("\a") == 2
    assert "\x9c" not in sent
    assert sent.count(";") == 3


def test_the_title_is_clean_kept_and_given_back() -> None:
    sent: list[str] = []
    attention = Attention(sent.append, XTERM, lambda: True)
    attention.show("ma\x1b]0;in\a", busy=False, asking=False)
    attention.show("ma\x1b]0;in\a", busy=False, asking=False)
    attention.show("main", busy=True, asking=False)
    attention.show("main", busy=True, asking=True)
    attention.leave()
    attention.leave()
    assert len(sent) == 4
    assert sent[0].startswith(KEEP_TITLE)
    assert sent[0].count("\x1b") == 2
    assert sent[1:] == ["\x1b]2;● clawbot · main\a", "\x1b]2;? clawbot · main\a", GIVE_TITLE_BACK]


def test_progress_is_for_terminals_that_have_it() -> None:
    sent: list[str] = []
    attention = Attention(sent.append, GHOSTTY, lambda: True)
    attention.show("main", busy=True, asking=False)
    attention.show("main", busy=False, asking=False)
    assert [each for each in sent if each in (BUSY, IDLE)] == [BUSY, IDLE]
    assert not shows_progress(XTERM)
    assert not shows_progress({**GHOSTTY, "TMUX": "x"})


@pytest.mark.parametrize("environ", [{}, {"TERM": "dumb"}])
def test_a_plain_terminal_gets_nothing(environ: dict[str, str]) -> None:
    sent: list[str] = []
    attention = Attention(sent.append, environ, lambda: False)
    attention.notify = "always"
    attention.show("main", busy=True, asking=True)
    attention.call("done")
    attention.leave()
    assert sent == []


@pytest.mark.parametrize(
    ("notify", "focused", "seconds", "status", "called"),
    load_table(__file__, "the_end_of_a_long_turn_calls_who_looks_elsewhere"),
)
def test_the_end_of_a_long_turn_calls_who_looks_elsewhere(
    notify: Notify, focused: bool, seconds: float, status: str, called: bool
) -> None:
    sent: list[str] = []
    attention = Attention(sent.append, XTERM, lambda: focused)
    attention.notify = notify
    attention.turn_ended(seconds, status)
    assert bool(sent) == called


async def test_a_question_and_a_long_turn_call(tmp_path: Path) -> None:
    asked = ApprovalRequested(
        request_id="r1", call_id="c1", tool="shell", command="make", folder="/tmp", pattern="make"
    )
    hold = Hold()
    started = ToolStarted(call_id="c1", name="shell", title="shell make")
    runtime = FakeRuntime(tmp_path, turns=[[started, asked, hold, *reply("done")]])
    sent: list[str] = []
    async with chatting(runtime) as (app, pilot):
        attention = app.chat.attention = Attention(sent.append, XTERM, lambda: False)
        attention.notify = "unfocused"
        await send(app, pilot, "make it")
        await until(pilot, lambda: BELL in sent)
        assert "\x1b]2;? clawbot · main\a" in "".join(sent)
        app.chat.approval.post_message(app.chat.approval.Answered("r1", "once"))
        await until(pilot, hold.reached.is_set)
        clock = app.chat.clock
        assert isinstance(clock, StepClock)
        clock.seconds += 60
        hold.release()
        await until(pilot, lambda: sent.count(BELL) == 2)
        await until(pilot, lambda: sent[-1] == "\x1b]2;clawbot · main\a" or sent[-2] == "\x1b]2;clawbot · main\a")


@pytest.mark.long
async def test_the_title_is_that_of_the_conversation_whoever_gave_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    sent: list[str] = []

    def last() -> str:
        return sent[-1].rpartition("\x1b]2;")[2].strip("\a") if sent else ""

    async with chatting(runtime) as (app, pilot):
        app.chat.attention = Attention(sent.append, XTERM, lambda: True)
        runtime.status = structs.replace(runtime.status, title="Trip to Rome")
        runtime.tell(SessionTitled(session_id=runtime.status.session_id, title="Trip to Rome"))
        await until(pilot, lambda: last() == "clawbot · Trip to Rome")
        await pilot.press("f1")
        await until(pilot, lambda: app.screen is not app.chat)
        runtime.status = structs.replace(runtime.status, title="护照续签")
        await pilot.press("escape")
        await until(pilot, lambda: last() == "clawbot · 护照续签")
        runtime.status = structs.replace(runtime.status, title="")
        await app.chat.reload()
        assert last() == "clawbot · main"
