"""Which words of a text a query meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.tui.screens.marking import marks


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("staging proxy", "The Staging-proxy moved", ["Staging", "proxy"]),
        ("why did we move the proxies?", "We moved; moving a PROXY moves", ["moved", "moving", "PROXY", "moves"]),
        ("stop", "stops, stopped, stopping; nonstop", ["stops", "stopped", "stopping"]),
        ("classes", "a class clash", ["class"]),
        ("8443", "port 8443, not 18443", ["8443"]),
        ("user_id", "the user's id: user_id", ["user", "id", "user", "id"]),
        ("who is it", "it is who?", ["it", "is", "who"]),
        ("换端口", "我们换了端口，换端口的事", ["端口", "换端口"]),
        ("我喜欢什么", "用户喜欢制表符，什么都行", ["喜欢"]),
        ("什么", "用户说什么", ["什么"]),
        ("猫", "熊猫和猫", ["猫", "猫"]),
        ("API方案", "用API方案吧", ["API", "方案"]),
        ("the graf", "the grafana of paragraphs, GRAFTED", ["grafana", "GRAFTED"]),
        ("graf ", "a grafana", []),
        ("graf moved", "a grafana moved", ["moved"]),
        ("gr", "a grafana", []),
        ("the", "the thesis", ["the"]),
        ("", "nothing is meant", []),
        ("?!", "nothing is meant", []),
    ],
)
def test_words_are_marked_in_any_form(query: str, text: str, marked: list[str]) -> None:
    assert [text[start:end] for start, end in marks(query, text)] == marked


@given(query=st.text(alphabet="ab端口 的ßİ\u0301?"), text=st.text(alphabet="ab端口 的ßİ\u0301?"))
def test_marks_are_in_order_and_within_the_text(query: str, text: str) -> None:
    places = [place for pair in marks(query, text) for place in pair]
    assert places == sorted(places)
    assert all(start < end <= len(text) for start, end in marks(query, text))
