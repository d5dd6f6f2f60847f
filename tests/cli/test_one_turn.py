"""What one turn prints beside the answer is one line of plain words."""

from __future__ import annotations

import sys

import pytest

from clawbot.agent.events import Event, MessageFinished, ModelLoading, ModelRetry, Notice, TextDelta, TurnEnded
from clawbot.cli.one_turn import _Printer
from clawbot.cli.output import CLEAR, CUT_OFF

STEERING = "备份 failed\x1b]0;owned\x07\x1b[2J\nagain"


@pytest.mark.parametrize(
    "event", [Notice(level="warning", text=STEERING), TurnEnded(status="failed", error=STEERING, hint="Look.")]
)
def test_what_is_told_beside_the_answer_steers_no_terminal(event: Event, capsys: pytest.CaptureFixture[str]) -> None:
    _Printer().take(event)
    told = capsys.readouterr().err
    assert told.startswith("clawbot: 备份 failed")
    assert told.endswith("\n")
    assert told[:-1].isprintable()


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([MessageFinished(entry_id="1", text="Half", stop_reason="length")], f"clawbot: {CUT_OFF}\n"),
        ([MessageFinished(entry_id="1", text="Whole", stop_reason="stop")], ""),
        (
            [
                MessageFinished(entry_id="1", text="Half", stop_reason="length"),
                MessageFinished(entry_id="2", text="Whole", stop_reason="stop"),
            ],
            "",
        ),
    ],
)
def test_an_answer_that_was_cut_off_is_marked(
    events: list[Event], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printer = _Printer()
    for event in [*events, TurnEnded(status="done")]:
        printer.take(event)
    assert capsys.readouterr().err == told


@pytest.mark.parametrize("terminal", [True, False])
def test_a_model_that_loads_is_told_and_on_a_terminal_the_line_goes(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    printer = _Printer()
    printer.take(ModelLoading(model="小模型"))
    told = capsys.readouterr().err
    assert told.removeprefix(CLEAR) == ("clawbot: loading 小模型 ..." if terminal else "clawbot: loading 小模型 ...\n")
    printer.take(ModelLoading(model="小模型", done=True))
    printer.take(TextDelta(text="hello"))
    assert capsys.readouterr().err == (CLEAR if terminal else "")


def test_a_short_wait_is_no_wait_of_zero_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    _Printer().take(ModelRetry(attempt=2, wait=0.25, reason="Overloaded (overloaded_error)."))
    assert capsys.readouterr().err == "clawbot: Overloaded (overloaded_error). Trying again in 1 s.\n"
