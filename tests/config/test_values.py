"""Kinds of values: what is accepted, what it means, what is said about the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from clawbot.config import values
from tests.tables import load_table


@pytest.mark.parametrize(
    ("text", "seconds"),
    load_table(__file__, "durations_are_seconds"),
)
def test_durations_are_seconds(text: Any, seconds: float) -> None:
    assert values.parse_duration(text) == seconds


@pytest.mark.parametrize(("bare", "seconds"), [("600", 36_000), (600, 36_000), ("10s", 10), ("0.5", 30), ("1h", 3600)])
def test_a_bare_number_counts_minutes_where_the_family_says_so(bare: Any, seconds: float) -> None:
    assert TypeAdapter(values.MinutesDuration).validate_python(bare) == seconds


REFUSED: list[tuple[Callable[[Any], Any], str, list[Any]]] = [
    (
        values.parse_duration,
        "a duration such as",
        ["", "5 x", "m", "-5m", -1, True, None, "1.5.5", "5 10", [], float("inf"), float("nan")],
    ),
    (values.parse_size, "a size such as", ["", "2tb", "mb", "-1", -1, True, None, {}]),
    (values.parse_chars, "of tokens such as", ["many", "1000 words", "-1 tokens", "1.5 tokens", "tokens"]),
    (values.parse_clock, "a time of the day", ["24:00", "4", "4:60", 240, None, "04:00:00"]),
    (
        values.check_zone,
        "a time zone",
        ["Europe/Berln", "../etc/passwd", "/etc/localtime", "America", "", "a\0b", 3],
    ),
    (values.check_model, "provider/model", ["gpt-4o", "", "/x", "x/", "script:", 5, "ofline"]),
    (values.parse_switch, "true or false", ["maybe", 1, 0, None, ""]),
]


@pytest.mark.parametrize(
    ("read", "said", "wrong"), [(read, said, wrong) for read, said, others in REFUSED for wrong in others]
)
def test_what_is_no_value_of_its_kind_is_refused(read: Callable[[Any], Any], said: str, wrong: Any) -> None:
    with pytest.raises(PydanticCustomError, match=said):
        read(wrong)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_is_spelled_so_that_it_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert values.parse_duration(values.format_duration(seconds)) == pytest.approx(seconds, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "size"), [("2mb", 2_097_152), ("64 KB", 65_536), ("1GiB", 1_073_741_824), ("1.5k", 1536), (7, 7), ("7", 7)]
)
def test_sizes_are_bytes(text: Any, size: int) -> None:
    assert values.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "chars"), [("1000 tokens", 4_000), ("1 Token", 4), ("250tokens", 1_000), ("9", 9), (9, 9)]
)
def test_tokens_count_four_characters(text: Any, chars: int) -> None:
    assert TypeAdapter(values.Chars).validate_python(text) == chars


@given(st.integers(min_value=0, max_value=2**50))
@example(2**50)
def test_a_size_is_spelled_so_that_it_reads_back(size: int) -> None:
    assert values.parse_size(values.format_size(size)) == size


@pytest.mark.parametrize(("text", "clock"), [("04:00", "04:00"), ("4:00", "04:00"), (" 23:59 ", "23:59")])
def test_times_of_the_day_have_two_digits(text: str, clock: str) -> None:
    assert values.parse_clock(text) == clock


def test_the_zone_that_was_meant_is_named() -> None:
    with pytest.raises(PydanticCustomError, match=r"did you mean Europe/Berlin\?"):
        values.check_zone("Europe/Berln")


@pytest.mark.parametrize("ref", ["auto", "offline", "openai/gpt-5", "openrouter/meta/llama", "script:a b.yaml"])
def test_models_by_all_their_kinds_of_names(ref: str) -> None:
    assert values.check_model(ref) == ref


def test_a_path_is_absolute_and_the_state_folder_is_where_it_is(tmp_path: Path) -> None:
    kind: TypeAdapter[Path] = TypeAdapter(values.StatePath)

    def read(text: Any) -> Path:
        return kind.validate_python(text, context={"home": tmp_path})

    assert read("~/.clawbot/workspace") == tmp_path / "workspace"
    assert read("~/.clawbot") == tmp_path
    assert read("~/.clawbotty") == Path.home() / ".clawbotty"
    assert read("~/clawd") == Path.home() / "clawd"
    assert read("notes") == tmp_path / "notes"
    assert read("/notes") == Path("/notes")


@pytest.mark.parametrize("wrong", ["", "  ", "a\0b", 5, None, "~nobody-has-this-name/x"])
def test_what_is_no_path_is_refused(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="a path"):
        TypeAdapter(values.StatePath).validate_python(wrong, context={"home": tmp_path})


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("ON", True), ("no", False), ("off", False), (True, True)])
def test_switches_as_files_have_them(text: Any, value: bool) -> None:
    assert values.parse_switch(text) is value
