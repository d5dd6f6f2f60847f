"""What stands for compacted turns: it is no question, and a turn that was cut in two ends with a sensible answer."""

from __future__ import annotations

import pytest

from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from tests.llm.offline.talk import TODAY, Files, Talk

SUMMARY = "## Decisions\n- We decided to use Postgres 16.\n\n## Constraints\n- never restart the harbour proxy by day"
PREAMBLE = "The conversation before this point was compacted. This summary stands for it:"


def compacted(request: str = "", summary: str = SUMMARY) -> UserMessage:
    """The message that stands for compacted turns, and for the beginning of the one with `request`."""
    behind = f"\n\nThe message that you are answering:\n\n<request>\n{request}\n</request>" if request else ""
    return UserMessage(f"{PREAMBLE}\n\n<summary>\n{summary}\n</summary>{behind}", timestamp=7)


def done(name: str, answer: str, *, failed: bool = False, **arguments: str) -> list[Message]:
    """A call and its result."""
    call = ToolCallBlock(f"c-{name}", name, dict(arguments))
    return [
        AssistantMessage([call], provider="offline"),
        ToolResultMessage(call.id, name, [TextBlock(answer)], is_error=failed),
    ]


async def reply(*messages: Message) -> AssistantMessage:
    talk = Talk()
    talk.messages = list(messages)
    return await talk.ask()


class TestResumed:
    @pytest.mark.parametrize(
        ("request_", "quoted"),
        [("show a.md", "`a.md`:\n\n```text\nfirst line"), ("读一下 a.md", "`a.md`：\n\n```text\nfirst line")],
    )
    async def test_a_turn_whose_calls_are_all_there_goes_on(self, request_: str, quoted: str) -> None:
        answer = await reply(compacted(request_), *done("read", "first line", path="a.md"))
        assert quoted in answer.text

    async def test_a_fact_is_stored_after_the_look_that_was_kept(self) -> None:
        talk = Talk()
        await talk.say("remember that I prefer tabs")
        talk.messages = [compacted("remember that I prefer tabs"), *talk.messages[1:4]]
        answer = await talk.ask()
        assert [(call.name, call.arguments["path"]) for call in answer.tool_calls] == [("append", TODAY)]

    @pytest.mark.parametrize(
        ("request_", "said"),
        [
            ("remember that I prefer tabs", "This was done, and I did not do it twice"),
            ("记住:我喜欢用制表符", "已经完成的是（没有重复执行）"),
            ("", "This was done"),
        ],
    )
    async def test_a_write_whose_beginning_is_gone_is_told_and_not_repeated(self, request_: str, said: str) -> None:
        write = done("append", f"Appended to {TODAY}.", path=TODAY, content="- I prefer tabs\n")
        answer = await reply(compacted(request_), *write)
        assert not answer.tool_calls
        assert said in answer.text
        assert f"`{TODAY}`" in answer.text

    async def test_a_write_that_failed_is_not_told_as_done(self) -> None:
        write = done("append", "the disk is full", failed=True, path=TODAY, content="- I prefer tabs\n")
        answer = await reply(compacted("remember that I prefer tabs"), *write)
        assert "wrote" not in answer.text
        assert "> the disk is full" in answer.text

    async def test_a_secret_is_not_repeated(self) -> None:
        write = done("append", "Done.", path=TODAY, content="- my password is hunter2\n")
        assert "hunter2" not in (await reply(compacted("remember that"), *write)).text

    async def test_what_the_last_tool_said_is_quoted(self) -> None:
        found = done("grep", "memory/2026-01-02.md:4:- the gate opens at noon", pattern="gate", glob="*.md")
        answer = await reply(compacted("show a.md"), *found)
        assert "The last step was `grep`:\n\n> memory/2026-01-02.md:4:- the gate opens at noon" in answer.text
        assert not answer.tool_calls

    async def test_a_later_call_is_not_taken_for_the_first(self) -> None:
        """Of the same tool, but of another file: it would be shown as the one that was asked for."""
        answer = await reply(compacted("show a.md"), *done("read", "b", path="b.md"))
        assert "`a.md`" not in answer.text

    @pytest.mark.parametrize(
        ("request_", "tool"),
        [('append "hello" to a.md', "append"), ("run `make deploy`", "shell"), ("运行 make deploy", "shell")],
    )
    async def test_with_no_step_left_nothing_is_done_that_may_have_been_done(self, request_: str, tool: str) -> None:
        answer = await reply(compacted(request_))
        assert not answer.tool_calls
        assert f"`{tool}`" in answer.text

    async def test_with_no_step_left_looking_is_harmless(self) -> None:
        assert [call.name for call in (await reply(compacted("show a.md"))).tool_calls] == ["read"]

    async def test_half_a_request_is_not_carried_out(self) -> None:
        looked = done("grep", "No matches.", pattern="x")
        answer = await reply(compacted("remember that a\n[... 40 of 90 characters left out ...]\nb"), *looked)
        assert not answer.tool_calls
        assert "can't go on" in answer.text


class TestLater:
    async def test_a_question_after_a_compaction_is_answered_as_ever(self) -> None:
        talk = Talk(Files({"MEMORY.md": "- I prefer tabs\n"}))
        talk.messages = [compacted("old"), AssistantMessage([TextBlock("fine")], provider="offline")]
        assert "MEMORY.md:1" in await talk.say("what do I prefer?")

    async def test_that_means_the_request_and_not_the_summary(self) -> None:
        talk = Talk()
        talk.messages = [compacted("I prefer tabs."), AssistantMessage([TextBlock("ok")], provider="offline")]
        await talk.say("remember that")
        assert talk.files.texts[TODAY].endswith("\n- I prefer tabs.\n")

    async def test_what_only_the_summary_holds_is_quoted_as_such(self) -> None:
        talk = Talk()
        talk.messages = [compacted()]
        english = await talk.say("what did we decide about Postgres?")
        assert "The summary of this conversation" in english
        assert "> We decided to use Postgres 16." in english
        assert "you said" not in english
        assert "摘要" in await talk.say("我们用 Postgres 吗?")
