"""Files and commands by plain requests, and what the model says of itself and the program."""

from __future__ import annotations

import pytest

from clawbot.llm.offline.about import ALWAYS
from tests.llm.offline.talk import Files, Talk


def some() -> Files:
    return Files({"AGENTS.md": "# Rules\n\nBe kind.\n", "notes.md": "hello\n", "memory/2026-11-01.md": "- a proxy\n"})


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ("list files", "AGENTS.md\nmemory/\nnotes.md"),
        ("看看工作区有什么文件", "AGENTS.md\nmemory/\nnotes.md"),
        ("list the files in memory", "2026-11-01.md"),
        ("show AGENTS.md", "# Rules\n\nBe kind."),
        ("读一下 AGENTS.md", "# Rules\n\nBe kind."),
        ("search for PROXY in my files", "memory/2026-11-01.md:1:- a proxy"),
        ("搜索 proxy", "memory/2026-11-01.md:1:- a proxy"),
        ("search for hello in notes.md", "notes.md:1:hello"),
        ("run `ls -la`", "ran ls -la"),
        ("运行 `ls -la`", "ran ls -la"),
    ],
)
async def test_what_a_tool_answers_is_shown_fenced(said: str, held: str) -> None:
    assert f"```text\n{held}\n```" in await Talk(some()).say(said)


@pytest.mark.parametrize(
    ("said", "path", "text"),
    [
        ('append "world" to notes.md', "notes.md", "hello\nworld\n"),
        ("在 notes.md 里追加:你好", "notes.md", "hello\n你好\n"),
        ("create new.md with some text", "new.md", "some text\n"),
        ("创建 new.md,内容是你好", "new.md", "你好\n"),
        ("overwrite notes.md with bye", "notes.md", "bye\n"),
        ('replace "hello" with "bye" in notes.md', "notes.md", "bye\n"),
        ("把 notes.md 里的 hello 改成 再见", "notes.md", "再见\n"),
    ],
)
async def test_files_are_written(said: str, path: str, text: str) -> None:
    files = some()
    await Talk(files).say(said)
    assert files.texts[path] == text


async def test_a_file_that_exists_is_not_replaced_unasked() -> None:
    files = some()
    reply = await Talk(files).say("create notes.md with new text")
    assert "exists already" in reply
    assert files.texts["notes.md"] == "hello\n"
    assert "What should stand in it?" in await Talk(files).say("create empty.md")


async def test_searching_takes_the_words_as_they_are() -> None:
    files = Files({"a.md": "a.b\naxb\n"})
    reply = await Talk(files).say("search for `a.b` in my files")
    assert "a.md:1:a.b" in reply
    assert "axb" not in reply
    assert "No file of the workspace holds “(((”" in await Talk(files).say("search for (((")
    assert "`a.md` does not hold" in await Talk(files).say("search for zzz in a.md")


async def test_long_output_is_shortened_with_a_notice() -> None:
    files = Files({"long.md": "\n".join(f"line {n}" for n in range(500)), "wide.md": "x" * 50_000})
    reply = await Talk(files).say("show long.md")
    assert "60 of 500 lines" in reply
    assert "line 59\n```" in reply
    reply = await Talk(files).say("show wide.md")
    assert len(reply) < 5_000
    assert "Shortened" in reply


async def test_a_fence_in_a_file_does_not_end_the_block() -> None:
    reply = await Talk(Files({"x.md": "````\ncode\n````\n# not a heading of the reply"})).say("show x.md")
    assert "`````text\n````\ncode" in reply
    assert reply.endswith("`````")


@pytest.mark.parametrize(
    ("said", "tool"),
    [
        ("list files", "list"),
        ("show AGENTS.md", "read"),
        ("search for x in my files", "grep"),
        ("append x to notes.md", "append"),
        ("create x.md with y", "write"),
        ("overwrite x.md with y", "write"),
        ('replace "a" with "b" in x.md', "edit"),
        ("run `ls`", "shell"),
    ],
)
async def test_a_tool_that_is_missing_or_fails_is_named(said: str, tool: str) -> None:
    assert f"`{tool}`" in await Talk(tools=()).say(said)
    reply = await Talk(Files(failing={tool: "The user refused: not now"})).say(said)
    assert "did not work" in reply
    assert "> The user refused: not now" in reply


async def test_a_command_without_backticks_is_not_run() -> None:
    talk = Talk()
    assert "run `ls -la`" in await talk.say("run ls -la")
    assert not talk.files.calls


async def test_commands_are_the_usual_ones_without_a_list_in_the_prompt() -> None:
    reply = await Talk().say("what commands are there?")
    assert [line.split("`")[1] for line in reply.splitlines() if line.startswith("- ")] == list(ALWAYS)
    assert "no command `/memory`" in await Talk().say("what does /memory do?")


async def test_commands_of_the_prompt_are_explained_and_no_others() -> None:
    system = (
        "## Commands\n\n- `/new [text]` — fresh\n- `/compact`: make room\n- `/dance` — moves\n\nUse `/help` when lost."
    )
    reply = await Talk(system=system).say("/help")
    assert "`/compact` summarises" in reply
    assert "`/dance` moves" in reply
    assert "/sessions" not in reply
    assert "总结" in await Talk(system=system).say("/compact 是做什么的?")


async def test_it_says_what_it_is_and_how_to_get_more() -> None:
    for said in ("who are you?", "are you ChatGPT?", "what model are you?"):
        reply = await Talk().say(said)
        assert "not a language model" in reply
        assert "/model" in reply
        assert "Ollama" in reply
    assert "不是语言模型" in await Talk().say("你是谁?")
    assert "ANTHROPIC_API_KEY" in await Talk().say("how do I connect a model?")
    assert "/model" in await Talk().say("怎么切换模型?")


async def test_the_time_is_that_of_the_clock() -> None:
    assert await Talk().say("what time is it?") == "It is 10:41 on Friday, 2026-11-20 (Europe/Berlin)."
    assert "星期五" in await Talk().say("今天星期几?")


async def test_small_talk_is_short_and_in_the_users_language() -> None:
    for said in ("hello", "thanks", "ok", "bye", "你好", "谢谢", "好的", "再见"):
        talk = Talk()
        assert len(await talk.say(said)) < 200
        assert not talk.files.calls
    talk = Talk()
    await talk.say("你好")
    assert "没有看到文字" in await talk.say("   ")


async def test_the_first_run_ritual_is_not_acted_out() -> None:
    system = "# Project Context\n\n## BOOTSTRAP.md\n\nSay hello and ask for a name. Then delete this file."
    assert "I run offline" in await Talk(system=system).say("hello")
