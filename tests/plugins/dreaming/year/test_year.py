"""A year, and two months, of an invented person: what dreams make of the notes is small, true, of the present, without
secrets and orders, and can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.text.secrets import holds_secret
from tests.plugins.dreaming.year.generator import DAYS, year_of
from tests.plugins.dreaming.year.life import LIES_EACH, MAIN, SEED, Life, ScriptedDreamer

MAX_TOKENS = 2_500
MONTHS = 56
LEAST = {"scripted": 0.95, "offline": 0.80}


@pytest.mark.timeout(1_500)
@pytest.mark.parametrize(
    ("language", "kind", "days"),
    [
        ("en", "offline", MONTHS),
        ("zh", "scripted", MONTHS),
        ("mixed", "offline", MONTHS),
        pytest.param("mixed", "offline", DAYS, marks=pytest.mark.long),
        *(
            pytest.param(language, kind, DAYS, marks=pytest.mark.long)
            for language in ("en", "zh")
            for kind in ("scripted", "offline")
        ),
    ],
)
async def test_a_year_of_dreams(tmp_path: Path, language: str, kind: str, days: int) -> None:
    year = year_of(language, days)
    life = Life(tmp_path, year, ScriptedDreamer(year) if kind == "scripted" else None)
    await life.live()
    assert life.largest < MAX_TOKENS
    assert not [text for text in (*year.person.secrets, *year.person.orders) if text in life.memory]
    assert not holds_secret(life.memory)
    if kind == "scripted":
        # Each lie of each dream was refused.
        assert len(life.refused) >= life.dreams * LIES_EACH
    answers = await life.answers()
    assert answers.right >= LEAST[kind] * len(year.person.slot), answers.wrong
    assert answers.superseded == []
    notes = {name: data for name, data in life.files().items() if name.startswith("memory/20")}
    life.undo_all()
    assert life.files() == {**notes, MAIN: SEED.encode()}
