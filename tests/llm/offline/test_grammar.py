"""What a message is taken for: the grammar against many ways to say things, in English and Chinese."""

from __future__ import annotations

import pytest

from clawbot.languages.tables import table
from clawbot.llm.offline.model import PLANS
from clawbot.llm.offline.turn import MAX_REQUEST, classify
from clawbot.text.language import detect

# What is said, what it is taken for, and the words that are cut out of it ("" where they don't matter).
ENGLISH = [
    ("please note: the standup is at 9:30", "remember", "the standup is at 9:30"),
    ("Don’t forget the demo is on Friday", "remember", "the demo is on Friday"),
    ("hi, please remember that I use vim", "remember", "I use vim"),
    ("I prefer dark themes. Remember this!", "remember", "I prefer dark themes"),
    ("I prefer dark themes so please remember that", "remember", "I prefer dark themes"),
    ("remind me to water the plants", "remember", "water the plants"),
    ("For future reference, the spare key is under the pot", "remember", "the spare key is under the pot"),
    ("Can you save that our router is at 192.168.7.1?", "remember", "our router is at 192.168.7.1?"),
    ("please store: VAT number is DE123", "remember", "VAT number is DE123"),
    ("pls note that the code is 77", "remember", "the code is 77"),
    ("please remember this.", "remember", ""),
    ("do you remember what I prefer?", "recall", ""),
    ("remember what I told you about the proxy", "recall", ""),
    ("can you remember my birthday?", "recall", ""),
    ("what do I prefer?", "recall", ""),
    ("what did we talk about yesterday?", "recall", ""),
    ("search my notes for proxy", "recall", "proxy"),
    ("what did we talk about?", "told", ""),
    ("what did we talk about last time?", "last", ""),
    ("please summarize our conversation", "told", ""),
    ("give me a summary of our conversation", "told", ""),
    ("summarise our last conversation", "last", ""),
    ("what were we talking about last time", "last", ""),
    ("where did we leave off?", "last", ""),
    ("what did I tell you about the proxy?", "recall", ""),
    ("what do you know about me?", "notes", ""),
    ("forget that I prefer tabs", "forget", ""),
    ("list the files in memory", "list", "memory"),
    ("can you show me memory/2026-11-20.md?", "read", "memory/2026-11-20.md"),
    ('append "hello world" to notes.md', "append", "hello world"),
    ("create notes.md with hello there", "create", "hello there"),
    ("create a file called notes.md", "create", "notes.md"),
    ("run `ls -la`", "run", "ls -la"),
    ("$ git status", "run", "git status"),
    ("what can you do?", "help", ""),
    ("thanks, that's great!", "thanks", ""),
    ("awesome, thanks!", "thanks", ""),
    ("that's really helpful, thank you! :)", "thanks", ""),
    ("I really appreciate it", "thanks", ""),
    ("that helped a lot", "praise", ""),
    ("well done, clawbot", "praise", ""),
    ("that's not great", "statement", ""),
    ("2026-11-22", "ask", ""),
    ("thanks, what do I prefer?", "recall", ""),
    ("thanks, my dog is called Bruno", "statement", ""),
    ("write a poem about the sea", "ask", ""),
    ('replace "a" with "b" in notes.md', "ask", ""),
    ("I remember that day well", "statement", ""),
    ("run through the plan with me", "ask", ""),
]

CHINESE = [
    ("请记一下,暂存代理的端口是 8443", "remember", "暂存代理的端口是 8443"),
    ("我喜欢用制表符,请记住。", "remember", "我喜欢用制表符"),
    ("记得提醒我买牛奶", "remember", "买牛奶"),
    ("记住", "remember", ""),
    ("你还记得我喜欢什么吗", "recall", ""),
    ("上次我们聊了什么", "last", ""),
    ("提醒我一下上次说了什么", "last", ""),
    ("总结一下上次的对话", "last", ""),
    ("我告诉过你什么?", "told", ""),
    ("我们刚才聊了什么?", "told", ""),
    ("总结一下我们的对话", "told", ""),
    ("忘掉我喜欢制表符", "forget", ""),
    ("算了", "agreed", ""),
    ("AGENTS.md 里写了什么?", "read", "AGENTS.md"),
    ("在 notes.md 里追加:你好", "append", "你好"),
    ('把"你好"追加到 notes.md', "append", "你好"),
    ("创建 notes.md,内容是你好", "create", "你好"),
    ("谢谢,你真棒!", "thanks", ""),
    ("谢谢,我的狗叫布鲁诺", "statement", ""),
    ("太棒了!", "praise", ""),
    ("太好了,谢谢😊", "thanks", ""),
    ("多谢,帮大忙了", "thanks", ""),
    ("你做得很好", "praise", ""),
    ("不太好", "statement", ""),
    ("好的", "agreed", ""),
    ("把 notes.md 里的 甲 改成 乙", "ask", ""),
    ("记录显示代理挂了", "statement", ""),
]

MIXED = [
    ("请记住 that I prefer tabs", "remember", "that I prefer tabs"),
    ("remember that 我喜欢制表符", "remember", "我喜欢制表符"),
    ("show 笔记.md", "read", "笔记.md"),
    ("记住：我喜欢用制表符。", "remember", "我喜欢用制表符。"),
    ("ｒｅｍｅｍｂｅｒ that I said “ＨＥＬＬＯ”,didn’t I", "remember", "I said “ＨＥＬＬＯ”,didn’t I"),
    ("读一下 “AGENTS.md”？", "read", "AGENTS.md"),
    (" \n\t\u3000", "empty", ""),
    ("list files " * MAX_REQUEST, "statement", ""),
    ("remember that " + "x" * MAX_REQUEST, "remember", ""),
]


@pytest.mark.parametrize(("said", "kind", "words"), ENGLISH + CHINESE + MIXED)
def test_a_message_is_taken_for_what_it_asks(said: str, kind: str, words: str) -> None:
    found = classify(said, detect(said) or "en")
    assert found.kind == kind
    if words:
        assert words in (found.text, found.path)


def test_every_kind_has_an_answer_and_every_answer_both_languages() -> None:
    kinds = {kind for _, kind, _ in ENGLISH + CHINESE} | {"empty", "secret", "list", "read", "help", "hello", "bye"}
    english, chinese = (table(language, "replies") for language in ("en", "zh"))
    assert kinds <= PLANS.keys() | english.keys()
    assert english.keys() == chinese.keys()
    assert all((*english.values(), *chinese.values()))
