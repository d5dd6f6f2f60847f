"""The whole program in a home of its own: what its model answers, what its clock says, what somebody says to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from clawbot import services
from clawbot.agent.events import Event, TextDelta, TurnEnded
from clawbot.config.paths import Paths, find_home
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.gate_host import PurposeModel
from tests.clocks import StillClock


def use_models(monkeypatch: pytest.MonkeyPatch, model_of: Callable[[str], ChatModel]) -> None:
    """Let the program open `model_of` whatever reference it asks for."""

    async def open_model(ref: str, *_: Any, **__: Any) -> ChatModel:
        return model_of(ref)

    monkeypatch.setattr(services, "open_model", open_model)


class Home:
    """The state folder, in which somebody lives already, so that the ritual of the first start is over; its `clock`,
    and the `model` that answers whatever is asked, which a test may exchange."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, evening: datetime, config: dict[str, Any], window: int = 200_000
    ) -> None:
        self.folder = find_home()
        self.paths = Paths(self.folder)
        self.workspace = self.folder / "workspace"
        self.memory = self.workspace / "memory"
        self.memory.mkdir(parents=True)
        self.clock = StillClock(evening)
        self.model = PurposeModel()
        self.config = config
        self.configure()

        def model_of(ref: str) -> PurposeModel:
            self.model.info = ModelInfo(ref=ref, window=window)
            return self.model

        use_models(monkeypatch, model_of)
        monkeypatch.setattr(services, "SystemClock", lambda _zone: self.clock)

    def configure(self, **changes: Any) -> None:
        """Write the settings, these over those that the home began with."""
        self.paths.config_file.write_text(json.dumps({**self.config, **changes}), encoding="utf-8")

    def write_hook(self, name: str, handler: str, *topics: str) -> None:
        """Put a hook of the user's into the home."""
        folder = self.folder / "hooks" / name
        folder.mkdir(parents=True)
        head = f"name: {name}\ndescription: of a test\nevents: {json.dumps(topics)}\norder: 5"
        (folder / "HOOK.md").write_text(f"---\n{head}\n---\n", encoding="utf-8")
        (folder / "handler.py").write_text(handler, encoding="utf-8")

    async def open(self, session: str = "main") -> Runtime:
        """Start the program where nobody can be asked."""
        return await Runtime.open(RuntimeOptions(session=session).unattended())


async def say(runtime: Runtime, text: str) -> list[Event]:
    """What comes of the message `text`, whose turn must succeed."""
    events = [event async for event in runtime.agent.submit(text)]
    last = events[-1]
    assert isinstance(last, TurnEnded)
    assert last.status == "done", last.error
    return events


async def reply_of(runtime: Runtime, text: str) -> str:
    """The reply to `text`, which must come."""
    return "".join(event.text for event in await say(runtime, text) if isinstance(event, TextDelta))
