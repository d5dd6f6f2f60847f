"""What is typed on a real terminal, character by character: all of it is in the message."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unicodedata import category

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.test_chat import said

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SCRIPT = "turns:\n  - repeat: forever\n    reply: {text: Noted.}\n"
CHARACTERS = [chr(code) for code in range(0xA0, sys.maxunicode + 1) if category(chr(code)) not in ("Cc", "Cs")]
# Spaces of all kinds, joiners, marks, private use, noncharacters, and what came after Python's tables.
CHOSEN = "\u00a0\u1680\u2000\u2009\u202f\u205f\u3000\u200b\u200c\u200d\u2060\ufeff\u00ad\u0301\u20dd\ue000\uf8ff\ufe0f"
TYPED = [
    "今日　明日",
    "a\u00a0b",
    "👨‍👩‍👧‍👦",
    "e\u0301",
    "\u2028\u2029",
    CHOSEN,
    "\ufffe\uffff\U0010ffff\U0001fae9\U0002ebf0\U00016d40",
]


def sent(machine: Machine) -> list[object]:
    """The messages so far; none while one is being written."""
    with suppress(json.JSONDecodeError):
        return said(machine)
    return []


def test_each_character_that_is_typed_is_in_the_message(machine: Machine, script: Callable[[str], Path]) -> None:
    machine.serve(script(SCRIPT))
    chat = machine.open()
    chat.wait_for("openai/scripted")
    drawn = random.Random(7).sample(CHARACTERS, 2000)
    typed = [f"a{text}b" for text in (*TYPED, *("".join(drawn[at : at + 250]) for at in range(0, 2000, 250)))]
    for text in typed:
        chat.send(text)
        chat.send("enter")
    chat.wait_for(lambda _: len(sent(machine)) == len(typed), seconds=200)
    assert said(machine) == typed
