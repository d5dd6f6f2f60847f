"""Which skills are near a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.skills.discovery import FoundSkill, SkillManifest
from clawbot.tools.skills import SkillsSearchTool, _words_of_skill, nearest_skills
from tests.tables import load_table
from tests.tools.conftest import TABLES

SKILLS = load_table(__file__, "SKILLS")


def found() -> list[FoundSkill]:
    manifests = [
        SkillManifest(name, about, disable_model_invocation=name == "hidden") for name, about in SKILLS.items()
    ]
    return [FoundSkill(each.name, Path("/s") / each.name, "home", each, enabled=True) for each in manifests]


@pytest.mark.parametrize(("said", "name"), TABLES["nearest_skills"])
def test_the_nearest_shares_the_rarest_words(said: str, name: str) -> None:
    assert nearest_skills(found(), said)[0].name == name


@pytest.mark.parametrize("said", ["", "hm", "好", "???"])
def test_nothing_is_near_to_nothing(said: str) -> None:
    assert nearest_skills(found(), said) == []


async def test_the_model_finds_what_a_name_is_for() -> None:
    tool = SkillsSearchTool(found, lambda skill: f"`{skill.entry}`")
    outcome = await tool.run({"query": "weather"})
    assert outcome.text == "- weather: Tells the weather of a city. (`/s/weather/SKILL.md`)"
    assert (await tool.run({"query": "never shown hidden"})).text == "No skill has these words."


def test_what_was_said_is_not_kept() -> None:
    kept = []
    for number in (0, 1):
        assert nearest_skills(found(), f"merge the forms of case {number}, then the weather")
        kept.append(_words_of_skill.cache_info().currsize)
    assert kept[0] == kept[1]
