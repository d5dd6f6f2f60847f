"""The title, the progress and the calls that a terminal gets, and those that it never gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from clawbot.agent.events import ApprovalRequested, SessionTitled, ToolStarted
from clawbot.tui.terminal import (
    BELL,
    BUSY,
    GIVE_TITLE_BACK,
    IDLE,
    KEEP_TITLE,
    Attention,
    Notify,
    notice_of,
    shows_progress,
)
from tests.tui.chat_host import StepClock, chatting, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply

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
    [
        ("always", True, 60, "done", True),
        ("always", True, 2, "done", False),
        ("always", True, 60, "interrupted", False),
        ("unfocused", True, 60, "done", False),
        ("unfocused", False, 60, "failed", True),
        ("off", False, 60, "done", False),
    ],
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
