from __future__ import annotations

from datetime import date

import pytest

from clawbot.config.schema_memory import LineWeights
from clawbot.memory.lexicon import Lexicon
from clawbot.memory.search.question import Question, understand

TODAY = date(2026, 11, 21)
SPEAKERS = {1: "Anna", 2: "Ben Smith", 3: "小明", 4: "Will"}
WORDS = Lexicon("coffee > latte | 咖啡 > 拿铁\nserver | 服务器\n")


def asked(text: str) -> Question:
    return understand(text, SPEAKERS, TODAY, WORDS, LineWeights())


def matches(text: str) -> set[str]:
    return {each.match for each in asked(text).wanted}


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        ("What did Anna say?", {1}),
        ("Anna's birthday", {1}),
        ("did Anna meet Ben", {1, 2}),
        ("小明喜欢什么", {3}),
        ("annals of history", set()),
        ("will it rain", set()),
    ],
)
def test_people_of_the_notes_are_known(text: str, speakers: set[int]) -> None:
    assert asked(text).speakers == speakers


def test_names_of_speakers_are_no_words_unless_there_are_no_others() -> None:
    assert matches("Where did Anna buy bread?") == {'"buy"', '"bread"'}
    assert matches("Anna") == {'"anna"'}
    assert not any("小" in match for match in matches("小明买面包"))


def test_other_words_count_less_and_name_their_weight() -> None:
    weights = LineWeights()
    (coffee,) = asked("coffee").wanted
    others = {each.match: each.weight for each in coffee.others}
    assert others['"latte"'] == weights.same_meaning
    assert others['"咖啡"'] == weights.same_meaning
    (latte,) = asked("latte").wanted
    assert {each.match: each.weight for each in latte.others}['"coffee"'] == weights.broader


@pytest.mark.parametrize(
    ("text", "longer"),
    [
        ("staging prox", ['"prox" *', '"pro" *']),
        ("where is Movin", ['"movin" *', '"mov" *']),
        ("代理prox", ['"prox" *', '"pro" *']),
        ("the pro", ['"pro" *']),
        ("user_ac", ['"ac" *']),
        ("flight lh117", ['"lh117" *']),
        ("8443", ['"8443" *']),
        ("prox ", []),
        ("prox?", []),
        ("prox 端口", []),
        ("staging p", []),
        ("grafana at the", []),
        ("", []),
    ],
)
def test_a_word_that_is_being_typed_stands_for_longer_ones(text: str, longer: list[str]) -> None:
    weights = LineWeights()
    asked = understand(text, SPEAKERS, TODAY, WORDS, weights, prefix=True)
    assert [each.match for one in asked.wanted for each in one.others if each.match.endswith("*")] == longer
    whole = understand(text, SPEAKERS, TODAY, WORDS, weights)
    assert not any(each.match.endswith("*") for one in whole.wanted for each in one.others)


def test_a_word_of_several_characters_is_looked_for_between_others() -> None:
    (server,) = asked("server").wanted
    assert [each.match for each in server.others] == ['"服务 务 务器"']
    assert all('"server"' in {other.match for other in each.others} for each in asked("服务器").wanted)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("What happened on 7 May 2023?", date(2023, 5, 7), date(2023, 5, 7)),
        ("bread yesterday", date(2026, 11, 20), date(2026, 11, 20)),
        ("上个月的面包", date(2026, 10, 1), date(2026, 10, 31)),
        ("Was habe ich gestern gekauft?", date(2026, 11, 20), date(2026, 11, 20)),
        ("¿Qué pan compré el 3 de mayo?", date(2026, 5, 3), date(2026, 5, 3)),
        ("le pain du mois dernier", date(2026, 10, 1), date(2026, 10, 31)),
        ("先月のパン", date(2026, 10, 1), date(2026, 10, 31)),
        ("지난달 빵", date(2026, 10, 1), date(2026, 10, 31)),
    ],
)
def test_dates_are_periods_and_no_words(text: str, start: date, end: date) -> None:
    (period,) = asked(text).days
    assert (period.start, period.end) == (start, end)
    assert not {'"7"', '"may"', '"2023"', '"yesterday"'} & matches(text)


def test_a_question_of_nothing_but_a_date_keeps_its_words() -> None:
    assert matches("2026-03-02")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "When was it?",
            "how long did it take",
            "什么时候去的",
            "他哪天来",
            "开了多久",
            "Seit wann?",
            "Wie lange bleibt er?",
        ),
        *("An welchem Tag war das?", "¿Desde cuándo?", "desde cuando vive aqui", "¿Cuánto tiempo?", "Depuis quand ?"),
        *("À quelle heure ?", "いつから", "どのくらいかかった", "何曜日?", "언제부터", "얼마나 걸렸어?", "몇 시야?"),
    ],
)
def test_asks_when(text: str) -> None:
    assert asked(text).asks_when


@pytest.mark.parametrize(
    "text",
    ["Who came?", "whenever", "去了哪里", "", "Wer war da?", "¿Quién vino de Madrid?", "Qui ?", "誰が来た?", "누구야?"],
)
def test_does_not_ask_when(text: str) -> None:
    assert not asked(text).asks_when


@pytest.mark.parametrize(
    "text",
    [
        "How many rooms are there?",
        "what size was the dump",
        "Wie viel kostet der Umzug?",
        "¿Cuánto debemos?",
        "房租多少钱",
        "会议有几个人",
        "人数はいくつ",
    ],
)
def test_asks_for_a_number(text: str) -> None:
    assert asked(text).asks_number


@pytest.mark.parametrize("text", ["How was it?", "what did she say about codes", "怎么去医院"])
def test_does_not_ask_for_a_number(text: str) -> None:
    assert not asked(text).asks_number
