"""The strategy that compacts: the builtin one, and those of packages, which can break nothing but themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from pydantic import ValidationError

from clawbot.agent.agent import Agent
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import CompactionFinished, MessageFinished, Notice
from clawbot.agent.summary import BuiltinCompaction, PackagedCompaction, open_compaction
from clawbot.config.schema_agent import AgentSettings
from tests.agent.gate_host import House, PurposeModel, compactions, ended, fill, offers, talk
from tests.packages import install

GROUP = "clawbot.compactions"
KEEP_TWO = """
from clawbot.context.compaction import Cut

class Compaction:
    def plan(self, situation):
        return Cut({at}) if len(situation.items) > {at} else None

    async def summarise(self, job, model, cancel, progress):
        {body}
"""


def offered(site: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> str:
    """A package of that name offers what `source` makes; returns the name of the strategy."""
    install(site / name, name, f"[{GROUP}]\n{name} = {name}:Compaction\n", source)
    monkeypatch.syspath_prepend(site / name)
    return name


async def open_with(house: House, name: str, model: PurposeModel) -> Agent:
    plain = house.open(model)
    strategy, problem = open_compaction(name)
    assert problem == ""
    plain.conversation.session.close()
    deps = structs.replace(plain.deps, rules=structs.replace(plain.deps.rules, compaction=strategy))
    return Agent(deps, Conversation(deps.store, deps.store.open("main"), deps.clock))


async def test_a_package_decides_the_cut_and_what_stands_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = KEEP_TWO.format(at=2, body="return f'{len(job.items)} texts, sk-abcdef0123456789abcdef'")
    name = offered(tmp_path, monkeypatch, "acme_short", source)
    agent = await open_with(House(tmp_path), name, PurposeModel())
    await fill(agent, 3, 60)
    [finished] = [event for event in await talk(agent, "/compact") if isinstance(event, CompactionFinished)]
    assert finished.status == "done"
    assert finished.summary.startswith("2 texts, ")
    assert "abcdef0123456789" not in finished.summary
    assert [entry["summary"] for entry in compactions(agent)] == [finished.summary]
    assert [offer.exit for offer in offers(agent)] == ["manual"]  # memory is offered first, whatever the strategy
    await agent.close()


@pytest.mark.parametrize(
    ("package", "at", "body"),
    [("acme_raises", 2, "raise KeyError('sk-secret')"), ("acme_index", 99, "return ''"), ("acme_zero", 0, "return ''")],
)
async def test_one_that_breaks_is_named_and_the_talk_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, at: int, body: str
) -> None:
    source = KEEP_TWO.format(at=at, body=body).replace("if len(situation.items) > 99 else None", "")
    name = offered(tmp_path, monkeypatch, package, source)
    agent = await open_with(House(tmp_path), name, PurposeModel())
    events = await fill(agent, 8, 600)
    told = [event.text for event in events if isinstance(event, Notice)]
    told += [event.error for event in events if isinstance(event, CompactionFinished)]
    assert any(f"The compaction {name} failed: " in text for text in told)
    assert not any("sk-secret" in text for text in told)
    assert len([event for event in events if isinstance(event, MessageFinished)]) == 8
    assert (ended(events).status, compactions(agent)) == ("done", [])
    await agent.close()


@pytest.mark.parametrize(
    ("package", "source", "reason"),
    [
        ("acme_empty", "", "AttributeError"),
        ("acme_half", "class Compaction:\n    plan = None\n", "without `plan`"),
        ("acme_exits", "raise SystemExit(3)", "SystemExit"),
    ],
)
def test_what_can_not_be_loaded_leaves_the_builtin_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, source: str, reason: str
) -> None:
    strategy, problem = open_compaction(offered(tmp_path, monkeypatch, package, source))
    assert isinstance(strategy, BuiltinCompaction)
    assert "The builtin compaction is used: " in problem
    assert reason in problem


def test_the_setting_takes_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = offered(tmp_path, monkeypatch, "acme_named", KEEP_TWO.format(at=2, body="return ''"))
    settings = AgentSettings.model_validate({"compaction": {"strategy": name}})
    assert isinstance(open_compaction(settings.compaction.strategy)[0], PackagedCompaction)
    assert AgentSettings().compaction.strategy == "builtin"
    with pytest.raises(ValidationError, match="builtin, acme_named"):
        AgentSettings.model_validate({"compaction": {"strategy": "gone"}})
