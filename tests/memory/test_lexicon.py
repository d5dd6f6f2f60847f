from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.languages.tables import THESAURUS
from clawbot.memory.lexicon import (
    CHINESE_CHARACTERS,
    IN_ALL,
    PER_WORD,
    PHRASE_WORDS,
    Expansion,
    Lexicon,
    fold,
    plain,
)
from tests.tables import load_table

SMALL = Lexicon(
    "# People\n"
    "wife, better half | 妻子, 老婆, 太太\n"
    "\n"
    "# Drinks\n"
    "drink, beverage > tea, coffee | 饮料, 喝的 > 茶, 咖啡, 乌龙茶\n"
    "coffee | 咖啡\n"
    "oolong | 乌龙茶\n"
    "wi-fi, wireless | 无线网\n"
    "t-shirt | t恤\n"
    "deploy, go live | 部署, 上线\n"
    "plan, planning | 计划\n"
)


def words(lexicon: Lexicon, text: str) -> list[str]:
    return [expansion.word for expansion in lexicon.expand(text)]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.load()


@pytest.mark.parametrize(
    ("text", "found"),
    load_table(__file__, "words_lead_to_others"),
)
def test_words_lead_to_others(text: str, found: list[str]) -> None:
    assert words(SMALL, text) == found


def test_a_narrow_word_leads_to_its_translation_and_the_broad_words_but_not_to_its_neighbours() -> None:
    assert SMALL.expand("coffee") == (
        Expansion("coffee", "咖啡", broader=False),
        Expansion("coffee", "drink", broader=True),
        Expansion("coffee", "饮料", broader=True),
        Expansion("coffee", "beverage", broader=True),
        Expansion("coffee", "喝的", broader=True),
    )


def test_the_longest_chinese_word_wins() -> None:
    assert words(SMALL, "他爱喝乌龙茶")[0] == "oolong"
    assert {expansion.source for expansion in SMALL.expand("他爱喝乌龙茶")} == {"乌龙茶"}


def test_the_longest_english_phrase_wins() -> None:
    assert {expansion.source for expansion in SMALL.expand("when did we go live")} == {"go live"}


@pytest.mark.parametrize("text", ["deployed", "deploys", "Deploying", "DEPLOY", "we went: deploy!"])
def test_inflections_are_found(text: str) -> None:
    assert "上线" in words(SMALL, text)


def test_an_inflection_leads_to_its_base_form() -> None:
    assert SMALL.expand("deployed")[0] == Expansion("deployed", "deploy", broader=False)


@pytest.mark.parametrize("text", ["wi-fi", "Wi Fi", "ｗｉ-ｆｉ", "the wi-fi's down"])
def test_joining_marks_and_width_do_not_count(text: str) -> None:
    assert "无线网" in words(SMALL, text)


def test_a_short_word_is_no_inflection_of_another() -> None:
    assert words(Lexicon("bee, wasp\nhi, hello"), "being his") == []


def test_one_word_and_one_query_are_bounded_and_every_word_keeps_its_share() -> None:
    groups = [[f"w{group}x{number}" for number in range(40)] for group in range(6)]
    big = Lexicon("\n".join(", ".join(group) for group in groups))
    assert len(big.expand(groups[0][0])) == PER_WORD
    found = big.expand(" ".join(group[0] for group in groups))
    assert len(found) == IN_ALL
    assert [sum(e.source == group[0] for e in found) for group in groups] == [IN_ALL // 6] * 6


def test_the_shipped_file_is_read_once() -> None:
    assert Lexicon.load() is Lexicon.load()


def test_the_shipped_file_is_well_formed() -> None:
    side = r"[^|>,#\s][^|>,]*(?:, [^|>,\s][^|>,]*)*"
    shape = re.compile(rf"{side}(?: > {side})?(?: \| {side}(?: > {side})?)?")
    for line in THESAURUS.read_text(encoding="utf-8").splitlines():
        assert not line or line.startswith("# ") or shape.fullmatch(line), line
        assert line.startswith("#") or line == line.lower().strip(), line


def test_shipped_english_stands_before_the_bar_and_chinese_behind() -> None:
    for line in THESAURUS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            english, bar, chinese = line.partition(" | ")
            assert not bar or english.isascii(), line
            assert not any(word.isascii() for word in re.split(" > |, ", chinese) if word), line


def test_shipped_concepts_say_each_word_once_and_lead_somewhere(lexicon: Lexicon) -> None:
    for concept in lexicon.concepts():
        both = [plain(word) for word in concept.words + concept.narrower]
        assert len(both) == len(set(both)), concept
        assert len(both) > 1, concept


@pytest.mark.long
def test_no_shipped_concept_is_part_of_another(lexicon: Lexicon) -> None:
    concepts = [(set(concept.words), set(concept.narrower)) for concept in lexicon.concepts()]
    for number, (own, narrower) in enumerate(concepts):
        for other, (more, kinds) in enumerate(concepts):
            assert number == other or not (own <= more and narrower <= kinds), (own, more)


def test_every_shipped_word_is_found_as_itself(lexicon: Lexicon) -> None:
    for concept in lexicon.concepts():
        for word in concept.words + concept.narrower:
            assert len(word) <= CHINESE_CHARACTERS if not word.isascii() else len(plain(word).split()) <= PHRASE_WORDS
            first, *parts = dict.fromkeys(expansion.source for expansion in lexicon.expand(word))
            assert first == fold(word)
            # Beside a long phrase its words are looked up.
            assert not parts or (len(word) > 3 and not word.isascii() and all(part in first for part in parts)), word


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("what is my wife's birthday", {"太太", "老婆", "生日"}),
        ("妻子对什么过敏", {"wife", "allergy", "不能吃"}),
        ("他不能吃什么", {"忌口", "allergy"}),
        ("Which database did we pick?", {"数据库", "postgresql", "选择"}),
        ("we use postgres", {"postgresql", "database", "数据库"}),
        ("k8s 上的服务", {"kubernetes", "容器编排"}),
        ("when is the deadline", {"截止日期", "due date"}),
        ("会议推迟到什么时候", {"meeting", "postponed"}),
        ("does she have any pets", {"猫", "dog", "宠物"}),
        ("我住在北京", {"beijing", "live in"}),
        ("他们是怎么认识的", {"相识"}),
        ("会持续7天吗", {"一周", "seven days"}),
    ],
)
def test_shipped_words_meet_across_languages(lexicon: Lexicon, query: str, wanted: set[str]) -> None:
    assert wanted <= set(words(lexicon, query))


@given(st.text(max_size=200))
def test_any_text_is_survived_within_bounds(text: str) -> None:
    lexicon = Lexicon.load()
    found = lexicon.expand(text)
    assert found == lexicon.expand(text)
    assert len(found) <= IN_ALL
    assert len({expansion.word for expansion in found}) == len(found)


@given(
    st.lists(st.sampled_from([word for concept in Lexicon.load().concepts() for word in concept.words]), max_size=40)
)
def test_any_mixture_of_known_words_is_survived_within_bounds(chosen: list[str]) -> None:
    found = Lexicon.load().expand(" ".join(chosen))
    assert len(found) <= IN_ALL
    per_word: dict[str, int] = {}
    for expansion in found:
        per_word[expansion.source] = per_word.get(expansion.source, 0) + 1
    assert max(per_word.values(), default=0) <= PER_WORD
