"""Sections of a summary: told in spite of how a model writes headings, shortened without losing them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.compaction.prompts import (
    ASKS,
    CONSTRAINTS,
    DECISIONS,
    GOAL,
    IDENTIFIERS,
    PROGRESS,
    REQUIRED,
    SECTIONS,
    TODOS,
    TURN,
    SummarySection,
    fit,
    known,
    parse,
    render,
)
from clawbot.llm.tokens import estimate_tokens


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("## Decisions", DECISIONS),
        ("#### decisions:", DECISIONS),
        ("## 3. Key Decisions", DECISIONS),
        ("**Decisions made**", DECISIONS),
        ("## **Decisions**", DECISIONS),
        ("## 决定", DECISIONS),
        ("Open To-Dos:", TODOS),
        ("# NEXT STEPS", TODOS),
        ("## Constraints & Preferences", CONSTRAINTS),
        ("## Constraints/Rules", CONSTRAINTS),
        ("2) **Pending user asks**:", ASKS),
        ("## Pending asks", ASKS),
        ("### Identifiers", IDENTIFIERS),
        ("## Goals ##", GOAL),
        ("## Turn Context (split turn)", TURN),
    ],
)
def test_a_heading_is_told_however_it_is_written(line: str, name: str) -> None:
    assert parse(f"{line}\n- x") == ("", [SummarySection(name, ("- x",))])


@pytest.mark.parametrize(
    "line", ["- Decisions", "the decisions:", "Decisions were hard.", "#hashtag", "> ## Decisions"]
)
def test_what_only_looks_like_one_is_text(line: str) -> None:
    assert parse(line) == (line, [])


def test_a_bold_heading_may_have_its_text_on_the_same_line() -> None:
    assert parse("**Goal:** ship it\n- **Decisions**: Postgres\nmore") == (
        "",
        [SummarySection(GOAL, ("ship it",)), SummarySection(DECISIONS, ("Postgres", "more"))],
    )


def test_deeper_headings_and_fences_are_text_of_their_section() -> None:
    text = "## Progress\n### Done\n- a\n```\n# Decisions\n```\n## Decisions\n- b\n## Notes\nc"
    assert parse(text) == (
        "",
        [
            SummarySection(PROGRESS, ("### Done", "- a", "```", "# Decisions", "```")),
            SummarySection(DECISIONS, ("- b",)),
            SummarySection("Notes", ("c",)),
        ],
    )


def test_sections_come_once_and_in_order() -> None:
    opening, sections = parse(
        "Sure!\n## Turn in progress\nt\n## Decisions\n- b\n## Notes\nn\n## Goal\ng\n## DECISIONS\n- c"
    )
    assert opening == "Sure!"
    assert [(section.title, section.times) for section in sections] == [
        (TURN, 1),
        (DECISIONS, 2),
        ("Notes", 1),
        (GOAL, 1),
    ]
    assert render(sections) == "## Goal\ng\n\n## Decisions\n- b\n- c\n\n## Notes\nn\n\n## Turn in progress\nt"


@pytest.mark.parametrize("name", [*SECTIONS, TURN])
def test_the_names_are_their_own_aliases(name: str) -> None:
    assert known(name) == name


def summary(lines: int) -> str:
    return render(
        SummarySection(name, tuple(f"- {name} {number} 决定用端口 {8000 + number}" for number in range(lines)))
        for name in SECTIONS
    )


def test_the_longest_sections_are_shortened_and_say_so() -> None:
    long = render(
        [SummarySection(GOAL, ("- ship",)), SummarySection(DECISIONS, tuple(f"- decision {n}" for n in range(200)))]
    )
    text = fit(long, 120, estimate_tokens)
    assert "## Goal\n- ship\n" in text
    assert "- [...]\n" in text
    assert "- decision 199" in text
    assert "- decision 0\n" not in text
    assert estimate_tokens(text) <= 120


def test_of_goal_and_rules_the_first_lines_stay() -> None:
    text = fit(render([SummarySection(CONSTRAINTS, tuple(f"- rule {n}" for n in range(200)))]), 100, estimate_tokens)
    assert "- rule 0\n" in text
    assert text.endswith("- [...]")


def test_what_fits_is_left_as_it_is() -> None:
    assert fit("anything at\n\nall", 100, estimate_tokens) == "anything at\n\nall"


@given(st.integers(0, 60), st.integers(140, 3_000))
def test_all_headings_stay_within_the_room(lines: int, most: int) -> None:
    text = fit(summary(lines), most, estimate_tokens)
    assert estimate_tokens(text) <= most
    assert {section.title for section in parse(text)[1]} >= set(REQUIRED)


@given(st.text(max_size=2_000), st.integers(0, 100))
def test_any_text_fits_in_the_end(text: str, most: int) -> None:
    assert estimate_tokens(fit(text, most, estimate_tokens)) <= most


def test_one_line_without_end_is_cut() -> None:
    text = fit(render([SummarySection(PROGRESS, ("x" * 50_000,))]), 200, estimate_tokens)
    assert text.startswith("## Progress\n")
    assert "xxx" in text
    assert estimate_tokens(text) <= 200
