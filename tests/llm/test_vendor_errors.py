"""Errors as vendors word them, each with what it has to be taken for. The texts are from reports of users and from the
vendors' documents; names of accounts are left out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from clawbot.llm import errors
from clawbot.llm.client import MAX_ASKED_WAIT, RetryPolicy, wait_before_next
from clawbot.llm.error_text import wordings
from clawbot.llm.errors import (
    ContextOverflowError,
    ModelError,
    RateLimitError,
)
from clawbot.llm.failures import Failure, to_error
from tests.llm.cases import read_cases
from tests.llm.test_overflow import OVERFLOWS
from tests.tables import load_table

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
POLICY = RetryPolicy(first_wait=0.25)
Body = str | dict[str, Any] | list[Any]


@dataclass(frozen=True)
class Row:
    """What `vendor` answers: `wait` is how many seconds are waited (0: as usual, None: never again)."""

    vendor: str
    status: int
    body: Body
    kind: type[ModelError]
    wait: float | None = None
    limit: int | None = None
    header: str = ""

    @property
    def text(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body, ensure_ascii=False)


def rows(section: str) -> list[Row]:
    read = read_cases("vendor_errors")[section]
    return [Row(vendor, status, body, getattr(errors, kind), **more) for vendor, status, kind, more, body in read]


ROWS, NEITHER = rows("known"), rows("neither")


def error_of(row: Row) -> ModelError:
    return to_error(Failure("APIError", row.text, row.status, retry_after=row.header), ref="openai/m", now=NOW)


@pytest.mark.parametrize("row", [*ROWS, *NEITHER], ids=lambda row: f"{row.vendor} {row.status}")
def test_an_error_is_what_the_vendor_means(row: Row) -> None:
    error = error_of(row)
    assert type(error) is row.kind
    if isinstance(error, ContextOverflowError):
        assert error.limit == row.limit
    wait = wait_before_next(error, 1, POLICY)
    if row.wait == 0:
        assert error.retry_after is None
        assert wait is not None
    else:
        assert wait == row.wait
    if isinstance(error, RateLimitError):
        too_long = (error.retry_after or 0) > MAX_ASKED_WAIT
        assert error.exhausted is (row.wait is None and (not too_long or "per day" in row.text))


@pytest.mark.parametrize(
    ("text", "hint"),
    load_table(__file__, "the_hint_says_how_long"),
)
def test_the_hint_says_how_long(text: str, hint: str) -> None:
    assert hint in to_error(Failure("RateLimitError", text, 429), ref="openai/m").hint


def test_each_wording_has_a_text() -> None:
    texts = [row.text.lower() for row in (*ROWS, *NEITHER)]
    for who, pattern in (*wordings("exhausted").items(), *wordings("waits").items()):
        assert any(re.search(pattern, text) for text in texts), who
    assert len(ROWS) >= 60
    assert len(NEITHER) >= 20
    assert len(OVERFLOWS) >= 60


@pytest.mark.parametrize("row", [*ROWS, *NEITHER], ids=lambda row: f"{row.vendor} {row.status}")
@pytest.mark.parametrize("base", [None, "http://127.0.0.1:8080/v1"])
def test_what_is_shown_is_a_sentence(row: Row, base: str | None) -> None:
    failure = Failure("APIError", row.text, row.status, retry_after=row.header)
    shown = str(to_error(failure, ref="openai/m", base=base, now=NOW))
    for sign in ('{"', "b'", "</", "<t", "\\", "Exception", "error':", "Is the server"):
        assert sign not in shown
