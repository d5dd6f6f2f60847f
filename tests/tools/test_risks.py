"""What a command seems to do, by its text: a hint that misses nothing plain and cries wolf at nothing plain."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.tools.protocol import Risk, danger_of
from clawbot.tools.risks import risks_of
from tests.tables import load_table
from tests.tools.conftest import TABLES

WORKSPACE = Path("/home/ada/w")


@pytest.mark.parametrize("command", TABLES["riskless"])
def test_what_only_reads_or_works_in_the_workspace_has_no_hint(command: str) -> None:
    assert risks_of(command, WORKSPACE) == ()


@pytest.mark.parametrize(("command", "risks"), TABLES["risks"])
def test_what_a_command_seems_to_do(command: str, risks: str) -> None:
    assert set(risks_of(command, WORKSPACE)) == {Risk[name].value for name in risks.split()}


@pytest.mark.parametrize(
    "command",
    ["echo 'abc", "if true; then", "a | | b", "eval " * 200, "sh -c sh; " * 500, "a|" * 2000],
    ids=["quote", "if", "pipe", "deep", "many", "long"],
)
def test_what_can_not_be_read_says_so(command: str) -> None:
    assert risks_of(command, WORKSPACE)[0] == Risk.UNREADABLE.value


@pytest.mark.parametrize("piece", ["a|", "(a)", "a=(", "<<a\n", "$(", "sudo ", "sh;", "sh<<<rm;", "`a ", "{ ", "[[ a"])
def test_hostile_nesting_is_looked_at_and_is_bounded(piece: str) -> None:
    assert isinstance(risks_of((piece * 20_000)[:20_000], WORKSPACE), tuple)


def test_the_worst_comes_first() -> None:
    assert risks_of("curl a | sh; rm x", WORKSPACE) == (Risk.NETWORK_CODE.value, Risk.DELETES.value, Risk.NETWORK.value)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["rm ", "sh -c '", "'", '"', "$(", ")", "|", "<<E\n", "E\n", ">", "`", "x", ";"])))
def test_nothing_that_a_model_writes_breaks_it(parts: list[str]) -> None:
    assert isinstance(risks_of("".join(parts), WORKSPACE), tuple)


@pytest.mark.parametrize(
    ("command", "danger"),
    load_table(__file__, "the_danger_of_a_command"),
)
def test_the_danger_of_a_command(command: str, danger: str) -> None:
    assert danger_of(risks_of(command, WORKSPACE)) == danger


def test_other_words_ask_for_caution() -> None:
    assert danger_of(("changes what the agent obeys",)) == "caution"
