"""What an answer says of the lines that a result stands for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest

from clawbot.clock import and_more
from clawbot.memory.values import Hit, SearchResult
from clawbot.text.copies import More
from clawbot.text.interface import InterfaceLanguage, set_language
from clawbot.tools.memory_output import fit, results_data, results_text

TENTH, LAST = date(2026, 1, 10), date(2026, 2, 28)


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    set_language("en")


@pytest.mark.parametrize(
    ("more", "english", "chinese"),
    [
        (More(23, TENTH, LAST), "and 23 more, 10 Jan to 28 Feb", "还有 23 条，1月10日至2月28日"),
        (More(1, TENTH, TENTH), "and 1 more, 10 Jan", "还有 1 条，1月10日"),
        (More(2), "and 2 more", "还有 2 条"),
        (
            More(23, date(2025, 1, 10), LAST),
            "and 23 more, 10 Jan 2025 to 28 Feb 2026",
            "还有 23 条，2025年1月10日至2026年2月28日",
        ),
        (
            More(5, TENTH, LAST, ("8443", "…")),
            "and 5 more, 10 Jan to 28 Feb (8443, …)",
            "还有 5 条，1月10日至2月28日 (8443, …)",
        ),
    ],
)
def test_it_is_told_in_both_languages(more: More, english: str, chinese: str) -> None:
    told: dict[InterfaceLanguage, str] = {"en": english, "zh": chinese}
    for language, text in told.items():
        set_language(language)
        assert and_more(more) == text


def test_the_model_is_told() -> None:
    hit = Hit("memory/2026-03-01.md", 1, 1, 0.5, "- Backup ran.", "memory", more=More(23, TENTH, LAST))
    result = SearchResult((hit,), "hybrid", "none", "")
    page = fit(result, 4_000)
    assert "1: - Backup ran. (and 23 more, 10 Jan to 28 Feb)" in results_text(result, page)
    assert results_data(result, page, "off", cite=False)["results"][0]["more"] == "and 23 more, 10 Jan to 28 Feb"
