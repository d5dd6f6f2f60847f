"""The stems of words: those that SQLite takes for the index."""

from __future__ import annotations

import apsw
from hypothesis import given
from hypothesis import strategies as st

from clawbot.languages.stems import bases, stem

SUFFIXES = """
    s es ies ed ing eed ational tional enci anci izer logi bli alli entli eli ousli ization ation ator alism iveness
    fulness ousness aliti iviti biliti icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement
    ment ent sion tion ou ism ate iti ous ive ize e ll y yy
"""
WORDS = st.builds(
    lambda begin, ends: begin + "".join(ends),
    st.text(alphabet="abeilstyzoxw", max_size=6),
    st.lists(st.sampled_from(SUFFIXES.split()), max_size=3),
).filter(bool)


@given(st.lists(WORDS, min_size=1, max_size=200))
def test_stems_are_those_of_the_index(words: list[str]) -> None:
    db = apsw.Connection(":memory:")
    db.execute("create virtual table t using fts5(x, tokenize='porter unicode61')")
    db.execute("create virtual table v using fts5vocab(t, 'instance')")
    db.execute("insert into t values (?)", (" ".join(words),))
    assert [stem(word) for word in words] == [term for (term,) in db.execute("select term from v order by offset")]


def test_base_forms() -> None:
    assert bases("cities") == ["cities", "city", "citi", "citie"]
    assert bases("stopped") == ["stopped", "stopp", "stoppe", "stop"]
    assert bases("being") == ["being"]
