"""SKILL.md: what is read of it, and what is said of a wrong one, with the line."""

from __future__ import annotations

import pytest

from clawbot.extensions.manifest import ManifestError, Requires
from clawbot.skills.manifest import SkillManifest, SkillText, parse_skill


def parsed(head: str, body: str = "Body.", folder: str = "deploy") -> SkillText:
    return parse_skill(f"---\n{head}\n---\n{body}\n", folder, "/s/deploy/SKILL.md")


def test_the_form_of_the_field() -> None:
    head = (
        "name: deploy\ndescription: >\n  Deploys the site.\n  Use when asked to.\nlicense: MIT\n"
        "compatibility: Needs git\nallowed-tools: Read Bash(git:*)\ndisable-model-invocation: true\n"
        "user-invocable: false\nargument-hint: '[place]'\nversion: 1.2\n"
        "metadata:\n  name: other\n  openclaw: {always: true, requires: {anyBins: [rg, grep], env: TOKEN}}"
    )
    assert parsed(head).manifest == SkillManifest(
        name="deploy",
        description="Deploys the site. Use when asked to.",
        license="MIT",
        compatibility="Needs git",
        allowed_tools=("Read Bash(git:*)",),
        disable_model_invocation=True,
        user_invocable=False,
        requires=Requires(any_bins=("rg", "grep"), env=("TOKEN",)),
        always=True,
    )


def test_a_chinese_description_and_the_line_on_which_the_body_begins() -> None:
    text = parsed("description: 发布网站。当用户要求上线时使用。", "\n# 步骤\n一。")
    assert (text.manifest.name, text.manifest.description) == ("deploy", "发布网站。当用户要求上线时使用。")
    assert (text.body, text.first_line) == ("\n# 步骤\n一。", 4)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("description: x\nname: Deploy", "SKILL.md line 3: name: a name is made of"),
        ("name: de--ploy\ndescription: x", "line 2: name: a name is made of"),
        (f"name: {'a' * 65}\ndescription: x", "line 2: name: a name is made of"),
        ("description: x\nname: other", "line 3: name: a skill has the name of its folder, 'deploy', not 'other'"),
        ("name: deploy", "line 1: description: expected what the skill does"),
        ("name: deploy\ndescription: ' '", "line 3: description: expected what the skill does"),
        (f"description: {'字' * 1025}", "line 2: description: 1,025 characters; 1,024 are the most"),
        (f"description: x\ncompatibility: {'x' * 501}", "line 3: compatibility: more than 500"),
        ("description: [a, b]", "line 2: description: expected str, got list"),
        ("description: x\nallowed-tools: [1]", "line 3: allowed-tools: expected str, got int"),
        ("description: x\ndisable-model-invocation: 7", "line 3: disable-model-invocation: expected bool"),
        ("description: x\nname: [", "SKILL.md line 3: no YAML"),
        ("description: &a x\nlicense: *a", "SKILL.md line 3: an alias (*a) is not allowed here"),
    ],
)
def test_errors_name_the_file_the_line_and_the_key(head: str, said: str) -> None:
    with pytest.raises(ManifestError) as error:
        parsed(head)
    assert str(error.value).startswith("/s/deploy/SKILL.md")
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["", "# no head", "---\nname: deploy\n"])
def test_a_head_must_be_there_and_end(text: str) -> None:
    with pytest.raises(ManifestError, match=r"/s/deploy/SKILL\.md"):
        parse_skill(text, "deploy", "/s/deploy/SKILL.md")
