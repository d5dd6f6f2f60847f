"""What the command line chose, for the agent that it chose and for those that are changed to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clawbot.cli.chat import STARTED_AS, Choices, _chosen_for, _resume_command

CHOSEN: Choices = {
    "agent": None,
    "session": "proxy",
    "new": False,
    "model": "offline",
    "config_file": Path("/etc/clawbot.yaml"),
    "workspace": Path("/tmp/ws"),
    "mode": "plan",
}


def opened(agent_id: str, session_key: str) -> Any:
    status = SimpleNamespace(agent_id=agent_id, session_key=session_key)
    return SimpleNamespace(agent=SimpleNamespace(status=status))


def test_the_first_agent_has_all_that_was_chosen() -> None:
    assert _chosen_for(None, CHOSEN, []) is CHOSEN


def test_another_agent_has_a_session_and_a_workspace_of_its_own() -> None:
    chosen = _chosen_for("work", CHOSEN, [opened("main", "proxy")])
    assert chosen == {**CHOSEN, "agent": "work", "session": None, "workspace": None}


def test_back_at_the_first_agent_the_conversation_goes_on_where_it_was_left() -> None:
    chosen = _chosen_for("main", {**CHOSEN, "new": True}, [opened("main", "chat-3"), opened("work", "main")])
    assert chosen == {**CHOSEN, "agent": "main", "session": "chat-3"}


@pytest.mark.parametrize(
    ("agent_id", "session_key", "command"),
    [
        ("main", "main", "clawbot"),
        ("work", "main", "clawbot --agent work"),
        ("work", "端口", "clawbot --agent work --session 端口"),
    ],
)
def test_the_command_to_come_back_names_the_agent(agent_id: str, session_key: str, command: str) -> None:
    assert _resume_command(opened(agent_id, session_key)) == command


def test_what_make_began_is_come_back_to_by_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STARTED_AS, "make chat")
    assert _resume_command(opened("main", "main")) == "make chat"
    assert _resume_command(opened("main", "chat-3")) == "make chat ARGS='--session chat-3'"
