"""A workspace with something in it, and a toolbox on it."""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import AgentSettings
from clawbot.messages import ToolCallBlock
from clawbot.tools.changing import AskedFiles
from clawbot.tools.paths import Fence
from clawbot.tools.protocol import AnyTool, ApprovalAnswer, ApprovalQuestion, ToolOutcome
from clawbot.tools.registry import Toolbox, build_toolbox
from clawbot.tools.seen import Views

Run = Callable[..., Awaitable[ToolOutcome]]
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Memory\n- prefers tabs\n", encoding="utf-8")
    (folder / "memory" / "2026-11-20.md").write_text("proxy moved to 8443\n", encoding="utf-8")
    return folder


@pytest.fixture
def all_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model has seen what the workspace holds, so that `write` may replace it."""
    monkeypatch.setattr(Views, "has_seen", lambda *_: True)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture
def toolbox(workspace: Path) -> Toolbox:
    return box_of(workspace, AgentSettings())


def box_of(
    workspace: Path,
    settings: AgentSettings,
    extra: Sequence[AnyTool] = (),
    *,
    fence: Fence | None = None,
    asked: AskedFiles | None = None,
) -> Toolbox:
    """The tools of an agent with `settings`, in the home of the test."""
    return build_toolbox(workspace, settings, SystemClock(), Paths(find_home()), extra, fence=fence, asked=asked)


class User:
    """Gives the `answers` in turn, the last one again and again; `before` is called when a question comes."""

    def __init__(self, *answers: ApprovalAnswer, before: Callable[[], object] = lambda: None) -> None:
        self.answers = list(answers)
        self.asked: list[ApprovalQuestion] = []
        self._before = before

    async def __call__(self, question: ApprovalQuestion) -> ApprovalAnswer:
        self.asked.append(question)
        self._before()
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def nobody(question: ApprovalQuestion) -> ApprovalAnswer:
    raise AssertionError(f"nobody expected to be asked: {question}")


def call(name: str, arguments: dict[str, Any] | None = None, malformed: str | None = None) -> ToolCallBlock:
    return ToolCallBlock("c1", name, arguments or {}, malformed)


@pytest.fixture
def run(toolbox: Toolbox) -> Run:
    async def _run(name: str, **arguments: Any) -> ToolOutcome:
        return await toolbox.run(call(name, arguments), nobody)

    return _run


def names(folder: Path) -> list[str]:
    """What lies in `folder`."""
    return sorted(path.name for path in folder.iterdir())


def move(source: Path, target: Path) -> None:
    """Rename, for tests that are coroutines."""
    source.rename(target)


def link(path: Path, target: Path | str) -> None:
    """Make a symlink, for tests that are coroutines."""
    path.symlink_to(target)
