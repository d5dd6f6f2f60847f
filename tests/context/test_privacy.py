"""One table of what each kind of session may know, and which key is of which kind."""

from __future__ import annotations

import pytest

from clawbot.context.privacy import privacy_of

MAIN = "agent:main:main"
GROUP = "agent:main:telegram:group:12"
CRON = "agent:main:cron:daily"
SUB = "agent:main:subagent:2b1c"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (MAIN, "main"),
        ("agent:main:work", "main"),
        ("agent:main:main-20261121-0216", "main"),
        ("agent:topic:main", "main"),
        ("agent:cron:main", "main"),
        ("agent:main:group", "main"),
        ("agent:main:工作", "main"),
        ("agent:main:telegram:direct:12", "main"),
        ("", "main"),
        (GROUP, "group"),
        ("agent:main:telegram:GROUP:12:topic:3", "group"),
        ("agent:main:discord:channel:9", "group"),
        ("agent:main:slack:channel:9:thread:1", "group"),
        (CRON, "scheduled"),
        ("agent:main:hook:2b1c", "scheduled"),
        ("hook:2b1c", "scheduled"),
        (SUB, "sub"),
        ("agent:main:acp:2b1c", "sub"),
        ("agent:main:cron:daily:subagent:1", "sub"),
        ("agent:main:cron:telegram:group:1", "group"),
    ],
)
def test_the_kind_is_told_by_the_key(key: str, kind: str) -> None:
    """Reference sheet 1.7, BUG: groups and channels received MEMORY.md."""
    assert privacy_of(key).kind == kind


@pytest.mark.parametrize(
    ("key", "files"),
    [
        (MAIN, "AGENTS.md SOUL.md IDENTITY.md USER.md TOOLS.md BOOTSTRAP.md MEMORY.md memory.md"),
        (GROUP, "AGENTS.md SOUL.md IDENTITY.md TOOLS.md"),
        (CRON, "AGENTS.md SOUL.md IDENTITY.md USER.md TOOLS.md"),
        (SUB, "AGENTS.md TOOLS.md"),
    ],
)
def test_files_of_the_prompt(key: str, files: str) -> None:
    known = privacy_of(MAIN).bootstrap
    names = [name for name in (*known, "MEMORY.md", "memory.md") if privacy_of(key).injects(name)]
    assert names == files.split()


@pytest.mark.parametrize(("key", "allowed"), [(MAIN, True), (GROUP, False), (CRON, False), (SUB, False)])
def test_transcripts_citations_and_first_notes_are_for_the_user_alone(key: str, allowed: bool) -> None:
    privacy = privacy_of(key)
    assert [privacy.transcripts, privacy.citations, privacy.startup_notes] == [allowed] * 3


@pytest.mark.parametrize(("key", "allowed"), [(MAIN, True), (GROUP, False), (CRON, True), (SUB, False)])
def test_notes_are_within_reach_of_all_tools_or_of_none(key: str, allowed: bool) -> None:
    privacy = privacy_of(key)
    assert privacy.offers(frozenset({"notes"}), narrows=False) is allowed
    assert privacy.hides(("memory", "2026-11-20.md")) is privacy.hides(("user.md",)) is not allowed
    assert not privacy.hides(("docs", "MEMORY.md"))
    assert not privacy.hides(())


@pytest.mark.parametrize(
    ("needs", "narrows", "kinds"),
    [
        (set(), False, "main group scheduled sub"),
        ({"notes"}, False, "main scheduled"),
        ({"transcripts"}, True, "main"),
        ({"files"}, True, "main group scheduled sub"),
        ({"files"}, False, "main scheduled"),
        ({"files", "shell"}, False, "main scheduled"),
        ({"files", "notes"}, True, "main scheduled"),
        ({"network"}, True, "main"),
        (None, True, "main"),
        (None, False, "main"),
    ],
)
def test_a_tool_is_offered_where_all_that_it_needs_may_be_known(
    needs: set[str] | None, narrows: bool, kinds: str
) -> None:
    asked = None if needs is None else frozenset(needs)
    policies = [privacy_of(key) for key in (MAIN, GROUP, CRON, SUB)]
    assert [one.kind for one in policies if one.offers(asked, narrows=narrows)] == kinds.split()


def test_a_file_further_down_is_judged_by_its_name() -> None:
    assert privacy_of(SUB).injects("packages/a/AGENTS.md")
    assert not privacy_of(GROUP).injects("packages/a/MEMORY.md")
    assert not privacy_of(GROUP).injects("notes.md")
    assert privacy_of(MAIN).injects("docs/conventions.md")
