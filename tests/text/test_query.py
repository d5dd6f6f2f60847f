from __future__ import annotations

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clawbot.text.language import CHINESE_KEPT, CJK_PARTICLES, CJK_WEAK, STOP_WORDS
from clawbot.text.query import MAX_QUERY_CHARS, MAX_TERMS, Query, parse_query, query_tokens
from clawbot.text.tokens import FTS5_TOKENIZER, index_text, tokens_of
from tests.tables import load_table

SIGNS = """AND OR NOT NEAR( NEAR/2 * ^ : " ( ) { } + - x: ' ， 数据库 的 “ ” 「 」 v1.2 Ünï a_b don't 🎉 ﬁ"""
OPERATORS = st.lists(st.sampled_from([*SIGNS.split(" "), "\0", "\ud800", "\n", " "]), max_size=30).map("".join)
BROKEN = """" AND OR NOT NEAR( a* ^a x:a (a a) -a {a}:c a"b 'a a+b \\"""


@pytest.fixture(scope="module")
def table() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute(f"create virtual table t using fts5(x, y, tokenize='{FTS5_TOKENIZER}')")
    for text in (
        "The blue-green deployment of API v1.2.3",
        "数据库在B座11楼,周蕙的电话",
        "getUserName is wi-fi 12,000",
    ):
        db.execute("insert into t(x) values (?)", (index_text(text),))
    return db


def hits(table: apsw.Connection, query: Query) -> list[int]:
    if not query.terms:
        return []
    any_term = " OR ".join(term.match for term in query.terms)
    return [int(str(row)) for (row,) in table.execute("select rowid from t where t match ? order by rank", (any_term,))]


def texts(query: Query) -> list[str]:
    return [term.text for term in query.terms]


@pytest.mark.parametrize(
    ("question", "expected"),
    load_table(__file__, "what_a_question_looks_for"),
)
def test_what_a_question_looks_for(question: str, expected: list[str]) -> None:
    assert texts(parse_query(question)) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    load_table(__file__, "stop_words_stay_when_there_is_nothing_else"),
)
def test_stop_words_stay_when_there_is_nothing_else(question: str, expected: list[str]) -> None:
    assert texts(parse_query(question)) == expected


@pytest.mark.parametrize("question", ["", "   ", "...", "🎉 ✨", '""', "“”", "\0\x01", "\ud800"])
def test_no_words_no_terms(question: str) -> None:
    assert parse_query(question).terms == ()


@pytest.mark.parametrize(
    ("question", "kind", "match"),
    load_table(__file__, "the_first_term"),
)
def test_the_first_term(question: str, kind: str, match: str) -> None:
    term = parse_query(question).terms[0]
    assert (term.kind, term.match, term.weight) == (kind, match, 1.0)


@pytest.mark.parametrize(
    ("question", "text", "weight"),
    load_table(__file__, "weights"),
)
def test_weights(question: str, text: str, weight: float) -> None:
    assert {term.text: term.weight for term in parse_query(question).terms}[text] == weight


@pytest.mark.parametrize(
    ("question", "absent"),
    [
        ("https://www.example.com/x", {"https", "www", "com"}),
        ("v1.2.3", {"v1", "2", "3"}),
        ("猫的名字", {"猫的", "的名"}),
        ("and/or the O'Brien", {"and", "or", "and/or", "o"}),
    ],
)
def test_what_says_nothing_is_not_asked(question: str, absent: set[str]) -> None:
    assert absent.isdisjoint(texts(parse_query(question)))


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Where did Caroline meet Mary-Jane?", ("Caroline", "Mary-Jane")),
        ("Anna's cat and Bob's dog", ("Anna", "Bob")),
        ("Painting with Anna. Where was it?", ("Anna",)),
        ("who is Will and will he come in March", ("Will",)),
        ("the API of NASA last Tuesday", ()),
        ("周蕙和 Anna 去哪里", ("Anna",)),
    ],
)
def test_names(question: str, names: tuple[str, ...]) -> None:
    assert parse_query(question).names == names


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("What did Anna cook with the wi-fi cooker?", ("anna", "cook", "wi-fi", "wi", "fi", "cooker")),
        ("数据库的端口是多少", ("数据库", "端口")),
    ],
)
def test_content_words(question: str, content: tuple[str, ...]) -> None:
    assert parse_query(question).content_words == content


@pytest.mark.parametrize(
    ("question", "rows"),
    load_table(__file__, "it_finds"),
)
def test_it_finds(table: apsw.Connection, question: str, rows: list[int]) -> None:
    assert hits(table, parse_query(question)) == rows


def test_bounds() -> None:
    query = parse_query(" ".join(f"word{number}" for number in range(10_000)) + " end")
    assert len(query.terms) == MAX_TERMS
    assert len(query.raw) <= MAX_QUERY_CHARS
    assert len(parse_query("数据库" * 1_000_000).terms) <= MAX_TERMS


def test_when_there_are_too_many_terms_the_light_ones_go() -> None:
    query = parse_query(" ".join(f"alpha-beta{number}" for number in range(50)))
    assert {term.weight for term in query.terms[:20]} >= {1.0}
    assert sum(term.weight == 1.0 for term in query.terms) == 50


def test_the_tables_agree() -> None:
    assert all(len(character) == 1 for character in CJK_PARTICLES | CJK_WEAK)
    assert not CJK_PARTICLES & CJK_WEAK
    useless = {word for word in CHINESE_KEPT if not set(word) & (CJK_PARTICLES | CJK_WEAK)}
    assert not useless
    assert all(word == word.lower() and word.isalpha() for word in STOP_WORDS)


@pytest.mark.parametrize("question", [*BROKEN.split(" "), "a\0b", "NEAR(a b, 2)", "AND OR NOT"])
def test_operators_are_words_or_nothing(table: apsw.Connection, question: str) -> None:
    assert set(hits(table, parse_query(question))) <= {1, 2, 3}


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), OPERATORS, st.text(st.characters(), max_size=60)))
@example("数据库" * 400_000)
@example('"' * 1_000_000)
@example("((((" * 250_000)
@example("a'" * 500_000)
@example("\U0001f389\ud83c")
def test_no_question_is_an_error(table: apsw.Connection, question: str) -> None:
    query = parse_query(question)
    hits(table, query)
    for term in query.terms:
        list(table.execute("select rowid from t where t match ?", (term.match,)))
        assert 0 < term.weight <= 1
    query.raw.encode()
    assert len({term.match for term in query.terms}) == len(query.terms)


@pytest.mark.parametrize(
    ("question", "line", "found"),
    load_table(__file__, "a_line_shows_what_the_search_meant"),
)
def test_a_line_shows_what_the_search_meant(question: str, line: str, found: list[str]) -> None:
    wanted = query_tokens(question)
    assert [line[token.start : token.end] for token in tokens_of(line) if token.text in wanted] == found
