"""A model that lies: whatever it answers, nothing passes the rules that its sources don't state."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.plugins.dreaming.dream import DreamOutcome, context_of, dream
from tests.agent.fakes import says
from tests.clocks import StillClock

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
NOW = datetime(2026, 3, 10, 22, tzinfo=UTC)


class Liar:
    """Answers each call with the same text."""

    info = ModelInfo(ref="fake/liar", window=32_000)

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        self.calls += 1
        for part in says(self.text):
            yield part

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the notes of the table."""
    memory = tmp_path / "workspace/memory"
    memory.mkdir(parents=True)
    (memory.parent / "MEMORY.md").write_text("\n".join([*TABLE["memory"], ""]), "utf-8")
    for day, lines in TABLE["notes"].items():
        text = "".join(f"- {line}\n" for line in lines)
        (memory / f"{day}.md").write_text(f"# {day}\n\n{text}", "utf-8")
    (tmp_path / "elsewhere.md").write_text("- Anna likes tea\n", "utf-8")
    (memory / "linked.md").symlink_to(tmp_path / "elsewhere.md")
    return tmp_path


async def dream_of(home: Path, model: Liar) -> DreamOutcome:
    agents = {"defaults": {"workspace": str(home / "workspace")}}
    settings = Settings.model_validate({"agents": agents})
    return await dream(context_of(settings, Paths(home), "main", StillClock(NOW), model))


def answer_of(case: dict[str, Any]) -> str:
    proposal = {**TABLE["base"], **{key: value for key, value in case.items() if key != "name"}}
    return f"Here it is:\n```json\n{json.dumps({'proposals': [proposal]})}\n```\nThat is all."


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in TABLE["honest"]])
async def test_what_a_source_states_passes(home: Path, case: dict[str, Any]) -> None:
    outcome = await dream_of(home, Liar(answer_of(case)))
    assert len(outcome.pending) == 1, outcome.refused


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in TABLE["lie"]])
async def test_a_lie_is_refused(home: Path, case: dict[str, Any]) -> None:
    outcome = await dream_of(home, Liar(answer_of(case)))
    assert outcome.pending == ()
    assert [each.reason for each in outcome.refused if each.reason]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in TABLE["answer"]])
async def test_an_answer_of_another_form_is_asked_for_once_more_and_refused(home: Path, case: dict[str, Any]) -> None:
    model = Liar(case["text"] * case.get("times", 1))
    outcome = await dream_of(home, model)
    assert (outcome.pending, model.calls, len(outcome.refused)) == ((), 2, 1)


async def test_an_answer_has_so_many_proposals_at_most_and_each_idea_once(home: Path) -> None:
    proposals = [{**TABLE["base"], "reason": f"For the reason {number}"} for number in range(1_000)]
    outcome = await dream_of(home, Liar(json.dumps({"proposals": proposals})))
    assert len(outcome.pending) == 1
    assert len(outcome.refused) == 40
