"""What a summary is made from, as far as `test_prompts.py` (`TestMaterial`) does not say it."""

from __future__ import annotations

from typing import Any

import pytest

from clawbot.context.compaction.files import FileLists
from clawbot.context.compaction.material import Earlier, Material, gather
from clawbot.context.compaction.prompts import SYSTEM, Task, prompt_for
from clawbot.context.compaction.serialise import UNFINISHED
from clawbot.llm.tokens import estimate_tokens
from clawbot.messages import Message
from tests.context.compaction.talk import answer, call, user


def gathered(messages: list[Message], prefix: list[Message] | None = None, **more: Any) -> Material:
    """The material for 700 tokens."""
    given = {"earlier": Earlier(), "focus": "", "preserve": 3, "tokens": 700, "count": estimate_tokens, **more}
    return gather(messages, prefix or [], **given)


TALK: list[Message] = [user("We ship on Friday."), answer("Noted.")]
TURN: list[Message] = [user("now fix lib/turn.py"), answer("I look.", call("1", "read", path="lib/turn.py"))]


def test_the_files_of_all_compactions_are_in_the_appendix() -> None:
    """Sheet 7.4."""
    details = FileLists(("old.md",), ("kept.md",)).as_details()
    made = gathered(TALK, TURN, earlier=Earlier("", details))
    assert made.appendix.endswith("- Changed: kept.md\n- Read: lib/turn.py, old.md")


def test_the_beginning_of_a_cut_turn_belongs_to_it() -> None:
    made = gathered(TALK, TURN)
    assert made.names(len(made.texts)) == ["lib/turn.py"]
    assert made.names(2) == []


@pytest.mark.parametrize("preserve", [0, 3])
def test_the_request_of_a_cut_turn_is_carried_in_any_case(preserve: int) -> None:
    made = gathered(TALK, TURN, preserve=preserve)
    assert "> now fix lib/turn.py" in made.appendix
    assert ("> We ship on Friday." in made.appendix) == (preserve > 0)


@pytest.mark.parametrize("start", range(6))
def test_the_mark_of_the_unfinished_turn_is_in_every_part_that_has_some_of_it(start: int) -> None:
    made = gathered(TALK, [user("go on"), answer("One."), answer("Two."), answer("三")])
    assert (len(made.texts), made.unfinished) == (6, 2)
    shown = made.conversation(made.texts[start:], start).split("\n\n")
    place = max(2 - start, 0)
    assert shown == [*made.texts[start:][:place], UNFINISHED, *made.texts[start:][place:]]


def test_a_turn_that_says_nothing_is_not_marked() -> None:
    """A silent reply at the beginning of what was cut, say."""
    made = gathered(TALK, [answer("NO_REPLY")])
    assert made.unfinished is None
    assert UNFINISHED not in made.conversation(made.texts, 0)


def test_a_name_that_stands_in_no_text_is_asked_for_from_the_first_part_on() -> None:
    """What could pass for a tag is spelled in another way there."""
    made = gathered([user("hello"), user("见《<summary 计划》")])
    assert made.wanted == (("<summary 计划", 0),)


@pytest.mark.parametrize(
    ("first", "last", "chinese"),
    [("please help", "改成中文回答我吧", True), ("请帮我看一下这个", "answer in English from now on", False)],
)
def test_the_language_is_that_of_the_users_last_words(first: str, last: str, chinese: bool) -> None:
    assert gathered([user(first), answer("好的。All right."), user(last)]).chinese == chinese
    assert gathered([user(first)], [user(last), answer("…")]).chinese == chinese


def test_what_a_call_takes_is_reckoned_with() -> None:
    """Room, appendix and what stands between them are the summary; a call has the summary so far beside its texts."""
    made = gathered(TALK, TURN)
    assert made.room + estimate_tokens(f"\n\n{made.appendix}") == 700
    prompt = prompt_for(Task(conversation="", split=True, tokens=made.room, parts=2))
    assert made.overhead == estimate_tokens(SYSTEM) + estimate_tokens(prompt) + made.room
