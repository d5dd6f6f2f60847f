"""What must be kept to the letter is found to the letter."""

from __future__ import annotations

import pytest

from clawbot.text.identifiers import identifiers, is_exact, ports, quoted, titles
from tests.tables import load_table


@pytest.mark.parametrize(
    ("text", "found"),
    load_table(__file__, "identifiers_are_found_to_the_letter"),
)
def test_identifiers_are_found_to_the_letter(text: str, found: list[str]) -> None:
    assert identifiers(text) == found


def test_titles_are_found_to_the_letter() -> None:
    assert titles("读《部署手册》和「代理设置」,再读《部署手册》,不是《》") == ["部署手册", "代理设置"]


EXACT = """
    https://a.example/x ada@example.com alpha.example.org proxy-1.stg:8443 10.0.0.1:80 /srv/app ~/notes.md src/app.py
    3f2a9c1d v1.2 1.2.3 OPENAI_API_BASE ABC-7
"""


@pytest.mark.parametrize("name", EXACT.split())
def test_what_means_one_thing_everywhere(name: str) -> None:
    assert is_exact(name)


@pytest.mark.parametrize("name", ["/model", "append", "AGENTS.md", "23 min", "8443", "2026-01-02", "3.5", "记住:……"])
def test_what_does_not(name: str) -> None:
    assert not is_exact(name)


def test_a_port_keeps_its_word() -> None:
    assert ports("on port 8443, ports 80 and 81; Port: 22") == ["port 8443", "ports 80", "Port: 22"]
    assert ports("代理端口是 8443,端口：22") == ["端口是 8443", "端口：22"]


def test_quoted_names() -> None:
    assert quoted("use `blue` or `green light`, not ` `") == ["blue", "green light"]
