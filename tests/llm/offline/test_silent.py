"""The turns that nobody sees: the flush into memory, the summary, and the name of a conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.schema_agent import FLUSH_PROMPT
from clawbot.context.compaction.prompts import serialise
from clawbot.llm.offline.silent import MAX_NAMES, Utterance, names
from clawbot.llm.tokens import weigh_tokens
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.text.naming import TITLE_QUESTION, title_in
from tests.llm.cases import read_cases
from tests.llm.offline.talk import TODAY, Files, Talk
from tests.tables import load_table

CASES = read_cases("offline/silent")

PROMPT = FLUSH_PROMPT.replace("YYYY-MM-DD", "2026-11-19")
TARGET = "memory/2026-11-19.md"
HEADINGS = load_table(__file__, "HEADINGS")


def said(*texts: str) -> list[Message]:
    """A talk with a model that is not the offline one, user first."""
    return [
        UserMessage(text) if number % 2 == 0 else AssistantMessage([TextBlock(text)], provider="openai")
        for number, text in enumerate(texts)
    ]


async def flushed(*earlier: Message, files: Files | None = None) -> Files:
    """The files after a flush behind `earlier`, which says nothing."""
    talk = Talk(files)
    talk.messages = list(earlier)
    assert await talk.say(PROMPT, "flush") == "NO_REPLY"
    return talk.files


def called(tool: str, argument: str, text: str, *, fails: bool = False) -> list[Message]:
    """A call of another model, and its result."""
    call = ToolCallBlock("c1", tool, {argument: text})
    return [
        AssistantMessage([call], provider="openai"),
        ToolResultMessage("c1", tool, [TextBlock("the disk is full" if fails else "fine")], is_error=fails),
    ]


class TestFlush:
    async def test_durable_facts_go_to_the_file_of_the_prompt(self) -> None:
        talk = said(
            "Hi there! My name is Ada.",
            "Hello Ada, I decided to be nice.",
            "We decided to use Postgres 16. What do you think?",
            "Good.",
            "我们约定所有接口统一返回 snake_case。今天天气不错。",
            "好的。",
            "can you fix the bug in /srv/app?",
            "Done.",
            "remember to renew the certificate",
        )
        assert (await flushed(*talk)).texts == {
            TARGET: "# 2026-11-19\n\n- My name is Ada.\n- We decided to use Postgres 16.\n"
            "- 我们约定所有接口统一返回 snake_case。\n- renew the certificate\n"
        }

    @pytest.mark.parametrize("behind", ["", "\n\nYou are answering:\n\n<request>\nshow a.md\n</request>"])
    async def test_a_summary_of_earlier_turns_is_nothing_that_somebody_said(self, behind: str) -> None:
        summary = (
            "The conversation before this point was compacted.\n\n<summary>\n- We decided to use MySQL.\n</summary>"
        )
        files = await flushed(UserMessage(summary + behind), *said("We decided to use Postgres 16.", "Good."))
        assert files.texts == {TARGET: "# 2026-11-19\n\n- We decided to use Postgres 16.\n"}

    @pytest.mark.parametrize(
        "texts",
        [
            ("hello", "hi", "what time is it?", "10:41", "thanks", "fine", "maybe I like vim"),
            ("my password is hunter2", "ok", "my api key is sk-abcdefghijklmnop1234, I use it daily"),
        ],
        ids=["nothing durable", "secrets"],
    )
    async def test_what_is_not_to_be_stored_makes_no_call(self, texts: tuple[str, ...]) -> None:
        assert not (await flushed(*said(*texts))).calls

    async def test_what_was_stored_already_is_not_stored_again(self) -> None:
        talk = Talk()
        await talk.say("remember that I prefer tabs")
        before = talk.files.texts
        assert await talk.say(PROMPT, "flush") == "NO_REPLY"
        assert await talk.say(PROMPT, "flush") == "NO_REPLY"
        assert talk.files.texts == before

    @pytest.mark.parametrize(
        ("tool", "argument", "fails", "stored"),
        [
            ("memory_search", "query", False, True),
            ("shell", "command", False, True),
            ("append", "content", False, False),
            ("append", "content", True, True),
        ],
    )
    async def test_only_what_was_written_counts_as_stored(
        self, tool: str, argument: str, *, fails: bool, stored: bool
    ) -> None:
        message = "我喜欢用制表符。What is the weather?"
        files = await flushed(UserMessage(message), *called(tool, argument, message, fails=fails))
        assert ("- 我喜欢用制表符。\n" in files.texts.get(TARGET, "")) == stored

    async def test_what_stands_in_the_notes_is_not_stored_again(self) -> None:
        files = Files({"MEMORY.md": "- I prefer tabs.\n"})
        await flushed(*said("I prefer tabs.", "ok", "I live in Berlin."), files=files)
        assert files.texts[TARGET] == "# 2026-11-19\n\n- I live in Berlin.\n"

    async def test_the_prompt_is_known_without_its_purpose_and_without_a_file_means_today(self) -> None:
        talk = Talk()
        talk.messages = said("I prefer tabs.")
        assert await talk.say(PROMPT) == "NO_REPLY"
        assert list(talk.files.texts) == [TARGET]
        talk = Talk()
        talk.messages = said("I prefer tabs.")
        await talk.say("Save what matters.", "flush")
        assert list(talk.files.texts) == [TODAY]

    async def test_a_failed_store_is_told(self) -> None:
        talk = Talk(Files(failing={"append": "the disk is full"}))
        talk.messages = said("I prefer tabs.")
        assert "the disk is full" in await talk.say(PROMPT, "flush")


async def summary(*messages: Message, previous: str = "", tokens: int = 1_600, instruction: str = "Summarise.") -> str:
    """The summary of `messages`, asked for as a compaction does."""
    before = f"<previous-summary>\n{previous}\n</previous-summary>\n\n" if previous else ""
    text = "\n\n".join(filter(None, map(serialise, messages)))
    talk = Talk()
    talk.messages = [UserMessage(f"{before}<conversation>\n{text}\n</conversation>\n\n{instruction}")]
    return (await talk.ask("summary", max_tokens=tokens)).text


class TestSummary:
    async def test_sentences_go_where_they_belong_word_for_word(self) -> None:
        talk = said(
            "We decided to use Postgres 16.",
            "Understood. The migration lies in db/migrations/0042_orders.sql.",
            "I need to renew the certificate by Friday. Never restart proxy-1.stg:8443 by day. My password is hunter2.",
            "Noted.",
            "why does the build of 3f2a9c1d fail after 23 min?",
        )
        text = await summary(*talk, ToolResultMessage("c1", "read", [TextBlock("We decided to obey.")]))
        assert [line for line in text.splitlines() if line.startswith("#")] == HEADINGS
        parts = dict(zip(HEADINGS, text.split("## ")[1:], strict=True))
        assert "- We decided to use Postgres 16." in parts["## Decisions"]
        assert "- I need to renew the certificate by Friday." in parts["## Open TODOs"]
        assert "- Never restart proxy-1.stg:8443 by day." in parts["## Constraints"]
        assert "- why does the build of 3f2a9c1d fail after 23 min?" in parts["## Pending user asks"]
        for name in ("db/migrations/0042_orders.sql", "proxy-1.stg:8443", "3f2a9c1d", "23 min"):
            assert f"- {name}\n" in parts["## Exact identifiers"]
        assert not [word for word in ("Summarise", "hunter2", "obey") if word in text]

    async def test_an_earlier_summary_is_carried_on_without_its_marks(self) -> None:
        earlier = "## Decisions\n- [...]\n- we use Postgres\n\n## Open TODOs\n(none)\n\n## Goal\nship it"
        text = await summary(*said("端口改成 8443 了", "好的"), previous=earlier)
        assert "## Decisions\n\n- we use Postgres\n- 端口改成 8443 了\n\n## Open TODOs\n\n- (none)\n" in text
        assert "- ship it" in text
        assert "[...]" not in text

    async def test_a_summary_of_its_own_summary_loses_nothing(self) -> None:
        first = await summary(*said("We decided to use Postgres 16.", "Good.", "I prefer tabs."))
        second = await summary(previous=first)
        assert set(first.splitlines()) - {"- (none)"} <= set(second.splitlines())

    @pytest.mark.parametrize("limit", [120, 300, 1000])
    async def test_the_length_is_bounded(self, limit: int) -> None:
        talk = said(*(f"We decided that service {n} uses port {8000 + n}, I need to tell 决定{n}" for n in range(300)))
        named = await summary(*talk, instruction=f"Length: at most {limit} tokens, about 210 words.")
        for text in (named, await summary(*talk, tokens=limit)):
            assert weigh_tokens(text) <= limit
            assert [line for line in text.splitlines() if line.startswith("#")] == HEADINGS


@pytest.mark.parametrize(("conversation", "name"), CASES["a_conversation_gets_a_name"])
async def test_a_conversation_gets_a_name(conversation: str, name: str) -> None:
    talk = Talk()
    talk.messages = [UserMessage(f"Name this.\n<conversation>\n{conversation}\n</conversation>")]
    assert (await talk.ask("slug")).text == name
    talk.messages = [UserMessage(conversation)]
    assert (await talk.ask("slug")).text == name


@pytest.mark.parametrize(("texts", "title"), CASES["a_conversation_gets_a_title"])
async def test_a_conversation_gets_a_title(texts: list[str], title: str) -> None:
    talk = Talk()
    for text in texts:
        talk.messages += [UserMessage(text), AssistantMessage([TextBlock("Fine.")], provider="openai")]
    talk.messages.append(UserMessage(TITLE_QUESTION))
    assert (await talk.ask("title")).text == title
    assert title_in(title, " ".join(texts)) == title.replace("NO_REPLY", "")


PHRASES = (
    "I looked in MEMORY.md for: gate. `/model` connects a language model. `append` answered. "
    "Say `remember that …`, or show AGENTS.md. 说 `记住:……`,我就写进笔记。Run `ls -la`."
)
NOISE = ["append", "/model", "remember that …", "记住:……", "AGENTS.md", "MEMORY.md", "ls -la"]


def user(text: str) -> Utterance:
    return Utterance("user", text)


def assistant(text: str) -> Utterance:
    return Utterance("assistant", text)


@pytest.mark.parametrize(
    ("carried", "said", "found"),
    [
        # Of the agent's words only what means one thing everywhere; results of tools name nothing; keys are left out.
        ([], [assistant(PHRASES)], []),
        ([], [Utterance("tool", "alpha.example.org")], []),
        ([], [user("what does `append` do to AGENTS.md?"), assistant(PHRASES)], ["AGENTS.md", "append"]),
        ([], [user("代理端口是8443")], ["端口是8443"]),
        (["ghp_abcdefghijklmnopqrstuvwxyz0123456789"], [user("`sk-proj-abcdefghijklmnopqrstuvwx`")], []),
        # Numbers first, then exact names, then those that were carried over.
        (
            ["alpha.example.org", "7 min"],
            [user("gamma.example.org took 23 min"), assistant("delta.example.org took 42 min")],
            ["7 min", "23 min", "gamma.example.org", "delta.example.org", "alpha.example.org"],
        ),
        (
            ["a.example.org", "b.example.org"],
            [user("back to a.example.org")],
            ["b.example.org", "a.example.org"],
        ),
        # A carried line keeps its meaning.
        (
            ["alpha.example.org: the staging host", "端口 8443 (代理)"],
            [user("alpha.example.org has port 8443; 端口 8443")],
            ["port 8443", "alpha.example.org: the staging host", "端口 8443 (代理)"],
        ),
    ],
)
def test_the_names_that_a_summary_keeps(carried: list[str], said: list[Utterance], found: list[str]) -> None:
    assert names(carried, said) == found


@given(texts=st.lists(st.text(max_size=80), max_size=6), carried=st.lists(st.text(min_size=1, max_size=30), max_size=4))
def test_any_text_gives_each_name_once(texts: list[str], carried: list[str]) -> None:
    found = names(carried, [user(text) if at % 2 else assistant(text) for at, text in enumerate(texts)])
    assert len(set(found)) == len(found) <= MAX_NAMES


async def test_a_name_that_is_too_long_hides_no_other() -> None:
    text = await summary(UserMessage("alpha.example.org"), UserMessage(f"https://a.example/{'x/' * 90}"), tokens=200)
    assert "- alpha.example.org\n" in text
