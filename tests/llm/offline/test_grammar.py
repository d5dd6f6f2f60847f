"""What a message is taken for: the grammar against many ways to say things, in English and Chinese."""

from __future__ import annotations

import pytest

from clawbot.languages.tables import table
from clawbot.llm.offline.model import PLANS
from clawbot.llm.offline.turn import MAX_REQUEST, classify
from clawbot.text.language import detect
from tests.llm.cases import read_cases

CASES = read_cases("offline/messages")
LONG = [
    ("list files " * MAX_REQUEST, "statement", ""),
    ("remember that " + "x" * MAX_REQUEST, "remember", ""),
]


@pytest.mark.parametrize(("said", "kind", "words"), [*CASES["english"], *CASES["chinese"], *CASES["mixed"], *LONG])
def test_a_message_is_taken_for_what_it_asks(said: str, kind: str, words: str) -> None:
    found = classify(said, detect(said) or "en")
    assert found.kind == kind
    if words:
        assert words in (found.text, found.path)


def test_every_kind_has_an_answer_and_every_answer_both_languages() -> None:
    kinds = {kind for _, kind, _ in [*CASES["english"], *CASES["chinese"]]} | {
        "empty",
        "secret",
        "list",
        "read",
        "help",
        "hello",
        "bye",
    }
    english, chinese = (table(language, "replies") for language in ("en", "zh"))
    assert kinds <= PLANS.keys() | english.keys()
    assert english.keys() == chinese.keys()
    assert all((*english.values(), *chinese.values()))
