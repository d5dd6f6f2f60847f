from __future__ import annotations

import re
import unicodedata

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.tokens import (
    FTS5_TOKENIZER,
    camel_parts,
    fts_quote,
    index_text,
    plain_forms,
    spread_text,
    words_of,
)
from tests.tables import load_table

# Letters, digits, marks and signs of the scripts that notes are in.
ALPHABET = st.one_of(
    st.characters(max_codepoint=0x24F, exclude_categories=["Cn", "Cs"]),
    st.characters(min_codepoint=0x391, max_codepoint=0x3FF, categories=["Lu", "Ll"]),
    st.characters(min_codepoint=0x410, max_codepoint=0x44F),
    st.characters(min_codepoint=0x3000, max_codepoint=0x30FF, exclude_categories=["Cn", "Cs"]),
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF, exclude_categories=["Cn", "Cs"]),
    st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3, exclude_categories=["Cn", "Cs"]),
    st.characters(min_codepoint=0xFF01, max_codepoint=0xFFEE, exclude_categories=["Cn", "Cs"]),
    st.sampled_from(list("aBcD12_-. '\u0301\u0302\u3099\u00e9数据库的")),
)


def fts5_words(text: str, tokenizer: str = "unicode61 remove_diacritics 2") -> list[str]:
    """The words that FTS5 itself takes from `text`, in order."""
    db = apsw.Connection(":memory:")
    db.execute(f"create virtual table t using fts5(x, tokenize='{tokenizer}')")
    db.execute("create virtual table v using fts5vocab(t, 'instance')")
    db.execute("insert into t values (?)", (text,))
    return [str(term) for (term,) in db.execute("select term from v order by offset")]


def finds(text: str, phrase: str) -> bool:
    """Whether the phrase finds a note of `text`, through a table as the index has it."""
    db = apsw.Connection(":memory:")
    db.execute(f"create virtual table t using fts5(x, tokenize='{FTS5_TOKENIZER}')")
    db.execute("insert into t values (?)", (index_text(text),))
    return bool(list(db.execute("select 1 from t where t match ?", (fts_quote(spread_text(phrase)),))))


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "text_without_work_stays_the_same_object"),
)
def test_text_without_work_stays_the_same_object(text: str) -> None:
    assert index_text(text) is text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("数据库", ["数", "数据", "据", "据库", "库"]),
        ("猫", ["猫"]),
        ("用API方案", ["用", "api", "方", "方案", "案"]),
        ("B座11楼", ["b", "座", "11", "楼"]),
        ("資料庫,后端", ["資", "資料", "料", "料庫", "庫", "后", "后端", "端"]),
        ("東京タワー", ["東", "東京", "京", "京タ", "タ", "タワ", "ワ", "ワー", "ー"]),
        ("안녕 서울", ["안", "안녕", "녕", "서", "서울", "울"]),
        ("ＡＰＩ　ｖ２", ["api", "v2"]),
        ("ﾃｽﾄ", ["テ", "テス", "ス", "スト", "ト"]),
        ("が", ["が"]),
        ("ﬁle", ["file"]),
        ("〱A ㄅÄ", ["〱a", "ㄅa"]),
        ("ex\u00adam\u00adple zero\u200bwidth\u200c\u200d\u2060 \ufeffmark", ["example", "zerowidth", "mark"]),
        ("数\u200b据\u00ad库", ["数", "数据", "据", "据库", "库"]),
        ("cafe\u200b\u0301", ["cafe"]),
        ("⼈工", ["人", "人工", "工"]),
        ("Café cafe\u0301 x\u0302y Ärger", ["cafe", "cafe", "xy", "arger"]),
        ("Mod\ud800ell", ["mod", "ell"]),
        ("a\x00b", ["a", "b"]),
        ("user_id", ["user", "id"]),
        ("call getUserName now", ["call", "getusername", "now", "get", "user", "name"]),
        ("HTTPServer utf8Decode", ["httpserver", "utf8decode", "http", "server", "utf8", "decode"]),
        ("Wi-Fi, 用e-mail, blue-green", ["wi", "fi", "用", "e", "mail", "blue", "green", "wifi", "email"]),
        ("10² and 3½", ["10²", "and", "3½"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("word", "parts"),
    load_table(__file__, "camel_parts"),
)
def test_camel_parts(word: str, parts: list[str]) -> None:
    assert camel_parts(word) == parts


@pytest.mark.parametrize(
    ("text", "phrase"),
    load_table(__file__, "a_phrase_of_the_text_is_found"),
)
def test_a_phrase_of_the_text_is_found(text: str, phrase: str) -> None:
    assert finds(text, phrase)


@pytest.mark.parametrize(
    ("text", "phrase"), [("数学和据点", "数据"), ("version 1.2.4", "1.2.3"), ("name of the user", "user name")]
)
def test_other_words_are_no_phrase(text: str, phrase: str) -> None:
    assert not finds(text, phrase)


@pytest.mark.parametrize(("token", "quoted"), [("a", '"a"'), ('a"b', '"a""b"'), ("a\0b", '"a b"')])
def test_quoting(token: str, quoted: str) -> None:
    assert fts_quote(token) == quoted


@given(st.text(ALPHABET, max_size=40))
def test_words_are_those_that_fts5_takes(text: str) -> None:
    assert words_of(text) == fts5_words(index_text(text))


@given(st.text(max_size=60))
def test_any_text_can_be_stored(text: str) -> None:
    assert index_text(text).encode().decode() == index_text(text)
    assert all(word.encode() for word in words_of(text))


@given(st.text(ALPHABET, max_size=20), st.text(ALPHABET, min_size=1, max_size=8), st.text(ALPHABET, max_size=20))
def test_any_part_between_blanks_is_found_as_a_phrase(before: str, part: str, after: str) -> None:
    if not fts5_words(spread_text(part)) or unicodedata.combining(part[0]):
        return
    assert finds(f"{before} {part} {after}", part)


@given(st.text(ALPHABET, max_size=20), st.text(ALPHABET, max_size=20))
def test_plain_forms_do_not_depend_on_the_surroundings(left: str, right: str) -> None:
    assert plain_forms(f"{left} {right}") == f"{plain_forms(left)} {plain_forms(right)}"


def test_a_long_run_of_capitals_and_humps_stays_linear() -> None:
    assert len(index_text("aB" * 500_000)) == 1_000_000
    assert len(re.findall("[A-Z]", index_text("A" * 500_000 + "bc"))) == 500_000


@pytest.mark.parametrize("sign", ["\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff"])
def test_signs_that_are_not_seen_do_not_split_words(sign: str) -> None:
    for word, half in (("example", 4), ("数据库", 1)):
        split = f"{word[:half]}{sign}{word[half:]}"
        assert finds(f"an {split} of it", word)
        assert finds(f"an {word} of it", split)
