"""The answers of the offline model, also about the program itself, and how it shows text that is not its own.

The sentences are in `replies.toml` of each language.
"""

from __future__ import annotations

import functools
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

import clawbot
from clawbot.config.keys import BY_NAME, KeyMap
from clawbot.languages.tables import table
from clawbot.text.language import Language
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean, clean_line, tilde
from clawbot.text.tables import packaged_table

QUOTE_CHARS, SHOWN_LINES, SHOWN_CHARS = 300, 60, 4_000

_MARKER = lazy_re(r"\s{0,8}(?:[-*+]\s{1,4}(?:\[[ xX]\]\s{1,4})?|\d{1,3}[.)]\s{1,4}|#{1,6}\s{1,4}|>\s?)")
_DONE = lazy_re(
    r"(?P<verb>Created|Replaced|Edited|Appended to) (?P<path>.+?)(?: in (?P<places>\d+) places)? "
    r"\((?P<lines>[-+\d, ]+) lines(?:, [\d,]+ bytes)?\)\."
)
_BACKTICKS = lazy_re(r"`{3,}")


def say(language: Language, key: str, **values: Any) -> str:
    """Return the sentence `key` with its places filled."""
    return str(table(language, "replies")[key]).format(**values)


def done_words(language: Language, told: str) -> str:
    """Shorten what a tool did to a file (`Created a.md (+1 -0 lines, 9 bytes).`), in the user's language; return
    another sentence as it is."""
    found = _DONE.fullmatch(told)
    if found is None:
        return told
    lines = found["lines"].removesuffix(" -0").lstrip("+") if found["lines"].endswith(" -0") else found["lines"]
    places = say(language, "done_places", places=found["places"]) if found["places"] else ""
    sentence = "done_line" if lines == "1" else "done"
    return say(language, sentence, verb=say(language, found["verb"]), path=found["path"], places=places, lines=lines)


class ProgramFacts(Struct, frozen=True):
    """Facts of this installation: the state folder, the agent's workspace and the keys of the user."""

    home: Path = Path("~/.clawbot")
    workspace: Path = Path("~/.clawbot/workspace")
    keys: KeyMap = field(default_factory=KeyMap)


@functools.cache
def program() -> dict[str, Any]:
    """Return the table `program.toml`: `topics` (name, a question and an answer in both languages), `weekdays`, and
    `parts` of the patterns."""
    return packaged_table("clawbot.llm.offline", "program.toml", dict[str, Any])


def answer_about(topic: str, language: Language, facts: ProgramFacts, now: datetime) -> str:
    """The answer to a question on `topic`; `now` is in the user's zone."""
    english, chinese = next(said for name, _, _, *said in program()["topics"] if name == topic)
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
        weekday=program()["weekdays"][now.weekday()][language == "zh"],
    )
    return filled.replace("） ", "）")


def bare(line: str) -> str:
    """A line of a Markdown file without its list, heading or quote mark."""
    text = clean(line).replace("\n", " ")
    mark = _MARKER.match(text)
    return text[mark.end() if mark else 0 :].strip()


def one_line(text: str, limit: int = QUOTE_CHARS) -> str:
    """`text` on one line, cut to `limit` characters."""
    flat = clean_line(text[: limit * 20])
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def quote(text: str, source: str = "") -> str:
    """A block quote of one line, with the place where it stands below it."""
    shown = f"> {one_line(text)}"
    return f"{shown}\n>\n> — `{source}`" if source else shown


def block(language: Language, what: str, text: str) -> str:
    """`text` in a fence below its name, at most `SHOWN_LINES` lines and `SHOWN_CHARS` characters of it."""
    lines = clean(text).rstrip("\n").split("\n")
    whole = "\n".join(lines[:SHOWN_LINES])
    body = whole[:SHOWN_CHARS]
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(body)), default=2) + 1)
    shown = say(language, "shown", what=what, block=f"{fence}text\n{body}\n{fence}")
    if len(lines) <= SHOWN_LINES and len(body) == len(whole):
        return shown
    return shown + say(language, "shortened", shown=body.count("\n") + 1, total=len(lines))
