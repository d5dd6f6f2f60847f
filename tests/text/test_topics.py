"""What a talk is about, by what the user said in all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.secrets import MARK
from clawbot.text.topics import topics, words


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (
            [
                "remember that my dog is called Bella",
                "what's my dog's name?",
                "we use PostgreSQL 16 for the orders database",
                "which database do we use?",
                "run `ls`",
                "summarize our conversation",
            ],
            ["dog", "bella", "database"],
        ),
        (
            ["hi", "what day is it?", "what time is it in UTC?", "is it Sunday?", "my dentist is Dr. Weber on Friday"],
            ["dentist", "weber"],
        ),
        (
            ["our offices are in Lisbon now", "list files", "show AGENTS.md", "what did we talk about?"],
            ["offices", "lisbon"],
        ),
        (["good morning", "the harbour opens at six", "thanks, that's great!"], ["harbour", "opens"]),
        (["The cats sleep", "a cat ate", "one more Cat", "blue birds"], ["cats", "sleep", "ate"]),
        (["My cat is called Miso", "What does a cat eat?"], ["cat", "miso"]),
        (["Deploy https://example.com/staging now, see `make x` and /srv/app/run.py"], ["deploy"]),
        (["what is the problem?", "the version of the file"], ["problem", "version"]),
        (["记住我喜欢绿茶", "忘掉我喜欢绿茶", "运行 `ls`", "总结我们的对话", "谢谢,你真棒!"], ["绿茶"]),
        (["我喜欢喝绿茶", "我的狗叫豆豆", "我的狗叫什么名字？", "PostgreSQL 的端口"], ["喝绿茶", "狗", "postgresql"]),
        (["部署代理的端口改成什么?", "部署脚本里代理端口还是旧的"], ["部署", "代理", "端口"]),
        (["帮我计划去里斯本旅行", "三月机票太贵了", "里斯本的酒店"], ["里斯本", "机票", "酒店"]),
        (["用Redis做缓存可以吗"], ["redis", "缓存"]),
        (["データベースの移行計画を立てたい"], ["データベース", "移行計画"]),
        (["Добавь тесты для парсера"], ["добавь", "тесты", "для"]),
        (["hello", "谢谢", "ok?", "12345", "run it", "你好", "good morning!"], []),
        ([f"my API key is {MARK}"], ["api", "key"]),
        ([], []),
    ],
)
def test_the_subject_of_a_talk(texts: list[str], found: list[str]) -> None:
    assert topics(texts) == found


def test_what_comes_up_again_and_again_counts_more_than_what_is_said_last() -> None:
    talk = ["the telescope is dusty", "clean the telescope", "where is the telescope?", *["tell me a joke"] * 3]
    assert topics([*talk, "violins, trumpets, drums and oboes"], 1) == ["telescope"]
    assert topics(["violin"] * 2 + ["oboe " * 50], 1) == ["violin"]


@given(st.lists(st.text(max_size=60), max_size=8))
def test_topics_are_words_of_the_texts(texts: list[str]) -> None:
    said = "".join("".join(words(text)) for text in texts)
    found = topics(texts)
    assert len(found) <= 3
    assert all(word and word in said for word in found)


def test_a_long_talk_takes_no_long_time() -> None:
    """Pastes of thousands of characters, without a word that parts them."""
    assert topics(["备份数据恢复" * 700, "tulip " * 900] * 500)
