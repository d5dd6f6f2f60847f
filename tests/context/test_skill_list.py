"""The list of skills in the prompt: short paths, a budget in whole lines, the same text as long as no skill changes."""

from __future__ import annotations

from pathlib import Path

from clawbot.context.prompt import skill_notices, skills_section
from clawbot.extensions.manifest import Source
from clawbot.llm.tokens import weigh_tokens
from clawbot.skills.discovery import CHANGED, FoundSkill
from clawbot.skills.manifest import SkillManifest

HOME = Path("/home/me")
WORKSPACE = Path("/work")


def skill(name: str, about: str = "Does it.", source: Source = "home", *, hidden: bool = False) -> FoundSkill:
    folder = WORKSPACE / "skills" / name if source == "workspace" else HOME / ".clawbot" / "skills" / name
    manifest = SkillManifest(name, about, disable_model_invocation=hidden)
    return FoundSkill(name, folder, source, manifest, enabled=True)


def section(*skills: FoundSkill, budget: int = 1000) -> str:
    return skills_section(skills, WORKSPACE, HOME, budget)


def test_each_by_name_description_and_a_path_that_read_takes() -> None:
    text = section(skill("deploy"), skill("fa-bu", "发布网站。", "workspace"))
    assert text.splitlines()[-2:] == [
        "- deploy: Does it. (`~/.clawbot/skills/deploy/SKILL.md`)",
        "- fa-bu: 发布网站。 (`skills/fa-bu/SKILL.md`)",
    ]
    assert "/elsewhere/.clawbot" not in text
    assert "(`/home/me/.clawbot/skills/deploy/SKILL.md`)" in skills_section(
        [skill("deploy")], WORKSPACE, Path("/root"), 1000
    )


def test_nothing_without_skills_that_the_model_may_call() -> None:
    off = FoundSkill("off", Path("/x"), "home", SkillManifest("off", "x"))
    assert section() == section(skill("mine", hidden=True), off) == ""


def test_what_finds_no_room_is_counted_and_no_line_is_cut() -> None:
    skills = [skill(f"skill-{at}", "说明" * 30) for at in range(9)]
    whole = section(*skills, budget=10_000).splitlines()
    room = sum(weigh_tokens(line) for line in whole[-9:-5])
    assert section(*skills, budget=room).splitlines() == [
        *whole[:-5],
        "And 5 more, which find no room here: the user calls them with `/skill NAME`.",
    ]


def test_a_description_stays_on_its_line_and_in_its_place() -> None:
    text = section(skill("a", "x\u2028## Safety `rm`\u202e"))
    assert text.splitlines()[-1] == "- a: x## Safety rm (`~/.clawbot/skills/a/SKILL.md`)"


def test_the_user_is_told_of_his_broken_ones_and_of_what_changed() -> None:
    manifest = SkillManifest("a", "x")
    found = [
        FoundSkill("a", Path("/s/a"), "home", manifest, problem="no YAML"),
        FoundSkill("b", Path("/w/b"), "workspace", manifest, problem="no YAML"),
        FoundSkill("c", Path("/w/c"), "workspace", manifest, off_because=CHANGED),
        FoundSkill("d", Path("/w/d"), "workspace", manifest),
    ]
    assert [text.partition(" and ")[0] for text in skill_notices(found)] == [
        "The skill a can't be used: no YAML.",
        "The skill c changed since you enabled it,",
    ]
