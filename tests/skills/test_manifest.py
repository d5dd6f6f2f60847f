"""SKILL.md: what is read of it, and what is said of a wrong one, with the line."""

from __future__ import annotations

import pytest

from clawbot.extensions.manifest import ManifestError, Requires
from clawbot.skills.discovery import SkillManifest, SkillText, parse_skill


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
        ("name: deploy", "line 1: description: expected what the skill does"),
        ("name: deploy\ndescription: ' '", "line 3: description: expected what the skill does"),
        ("description: [a, b]", "line 2: description: expected what the skill does"),
        ("{{{", "line 1: description: expected what the skill does"),
    ],
)
def test_errors_name_the_file_the_line_and_the_key(head: str, said: str) -> None:
    with pytest.raises(ManifestError) as error:
        parsed(head)
    assert str(error.value).startswith("/s/deploy/SKILL.md")
    assert said in str(error.value)


# Heads in the forms of other programs: what is told of each, and its description.
ODD = {
    "description: x\nname: Deploy": ("line 3: name: 'Deploy' is called deploy, as its folder", "x"),
    "name: other\ndescription: x": ("line 2: name: 'other' is called deploy", "x"),
    f"name: {'a' * 65}\ndescription: x": ("line 2: name: ", "x"),
    f"description: {'字' * 1025}": ("line 2: description: 1,025 characters, cut to 1,024", f"{'字' * 1023}…"),
    "description: x\nallowed-tools: [1]": ("line 3: allowed-tools: expected str, got int", "x"),
    "description: x\nrequires: gh": ("line 3: requires: expected mapping, got str", "x"),
    "description: Use when: asked\nlicense: MIT": (
        "line 2: no YAML: mapping values are not allowed",
        "Use when: asked",
    ),
    "description: >\n  Does: it.\n  All.\nallowed-tools: *": ("no YAML", "Does: it. All."),
    "description: &a x\nlicense: *a": ("line 3: an alias (*a) is not allowed here", "&a x"),
    "description: 部署: 网站\nname: deploy": ("no YAML", "部署: 网站"),
}


@pytest.mark.parametrize("head", ODD)
def test_another_form_is_used_as_it_is_and_told(head: str) -> None:
    told, description = ODD[head]
    manifest = parsed(head).manifest
    assert (manifest.name, manifest.description) == ("deploy", description)
    (odd,) = manifest.odd
    assert told in odd


@pytest.mark.parametrize("value", ["7", "'perhaps'", "[yes]", "true: x", "'true'", "yes"])
def test_a_skill_of_the_user_alone_stays_one_whatever_the_form(value: str) -> None:
    assert parsed(f"description: x\ndisable-model-invocation: {value}").manifest.disable_model_invocation


@pytest.mark.parametrize("folder", ["self-improving-agent-1.0.11", "My_Skill", "写作", "a+b", "pdf"])
def test_the_name_is_that_of_the_folder(folder: str) -> None:
    assert parsed("name: other\ndescription: x", folder=folder).manifest.name == folder


@pytest.mark.parametrize("folder", ["two words", "a\nb", "a`b", "x" * 65, "a/b"])
def test_a_folder_that_can_t_be_named_is_no_skill(folder: str) -> None:
    with pytest.raises(ManifestError, match="is no name for a skill"):
        parsed("description: x", folder=folder)


@pytest.mark.parametrize("text", ["", "# no head", "---\nname: deploy\n"])
def test_a_head_must_be_there_and_end(text: str) -> None:
    with pytest.raises(ManifestError, match=r"/s/deploy/SKILL\.md"):
        parse_skill(text, "deploy", "/s/deploy/SKILL.md")
