"""Which words of a text a query meant."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.query import parse_query
from clawbot.text.tokens import FTS5_TOKENIZER, index_text
from clawbot.tui.render.finding import marks


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


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("why did we move the proxies? ", "moved moving moves PROXY proxies proxied remove we the did"),
        ("relational classes ", "relate relation related class classic clash classify"),
        ("when is Anna's birthday ", "Anna Annas birthdays birth when is"),
        ("naïve café ", "naive CAFE cafés nave"),
        ("user_id ", "user id users user_id idle"),
        ("端口换了 ", "端口 换端 服务 口号 端午 了"),
    ],
)
def test_the_words_that_search_finds_are_the_marked_ones(query: str, words: str) -> None:
    index = sqlite3.connect(":memory:")
    index.execute(f"CREATE VIRTUAL TABLE notes USING fts5(text, tokenize='{FTS5_TOKENIZER}')")
    index.executemany("INSERT INTO notes VALUES (?)", [(index_text(word),) for word in words.split()])
    terms = [term.match for term in parse_query(query).terms if term.weight > 0.4]
    found = index.execute("SELECT rowid FROM notes WHERE notes MATCH ?", [" OR ".join(terms)])
    expected = [words.split()[number - 1] for (number,) in found]
    assert [word for word in words.split() if marks(query, word)] == expected
