"""The list of skills in the prompt: short paths, a budget in whole lines, the same text as long as no skill changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawbot.context.skill_list import form_notices, skill_notices, skills_section
from clawbot.extensions.manifest import Source
from clawbot.llm.tokens import weigh_tokens
from clawbot.skills.discovery import CHANGED, FoundSkill, SkillManifest

HOME = Path("/home/me")
WORKSPACE = Path("/work")


def skill(name: str, about: str = "Does it.", source: Source = "home", *, hidden: bool = False) -> FoundSkill:
    folder = WORKSPACE / "skills" / name if source == "workspace" else HOME / ".clawbot" / "skills" / name
    manifest = SkillManifest(name, about, disable_model_invocation=hidden)
    return FoundSkill(name, folder, source, manifest, enabled=True)


def section(*skills: FoundSkill, budget: int = 1000, near: Sequence[str] = ()) -> str:
    return skills_section(skills, WORKSPACE, HOME, budget, near)


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


def test_what_finds_no_room_is_named_and_no_line_is_cut() -> None:
    skills = [skill(f"skill-{at}", "说明" * 30) for at in range(9)]
    whole = section(*skills, budget=10_000).splitlines()
    room = sum(map(weigh_tokens, whole[-9:-5]))
    lines = section(*skills, budget=room).splitlines()
    described = [line for line in lines if line in whole[-9:]]
    assert 1 <= len(described) < 9
    named = ", ".join(f"skill-{at}" for at in range(len(described), 9))
    assert lines[-1] == f"Others, by name alone; `skills_search` says what each is for and where it is: {named}."
    assert sum(map(weigh_tokens, lines[-len(described) - 1 :])) <= room


def test_those_near_the_message_are_described_first() -> None:
    skills = [skill(f"skill-{at}", "说明" * 30) for at in range(9)]
    lines = section(*skills, budget=400, near=["skill-8", "skill-5"]).splitlines()
    assert [line for line in lines if line.startswith("- ")][-1].startswith("- skill-8: ")
    assert any(line.startswith("- skill-5: ") for line in lines)


def test_names_beyond_the_room_are_counted() -> None:
    skills = [skill(f"skill-with-a-long-name-{at}", "x" * 900) for at in range(200)]
    last = section(*skills, budget=300).splitlines()[-1]
    assert last.startswith("And ")
    assert last.endswith(" more, which find no room here: the user calls them with `/skill NAME`.")


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
        "The skill c changed since you enabled it,",
    ]
    assert form_notices(found) == ["The skill a can't be used: no YAML."]
    odd = SkillManifest("e", "x", odd=("line 2: name: other",))
    more = [FoundSkill("e", Path("/s/e"), "home", odd), FoundSkill("f", Path("/w/f"), "workspace", odd)]
    assert form_notices([*found, found[0], *more]) == [
        "2 skills can't be used. `clawbot skills check` lists them.",
        "1 skill has another form and is used as it is. `clawbot skills check` says which.",
    ]
