"""The finish reasons of the vendors, in the spelling of their documents."""

from __future__ import annotations

import pytest

from clawbot.llm.deltas import Ending, ending_of
from tests.tables import load_table

REASONS: dict[str, dict[Ending, str]] = load_table(__file__, "REASONS")


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        pytest.param(word, ending, id=f"{vendor}-{word}")
        for vendor, endings in REASONS.items()
        for ending, words in endings.items()
        for word in words.split()
    ],
)
def test_what_a_reason_means(reason: str, ending: Ending) -> None:
    assert ending_of(reason) == ending
