"""What one turn prints beside the answer is one line of plain words."""

from __future__ import annotations

import pytest

from clawbot.agent.events import Event, Notice, TurnEnded
from clawbot.cli.one_turn import _Printer

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
