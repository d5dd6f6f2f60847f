"""First messages of newcomers: questions on the program, reminders, small talk, ways to ask for a note."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.keys import KeyMap
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.factory import open_model
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import UserMessage
from tests.llm.offline.talk import TODAY, Files, FixedClock, Talk, collect

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))
NOTES = "# 2026-11-20\n\n- tomorrow at 9 to call dad\n- my dog is called Bruno\n- 我的猫叫咪咪\n- 每周五下午三点开会\n"
CODE = re.compile(r"`[^`]*`|^>.*$|\d:\d|^- ", re.MULTILINE)
HALF_WIDTH = re.compile(r"[,;:?()](?!\w)")


def notes() -> Files:
    return Files({TODAY: NOTES})


@pytest.mark.parametrize("row", [*TABLE["en"], *TABLE["zh"]], ids=lambda row: row[0])
async def test_a_first_message_gets_an_answer_of_its_own(row: list[str]) -> None:
    said, *words = row
    reply = await Talk(notes()).say(said)
    assert [word for word in words if word not in reply] == []
    if row in TABLE["zh"]:
        assert not HALF_WIDTH.search(CODE.sub("", reply))


@pytest.mark.parametrize(("said", "fact"), TABLE["notes"])
async def test_every_usual_wish_for_a_note_is_met(said: str, fact: str) -> None:
    talk = Talk(notes())
    await talk.say(said)
    assert talk.files.texts[TODAY] == f"{NOTES}- {fact}\n"


@pytest.mark.parametrize("said", TABLE["pointing"])
async def test_a_wish_may_point_at_what_was_said_before(said: str) -> None:
    talk = Talk(notes())
    await talk.say("my sister lives in Lyon")
    await talk.say(said)
    assert talk.files.texts[TODAY] == f"{NOTES}- my sister lives in Lyon\n"


@pytest.mark.parametrize("said", ["thanks", "you are stupid", "lol"])
async def test_small_talk_hides_no_statement(said: str) -> None:
    talk = Talk(notes())
    for text in ("my sister lives in Lyon", said, "remember that"):
        await talk.say(text)
    assert talk.files.texts[TODAY].endswith("- my sister lives in Lyon\n")


async def test_a_yes_to_anything_else_writes_nothing() -> None:
    talk = Talk(notes())
    for text in ("my sister lives in Lyon", "hello", "yes"):
        await talk.say(text)
    assert talk.files.texts[TODAY] == NOTES


async def test_the_keys_are_those_of_the_user() -> None:
    model = await open_model("offline", AgentSettings(), clock=FixedClock(), keys=KeyMap({"leave": ["f9"], "help": []}))
    assert isinstance(model, OfflineModel)
    for said, word in (("how do I exit?", "`/quit` (`f9`);"), ("what are the keys?", "`/help` lists")):
        parts = await collect(model, ChatRequest("", (UserMessage(said),)))
        assert word in parts[-1].message.text


async def test_what_was_said_in_a_refused_order_is_found_in_the_same_talk() -> None:
    talk = Talk(notes())
    await talk.say("please translate: my cousin lives in Lima")
    assert "Lima" in await talk.say("where does my cousin live?")
