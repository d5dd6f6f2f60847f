"""What a message is taken for: the phrase tables against many ways to say things, in English and Chinese."""

from __future__ import annotations

import pytest

from clawbot.llm.offline.answers import ANSWERS
from clawbot.llm.offline.intents import MAX_REQUEST, classify
from clawbot.llm.offline.language import detect, fold
from clawbot.llm.offline.replies import PHRASES, PLANS, TEXTS

# What is said, what it is taken for, and the words that are cut out of it ("" where they don't matter).
ENGLISH = [
    ("remember that I prefer tabs over spaces", "remember", "I prefer tabs over spaces"),
    ("Remember: the port is 8443", "remember", "the port is 8443"),
    ("please note: the standup is at 9:30", "remember", "the standup is at 9:30"),
    ("please remember my birthday is on 3 May", "remember", "my birthday is on 3 May"),
    ("Can you remember that I like tea?", "remember", "I like tea?"),
    ("could you please remember that my cat is called Mia", "remember", "my cat is called Mia"),
    ("don't forget that the key is under the mat", "remember", "the key is under the mat"),
    ("do not forget: the demo is on Friday", "remember", "the demo is on Friday"),
    ("Don’t forget the demo is on Friday", "remember", "the demo is on Friday"),
    ("keep in mind that we deploy on Tuesdays", "remember", "we deploy on Tuesdays"),
    ("note to self: buy stamps", "remember", "buy stamps"),
    ("make a note that the proxy moved to 8443", "remember", "the proxy moved to 8443"),
    ("write down that I am allergic to nuts", "remember", "I am allergic to nuts"),
    ("add to your memory: I use vim", "remember", "I use vim"),
    ("save this to memory: I use vim", "remember", "I use vim"),
    ("hi, please remember that I use vim", "remember", "I use vim"),
    ("I prefer dark themes, please remember that", "remember", "I prefer dark themes"),
    ("I prefer dark themes. Remember this!", "remember", "I prefer dark themes"),
    ("remember that", "remember", ""),
    ("please remember this.", "remember", ""),
    ('remember "the cake is a lie"', "remember", "the cake is a lie"),
    ("remember to call Bob", "todo", "call Bob"),
    ("don't forget to renew the certificate", "todo", "renew the certificate"),
    ("remind me to water the plants", "todo", "water the plants"),
    ("todo: write tests", "todo", "write tests"),
    ("do you remember what I prefer?", "recall", ""),
    ("what did we talk about?", "last_talk", ""),
    ("So where did we leave off last time?", "last_talk", ""),
    ("what were we working on before", "last_talk", ""),
    ("what did we talk about yesterday?", "recall", ""),
    ("what did we decide about the port last time?", "recall", ""),
    ("上次我们聊了什么", "last_talk", ""),
    ("我们之前讨论到哪里了？", "last_talk", ""),
    ("上次说的端口是什么?", "recall", ""),
    ("Do you remember that I prefer tabs?", "recall", ""),
    ("do you know my name?", "recall", ""),
    ("remember when we moved the proxy?", "recall", ""),
    ("remember what I told you about the proxy", "recall", ""),
    ("Can you remember what my wife's name is?", "recall", ""),
    ("can you remember my birthday?", "recall", ""),
    ("remember my birthday?", "recall", ""),
    ("tell me what I said about deployment", "recall", ""),
    ("what do I prefer?", "recall", ""),
    ("which port did the staging proxy use?", "recall", ""),
    ("where do I live", "recall", ""),
    ("who is my boss?", "recall", ""),
    ("what did we decide about the database", "recall", ""),
    ("search my notes for proxy", "recall", "proxy"),
    ("look for proxy in my notes", "recall", "proxy"),
    ("I remember that day well", "other", ""),
    ("I remember the old times fondly", "other", ""),
    ("what do you remember?", "recall_all", ""),
    ("what do you know about me?", "recall_all", ""),
    ("show me my notes", "recall_all", ""),
    ("what's in your memory?", "recall_all", ""),
    ("what are my todos?", "todos", ""),
    ("forget that I prefer tabs", "forget", "I prefer tabs"),
    ("delete the note about tabs", "forget", "tabs"),
    ("forget it", "nothing", ""),
    ("never mind", "nothing", ""),
    ("list files", "list", ""),
    ("list the files", "list", ""),
    ("what files are there?", "list", ""),
    ("what files do you have", "list", ""),
    ("show me the files in the workspace", "list", ""),
    ("list the files in memory", "list", "memory"),
    ("ls", "list", ""),
    ("ls memory/", "list", "memory/"),
    ("show AGENTS.md", "read", "AGENTS.md"),
    ("read the file AGENTS.md please", "read", "AGENTS.md"),
    ('open "notes/todo.txt"', "read", "notes/todo.txt"),
    ("what's in AGENTS.md?", "read", "AGENTS.md"),
    ("what does AGENTS.md say?", "read", "AGENTS.md"),
    ("can you show me memory/2026-11-20.md?", "read", "memory/2026-11-20.md"),
    ("search for proxy in my files", "search", "proxy"),
    ('search "a b"', "search", "a b"),
    ("which files mention grafana?", "search", "grafana"),
    ("grep TODO", "search", "TODO"),
    ("search for port in config.yaml", "search_in", "port"),
    ('append "hello world" to notes.md', "append", "hello world"),
    ('add "x" to notes.md', "append", "x"),
    ("append to notes.md: hello", "append", "hello"),
    ("create notes.md with hello there", "write", "hello there"),
    ('write "hello" to notes.md', "append", "hello"),
    ("create a file called notes.md", "write", ""),
    ("overwrite notes.md with new text", "overwrite", "new text"),
    ('replace "a" with "b" in notes.md', "replace", "b"),
    ("change foo to bar in notes.md", "replace", "bar"),
    ("in notes.md, replace foo with bar", "replace", "bar"),
    ("run `ls -la`", "run", "ls -la"),
    ("please execute `make test`.", "run", "make test"),
    ("$ git status", "run", "git status"),
    ("run ls -la", "run_hint", "ls -la"),
    ("delete notes.md", "delete", "notes.md"),
    ("help", "commands", ""),
    ("what commands are there?", "commands", ""),
    ("what does /new do?", "command", "new"),
    ("how do I switch the model?", "connect", ""),
    ("how can I connect Ollama?", "connect", ""),
    ("where do I put my API key?", "connect", ""),
    ("who are you?", "who", ""),
    ("are you ChatGPT?", "who", ""),
    ("what model are you?", "who", ""),
    ("what can you do?", "can", ""),
    ("how does this work?", "can", ""),
    ("what time is it?", "time", ""),
    ("what's the date today?", "time", ""),
    ("what day is it?", "time", ""),
    ("hello", "hello", ""),
    ("Hi there!", "hello", ""),
    ("good morning", "hello", ""),
    ("thanks!", "thanks", ""),
    ("ok thank you very much", "thanks", ""),
    ("ok", "agreed", ""),
    ("yes", "agreed", ""),
    ("bye", "bye", ""),
    ("write a poem about the sea", "other", ""),
    ("what is the capital of France?", "other", ""),
    ("I live in Berlin", "statement", ""),
    ("my name is Ada", "statement", ""),
]

CHINESE = [
    ("记住:我喜欢用制表符", "remember", "我喜欢用制表符"),
    ("记住我喜欢用制表符", "remember", "我喜欢用制表符"),
    ("请记一下,暂存代理的端口是 8443", "remember", "暂存代理的端口是 8443"),
    ("帮我记住明天的会改到三点", "remember", "明天的会改到三点"),
    ("别忘了我对花生过敏", "remember", "我对花生过敏"),
    ("请你记住我叫小明", "remember", "我叫小明"),
    ("记一下:周五发布", "remember", "周五发布"),
    ("我喜欢用制表符,请记住。", "remember", "我喜欢用制表符"),
    ("记住", "remember", ""),
    ("记得提醒我买牛奶", "todo", "买牛奶"),
    ("提醒我明天交报告", "todo", "明天交报告"),
    ("待办:写测试", "todo", "写测试"),
    ("我喜欢什么?", "recall", ""),
    ("你还记得我喜欢什么吗", "recall", ""),
    ("你记得我的名字吗?", "recall", ""),
    ("我之前说过什么关于部署的事?", "recall", ""),
    ("上次我们决定用什么数据库?", "recall", ""),
    ("我住在哪里", "recall", ""),
    ("记不记得我的生日", "recall", ""),
    ("在笔记里找一下代理", "recall", "代理"),
    ("你知道我什么?", "recall_all", ""),
    ("你都记得什么", "recall_all", ""),
    ("看看我的笔记", "recall_all", ""),
    ("我有什么待办?", "todos", ""),
    ("忘掉我喜欢制表符", "forget", ""),
    ("算了", "nothing", ""),
    ("看看工作区有什么文件", "list", ""),
    ("有哪些文件?", "list", ""),
    ("列出文件", "list", ""),
    ("读一下 AGENTS.md", "read", "AGENTS.md"),
    ("打开AGENTS.md", "read", "AGENTS.md"),
    ("AGENTS.md 里写了什么?", "read", "AGENTS.md"),
    ("看看 memory/2026-11-20.md 的内容", "read", "memory/2026-11-20.md"),
    ("搜索 代理", "search", "代理"),
    ("在文件里搜索代理", "search", "代理"),
    ("在 notes.md 里追加:你好", "append", "你好"),
    ('把"你好"追加到 notes.md', "append", "你好"),
    ("创建 notes.md,内容是你好", "write", "你好"),
    ("把 notes.md 里的 甲 改成 乙", "replace", "乙"),
    ("运行 `ls -la`", "run", "ls -la"),
    ("执行`make test`", "run", "make test"),
    ("你是谁?", "who", ""),
    ("你是什么模型", "who", ""),
    ("你能做什么?", "can", ""),
    ("有哪些命令?", "commands", ""),
    ("怎么切换模型?", "connect", ""),
    ("如何连接 Ollama", "connect", ""),
    ("现在几点了?", "time", ""),
    ("今天几号", "time", ""),
    ("今天星期几?", "time", ""),
    ("你好", "hello", ""),
    ("谢谢!", "thanks", ""),
    ("好的", "agreed", ""),
    ("再见", "bye", ""),
    ("写一首诗", "other", ""),
    ("法国的首都是什么?", "other", ""),
    ("我住在柏林", "statement", ""),
    ("/new 是做什么的?", "command", "new"),
    ("请显示 AGENTS.md", "read", "AGENTS.md"),
    ("请看看 notes.md", "read", "notes.md"),
]

# Sentences that hold the words of a request without making it.
NOT_MEANT = [
    ("I remember that day well", "other", ""),
    ("I can't remember that.", "other", ""),
    ("why did I write this", "recall", ""),
    ("how do I remember this", "recall", ""),
    ("what is in v2.0?", "other", ""),
    ("我没记住", "other", ""),
    ("记住了吗?", "other", ""),
    ("记录显示代理挂了", "other", ""),
    ("我忘了告诉你", "other", ""),
    ("提醒我一下上次说了什么", "recall", ""),
    ("remind me what we decided", "recall", ""),
    ("记得我妈妈的生日是五月", "remember", "我妈妈的生日是五月"),
    ("把代理端口是 8443 记下来", "remember", "代理端口是 8443"),
    ("I prefer dark themes so please remember that", "remember", "I prefer dark themes"),
]

MIXED = [
    ("请记住 that I prefer tabs", "remember", "that I prefer tabs"),
    ("remember that 我喜欢制表符", "remember", "我喜欢制表符"),
    ("search for 代理", "search", "代理"),
    ("show 笔记.md", "read", "笔记.md"),
]


@pytest.mark.parametrize(("said", "kind", "words"), ENGLISH + CHINESE + NOT_MEANT + MIXED)
def test_a_message_is_taken_for_what_it_asks(said: str, kind: str, words: str) -> None:
    found = classify(said, detect(said) or "en")
    assert found.kind == kind
    if words:
        assert words in (found.text, found.path)


def test_full_width_signs_are_read_as_plain_ones() -> None:
    assert classify("记住：我喜欢用制表符。", "zh").text == "我喜欢用制表符。"
    assert classify("ｒｅｍｅｍｂｅｒ that I use vim", "en").text == "I use vim"
    assert classify("读一下 “AGENTS.md”？", "zh").path == "AGENTS.md"


def test_the_words_stay_as_they_were_typed() -> None:
    assert classify("remember that I said “ＨＥＬＬＯ”,didn’t I", "en").text == "I said “ＨＥＬＬＯ”,didn’t I"


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u3000"])
def test_no_words_at_all(text: str) -> None:
    assert classify(text, "en").kind == "empty"


def test_a_paste_is_no_phrase() -> None:
    assert classify("list files " * MAX_REQUEST, "en").kind == "long"
    assert classify("remember that " + "x" * MAX_REQUEST, "en").kind == "remember"


def test_every_kind_has_an_answer_and_every_answer_both_languages() -> None:
    kinds = {kind for _, kind, _ in ENGLISH + CHINESE} | {"empty", "long", "secret", "overwrite"}
    assert kinds <= PLANS.keys() | TEXTS.keys() | PHRASES.keys()
    assert set(PHRASES.values()) <= ANSWERS.keys()
    assert all(set(texts) == {"en", "zh"} and all(texts.values()) for texts in ANSWERS.values())


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("what do I prefer?", "en"),
        ("我喜欢什么?", "zh"),
        ("打开 AGENTS.md", "zh"),
        ("运行 `git log --oneline --all`", "zh"),
        ("what does 部署 mean?", "en"),
        ("remember that 我喜欢用制表符", "zh"),
        ("私はタブが好きです", "en"),
        ("", None),
        ("12345 !?", None),
    ],
)
def test_the_language_of_a_text(text: str, language: str | None) -> None:
    assert detect(text) == language


def test_folding_keeps_every_position() -> None:
    text = "记住：ＡＢ\u3000“x”……\x1bİß"
    assert len(fold(text)) == len(text)
