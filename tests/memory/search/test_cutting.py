from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.memory.search.results import cut_around

FILLER = "Nothing of note happened on this day. " * 40
ZH_FILLER = "今天没有什么特别的事情发生。" * 60


def test_what_fits_is_left_alone() -> None:
    assert cut_around("a port is open", 14, ["port"]) == "a port is open"


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (f"{FILLER}The proxy moved to port 8443. {FILLER}", ["proxy", "port"], "The proxy moved to port 8443."),
        (f"{FILLER}The ex\u00adam\u00adple ended. {FILLER}", ["example"], "The ex\u00adam\u00adple ended."),
        (f"{FILLER}The tent was moved away. {FILLER}", ["moving"], "The tent was moved away."),
        (f"{ZH_FILLER}部署窗口改到周四晚上。{ZH_FILLER}", ["部署", "周四"], "部署窗口改到周四晚上。"),
    ],
    ids=["words", "soft hyphens", "stem", "Chinese"],
)
def test_a_cut_stands_between_sentences_around_the_words(text: str, words: list[str], said: str) -> None:
    cut = cut_around(text, 200, words)
    assert said in cut
    assert cut.startswith(("… Nothing of", "… 今天", "… The", "… 部署"))
    assert cut.endswith((". …", "。 …"))
    assert len(cut) <= 200


def test_the_place_with_most_of_the_words_is_shown() -> None:
    text = f"A proxy is there. {FILLER}The proxy listens on port 8443. {FILLER}A port. {FILLER}"
    assert "port 8443" in cut_around(text, 120, ["proxy", "port", "8443"])


def test_without_the_words_the_beginning_is_shown() -> None:
    assert cut_around(FILLER, 100, ["zeppelin"]).startswith("Nothing of note")


def test_the_end_of_a_text_is_shown_to_its_last_character() -> None:
    cut = cut_around(f"{FILLER}At last the zeppelin.", 120, ["zeppelin"])
    assert cut.endswith("At last the zeppelin.")
    assert len(cut) > 80


def test_words_without_blanks_are_cut_anywhere() -> None:
    cut = cut_around(f"{'x' * 900}8443{'y' * 900}", 100, ["x" * 900])
    assert len(cut) == 100


@given(
    st.text(alphabet="ab .\n数据。\u00ad", max_size=400),
    st.integers(0, 200),
    st.sampled_from(["ab", "数据", "b a", ""]),
)
def test_a_cut_is_never_longer_than_asked(text: str, chars: int, word: str) -> None:
    cut = cut_around(text, chars, [word])
    assert len(cut) <= chars
    assert cut.removeprefix("… ").removesuffix(" …").strip() in text
