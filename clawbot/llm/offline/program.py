"""Answers to questions on the program itself, from the table `program.toml`, the user's keys, paths and clock."""

from __future__ import annotations

import functools
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

import clawbot
from clawbot.config.keys import BY_NAME, KeyMap
from clawbot.text.language import Language
from clawbot.text.sanitize import tilde
from clawbot.text.tables import packaged_table


class ProgramFacts(Struct, frozen=True):
    """Facts of this installation: the state folder, the agent's workspace and the keys of the user."""

    home: Path = Path("~/.clawbot")
    workspace: Path = Path("~/.clawbot/workspace")
    keys: KeyMap = field(default_factory=KeyMap)


@functools.cache
def table() -> dict[str, Any]:
    """The file: `topics` (name, question in English and Chinese, answers), `weekdays`, and `parts` of the patterns."""
    return packaged_table("clawbot.llm.offline", "program.toml", dict[str, Any])


def answer_about(topic: str, language: Language, facts: ProgramFacts, now: datetime) -> str:
    """The answer to a question on `topic`; `now` is in the user's zone."""
    english, chinese = next(said for name, _, _, *said in table()["topics"] if name == topic)
    answer = chinese if language == "zh" else english
    bracketed = "（`{}`）" if language == "zh" else " (`{}`)"
    keys = {name: bracketed.format(key) if (key := facts.keys.first(name)) else "" for name in BY_NAME}
    filled: str = answer.format(
        **keys,
        home=tilde(facts.home, Path.home()),
        workspace=tilde(facts.workspace, Path.home()),
        config=tilde(facts.home / "config.yaml", Path.home()),
        version=clawbot.__version__,
        date=f"{now:%Y-%m-%d}",
        time=f"{now:%H:%M}",
        zone=now.tzname(),
        weekday=table()["weekdays"][now.weekday()][language == "zh"],
    )
    return filled.replace("） ", "）")
