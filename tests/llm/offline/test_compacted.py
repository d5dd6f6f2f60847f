"""What stands for compacted turns: it is no question, and a turn that was cut in two ends with a sensible answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.offline import OfflineModel
from clawbot.llm.offline.compacted import Compacted, read_compacted
from clawbot.llm.offline.turn import read_turn
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from tests.llm.offline.talk import NOW, TODAY, Files, FixedClock, Talk, collect

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


class TestForm:
    def test_a_summary_and_the_request_behind_it(self) -> None:
        assert read_compacted(compacted().text) == Compacted(SUMMARY)
        assert read_compacted(compacted("list files").text) == Compacted(SUMMARY, "list files")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "what does `<summary>\n` mean?",
            "<details><summary>\nmore\n</summary>",
            "<summary>\nopen",
            "closed\n</summary>",
            "<summary>\nx\n</summary>\n\nand what now?",
            "<summary>\nx\n</summary>\n\none\n\ntwo\n\n<request>\ny\n</request>",
            "<request>\nlist files\n</request>",
        ],
    )
    def test_other_texts_were_said_by_somebody(self, text: str) -> None:
        assert read_compacted(text) is None

    @given(request=st.text(min_size=1).map(str.strip).filter(bool))
    def test_any_request_is_read_to_the_letter(self, request: str) -> None:
        assert read_compacted(compacted(request).text) == Compacted(SUMMARY, request)

    def test_of_a_request_that_was_shortened_nothing_is_done(self) -> None:
        found = read_compacted(compacted("remember that a\n[... 4,000 of 9,000 characters left out ...]\nb").text)
        assert found is not None
        assert (found.request[:8], found.question) == ("remember", "")


class TestTurn:
    def test_the_request_is_what_the_user_said_last(self) -> None:
        turn = read_turn(ChatRequest("", (compacted("我叫什么?"), *done("grep", "No matches."))), NOW)
        assert (turn.text, turn.language, turn.resumed, len(turn.rounds)) == ("我叫什么?", "zh", True, 1)

    def test_without_a_request_there_is_no_text_but_a_language(self) -> None:
        turn = read_turn(ChatRequest("", (compacted(summary="## Goal\n- 用户想知道港口几点开门"),)), NOW)
        assert (turn.text, turn.language, turn.resumed) == ("", "zh", True)

    def test_summaries_are_nothing_that_the_user_said(self) -> None:
        messages = (UserMessage("one"), compacted(), compacted("two"), UserMessage("three"))
        turn = read_turn(ChatRequest("", messages), NOW)
        assert (turn.earlier_user_texts, turn.text, turn.resumed) == (["one", "two"], "three", False)


class TestResumed:
    @pytest.mark.parametrize(
        ("request_", "quoted"),
        [("show a.md", "`a.md`:\n\n```text\nfirst line"), ("读一下 a.md", "`a.md`:\n\n```text\nfirst line")],
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
            ("记住:我喜欢用制表符", "已经完成的是(没有重复执行)"),
            ("", "This was done"),
        ],
    )
    async def test_a_write_whose_beginning_is_gone_is_told_and_not_repeated(self, request_: str, said: str) -> None:
        write = done("append", f"Appended to {TODAY}.", path=TODAY, content="- I prefer tabs\n")
        answer = await reply(compacted(request_), *write)
        assert not answer.tool_calls
        assert said in answer.text
        assert f"`{TODAY}`" in answer.text
        assert "> - I prefer tabs" in answer.text
        assert "nother model" not in answer.text
        assert "另一个模型" not in answer.text

    async def test_a_write_before_other_steps_is_told_as_well(self) -> None:
        write = done("append", "Created a.md.", path="a.md", content="one\n")
        answer = await reply(compacted("fix it all"), *write, *done("shell", "exit code 1", failed=True, command="x"))
        assert "`append` wrote to `a.md`:\n\n> one" in answer.text
        assert "`shell` answered\n\n> exit code 1" in answer.text

    async def test_a_write_that_failed_is_not_told_as_done(self) -> None:
        write = done("append", "the disk is full", failed=True, path=TODAY, content="- I prefer tabs\n")
        answer = await reply(compacted("remember that I prefer tabs"), *write)
        assert "wrote" not in answer.text
        assert "> the disk is full" in answer.text

    async def test_a_secret_is_not_repeated(self) -> None:
        write = done("append", "Done.", path=TODAY, content="- my password is hunter2\n")
        assert "hunter2" not in (await reply(compacted("remember that"), *write)).text

    @pytest.mark.parametrize(
        ("request_", "said"), [("what did I say on 2026-01-02 about gates?", "The last step was"), ("", "last step")]
    )
    async def test_what_the_last_search_found_is_quoted_with_its_place(self, request_: str, said: str) -> None:
        found = done("grep", "memory/2026-01-02.md:4:- the gate opens at noon", pattern="gate", glob="*.md")
        answer = await reply(compacted(request_), *found)
        assert said in answer.text
        assert "> the gate opens at noon\n>\n> — `memory/2026-01-02.md:4`" in answer.text
        assert not answer.tool_calls

    async def test_a_later_search_is_not_taken_for_the_first(self) -> None:
        """Of the same tool, but with other words: it would be answered from as the notes of that day."""
        later = done("grep", "memory/2026-03-09.md:1:- gates are blue", pattern="gates", glob="memory/2026-03*.md")
        answer = await reply(compacted("what did I note on 2026-01-02 about gates?"), *later)
        assert "Your notes of 2026-01-02" not in answer.text
        assert "memory/2026-03-09.md:1" in answer.text

    async def test_the_answer_is_in_the_users_language(self) -> None:
        found = done("grep", "memory/2026-01-02.md:4:- the gate opens at noon", pattern="x")
        assert "最后一步是 `grep`" in (await reply(compacted("港口几点开门?"), *found)).text

    @pytest.mark.parametrize(
        ("request_", "tool"),
        [('append "hello" to a.md', "append"), ("run `make deploy`", "shell"), ("把 a.md 里的 甲 改成 乙", "edit")],
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
        assert "Send your message again" in answer.text

    async def test_another_model_is_named_only_without_a_summary(self) -> None:
        calls = done("shell", "ok", command="ls")
        assert "Another model" in (await reply(UserMessage("what do I prefer?"), *calls)).text
        assert "nother model" not in (await reply(compacted("what do I prefer?"), *calls)).text


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
        assert "the summary of what was said earlier" in english
        assert "> We decided to use Postgres 16." in english
        assert "you said" not in english
        assert "摘要" in await talk.say("我们用 Postgres 吗?")


@given(text=st.text(alphabet="<>/summaryreqt\n x", max_size=200))
def test_any_text_is_read(text: str) -> None:
    found = read_compacted(text)
    assert found is None or found.summary in text


async def test_a_megabyte_of_openings_is_read_as_fast_as_any_text() -> None:
    """A pattern would look for the end from each of them."""
    text = "\n<summary>\n" * 90_000
    final = await collect(OfflineModel(FixedClock()), ChatRequest("", (UserMessage(text),)))
    assert final[-1].message.text
