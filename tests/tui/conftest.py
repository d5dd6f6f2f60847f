"""Shortens the steps in which Textual's pilot waits for an idle app: each key takes two of them. Shares the rules of a
style sheet between apps: to parse them is a tenth of a test."""

from __future__ import annotations

from typing import Any

import pytest
from textual import _wait
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

STEP = 0.005  # seconds; Textual's own step is 0.02

_parse = Stylesheet._parse_rules
_parsed: dict[tuple[object, ...], list[RuleSet]] = {}


def _parse_once(sheet: Stylesheet, css: str, **source: Any) -> list[RuleSet]:
    key = (css, *source.items(), frozenset(sheet._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse(sheet, css, **source)
    return _parsed[key]


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the share of a step that an idle app may compute."""
    monkeypatch.setattr(_wait, "SLEEP_IDLE", _wait.SLEEP_IDLE / _wait.SLEEP_GRANULARITY * STEP)
    monkeypatch.setattr(_wait, "SLEEP_GRANULARITY", STEP)


@pytest.fixture(autouse=True)
def styles_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share the rules of a sheet between apps whose themes give the same variables."""
    monkeypatch.setattr(Stylesheet, "_parse_rules", _parse_once)
