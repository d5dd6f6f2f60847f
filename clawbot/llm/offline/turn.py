"""One turn as the offline model sees it: what the user wants (the grammar of `grammar.toml`), the results of tools
since then, the next step, and the sentences of the answers (`replies.toml` of each language).

A capability is a plan: a generator that yields the tool calls it wants, gets their outcomes sent back, and returns the
reply. The model keeps no state between its calls, so a plan is run again from its start each time, fed with the
outcomes that the messages hold, up to the point where it wants something new."""

from __future__ import annotations

import functools
import re
from collections.abc import Generator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

import clawbot
from clawbot.config.keys import BY_NAME, KeyMap
from clawbot.languages.tables import table
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, quotes_notes, read_compacted
from clawbot.text.language import Language, detect_last, fold
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean, clean_line, tilde
from clawbot.text.secrets import holds_secret
from clawbot.text.statements import asks, is_question
from clawbot.text.tables import packaged_table

QUOTE_CHARS, SHOWN_LINES, SHOWN_CHARS = 300, 60, 4_000

_MARKER = lazy_re(r"\s{0,8}(?:[-*+]\s{1,4}(?:\[[ xX]\]\s{1,4})?|\d{1,3}[.)]\s{1,4}|#{1,6}\s{1,4}|>\s?)")
_DONE = lazy_re(
    r"(?P<verb>Created|Replaced|Edited|Appended to) (?P<path>.+?)(?: in (?P<places>\d+) places)? "
    r"\((?P<lines>[-+\d, ]+) lines(?:, [\d,]+ bytes)?\)\."
)
_BACKTICKS = lazy_re(r"`{3,}")


def phrase(language: Language, key: str, **values: Any) -> str:
    """Return the sentence `key` of `language`, with its fields filled."""
    return str(table(language, "replies")[key]).format(**values)


def done_words(language: Language, report: str) -> str:
    """Shorten a tool's report on a file (`Created a.md (+1 -0 lines, 9 bytes).`), in the user's language; return any
    other sentence as it is."""
    found = _DONE.fullmatch(report)
    if found is None:
        return report
    lines = found["lines"].removesuffix(" -0").lstrip("+") if found["lines"].endswith(" -0") else found["lines"]
    places = phrase(language, "done_places", places=found["places"]) if found["places"] else ""
    sentence = "done_line" if lines == "1" else "done"
    return phrase(
        language, sentence, verb=phrase(language, found["verb"]), path=found["path"], places=places, lines=lines
    )


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
    """Answer a question on `topic`; `now` is in the user's zone."""
    english, chinese = next(answers for name, _, _, *answers in program()["topics"] if name == topic)
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
    """Return a line of a Markdown file without its list, heading or quote mark."""
    text = clean(line).replace("\n", " ")
    mark = _MARKER.match(text)
    return text[mark.end() if mark else 0 :].strip()


def one_line(text: str, limit: int = QUOTE_CHARS) -> str:
    """Return `text` on one line, cut to `limit` characters."""
    flat = clean_line(text[: limit * 20])
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def quote(text: str, source: str = "") -> str:
    """Return a block quote of one line, with its `source` below it."""
    shown = f"> {one_line(text)}"
    return f"{shown}\n>\n> — `{source}`" if source else shown


def block(language: Language, what: str, text: str) -> str:
    """Return `text` in a fence below its name, at most `SHOWN_LINES` lines and `SHOWN_CHARS` characters of it."""
    lines = clean(text).rstrip("\n").split("\n")
    full = "\n".join(lines[:SHOWN_LINES])
    body = full[:SHOWN_CHARS]
    fence = "`" * (max((len(run) for run in _BACKTICKS.findall(body)), default=2) + 1)
    shown = phrase(language, "shown", what=what, block=f"{fence}text\n{body}\n{fence}")
    if len(lines) <= SHOWN_LINES and len(body) == len(full):
        return shown
    return shown + phrase(language, "shortened", shown=body.count("\n") + 1, total=len(lines))


MAX_REQUEST = 8_000  # characters; a longer message is a paste, not a request in a phrase that could be known
_QUOTES = "\"'`“”‘’「」『』《》"
_MAX_KIND = 200  # characters of a message that is nothing but something kind
_CLAUSE = re.compile(r"[^\w\s'’-]+|(?<=\s)-+(?=\s)")
_PART = re.compile(r"\{([A-Z_]+)\}")


class Intent(Struct, frozen=True):
    """What the user wants. `kind` names the plan or the sentence that answers; `text` (the fact, the question, the
    content or the command) and `path` are the user's own words, as they were typed. Of `about` the `text` is the topic
    of the table of the program."""

    kind: str
    text: str = ""
    path: str = ""


@functools.cache
def _grammar() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Compile the tables of the file, at the first message: it takes some 20 ms."""
    file = packaged_table("clawbot.llm.offline", "grammar.toml", dict[str, Any])
    parts = file["parts"] | program()["parts"]

    def compiled(text: str) -> re.Pattern[str]:
        for _depth in range(2):  # a part may hold another one
            text = _PART.sub(lambda part: parts[part[1]], text)
        return re.compile(text, re.IGNORECASE | re.DOTALL)

    rules = {name: [(kind, compiled(text)) for kind, text in file[name]] for name in ("en", "zh", "signs")}
    for at, name in enumerate(("en", "zh"), 1):
        about = [(f"about {topic[0]}", compiled(f"(?:{topic[at]}){{END}}")) for topic in program()["topics"]]
        rules[name] = about + rules[name]
    return rules


def _sign(name: str) -> re.Pattern[str]:
    return dict(_grammar()["signs"])[name]


def classify(text: str, language: Language) -> Intent:
    """What `text` asks for. The tables of both languages are tried, that of `language` first: mixed text is common."""
    stripped = text.strip()
    if not stripped:
        return Intent("empty")
    if len(stripped) > MAX_REQUEST:
        # The text of a wish to remember would be lost otherwise.
        begun = _known(stripped[:200], language)
        return Intent("remember" if begun and begun.kind == "remember" else "statement", stripped)
    known = _known(stripped, language) or _kindness(stripped, language)
    if known is not None:
        return known
    if is_question(stripped):
        return Intent("recall" if _sign("personal").search(fold(stripped)) else "ask", stripped)
    if holds_secret(stripped):
        return Intent("secret", stripped)
    return Intent("ask" if asks(stripped) else "statement", stripped)


def _kindness(text: str, language: Language) -> Intent | None:
    """Return `thanks` or `praise` if every clause of `text` is one, ignoring punctuation and smileys."""
    clauses = (
        [clause for clause in _CLAUSE.split(fold(text)) if clause.strip(" -'") not in ("", "clawbot")]
        if len(text) <= _MAX_KIND
        else []
    )
    found = [_known(clause.strip(), language) for clause in clauses]
    kinds = {intent.kind if intent else "" for intent in found}
    if kinds - {"thanks", "praise", "agreed", "hello", "bye"}:
        return None
    return next((Intent(kind) for kind in ("thanks", "praise") if kind in kinds), None)


def _known(text: str, language: Language) -> Intent | None:
    """Return the request that a rule of the grammar recognises."""
    folded = fold(text)
    opening = _sign("opening").match(folded)
    start = opening.end() if opening and opening.end() < len(folded) else 0
    for kind, pattern in [*_grammar()[language], *_grammar()["en" if language == "zh" else "zh"]]:
        # The full message first: "ok" may be all there is, and "no" may be part of the phrase.
        for begin in dict.fromkeys((0, start)):
            if (match := pattern.fullmatch(folded, begin)) is not None:
                words = {
                    name: text[slice(*match.span(name))] for name in ("text", "path") if match.groupdict().get(name)
                }
                name, _, topic = kind.partition(" ")
                return Intent(name, **{"text": topic, **{name: _trimmed(word) for name, word in words.items()}})
    return None


def _trimmed(text: str) -> str:
    """Remove blanks, and a pair of quotes, around the text."""
    text = text.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES and not any(sign in text[1:-1] for sign in _QUOTES):
        return text[1:-1].strip()
    return text


WRITERS = {"append": "content", "write": "content", "edit": "new"}
"""The tools that write a file -> the argument that holds what they put there."""


class PlannedCall(Struct, frozen=True):
    """A tool call that a plan wants."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


class CallOutcome(Struct, frozen=True):
    """A call that was made, and its result, with its `details` as plain data. A missing answer counts as an error, and
    so does one that the user `declined`."""

    call: PlannedCall
    text: str
    is_error: bool = False
    declined: bool = False
    details: Any = None


Plan = Generator[list[PlannedCall], list[CallOutcome], str]
Step = list[PlannedCall] | str


class Turn(Struct, frozen=True):
    """The input of a plan. `earlier` came before `text`, the user's last message; `rounds` are the tool calls since,
    with their outcomes. `now` is in the user's zone. `resumed`: the turn was compacted in its middle, so `text` comes
    from the summary of its beginning ("" if incomplete), and `rounds` may miss the first."""

    text: str
    language: Language
    earlier: tuple[Message, ...]
    rounds: tuple[tuple[CallOutcome, ...], ...]
    tools: frozenset[str]
    now: datetime
    resumed: bool = False

    def reply(self, key: str, **values: Any) -> str:
        """Return the sentence `key` in the language of the turn."""
        return phrase(self.language, key, **values)


def read_turn(request: ChatRequest, now: datetime) -> Turn:
    """Find the turn in the messages of `request`, without the notes that are quoted when a session begins."""
    messages = tuple(message for message in request.messages if not quotes_notes(message))
    last = next((at for at in reversed(range(len(messages))) if isinstance(messages[at], UserMessage)), len(messages))
    user = messages[last] if last < len(messages) else None
    spoken = [message.text for message in reversed(messages[: last + 1]) if isinstance(message, UserMessage)]
    return Turn(
        text=asked(user) if isinstance(user, UserMessage) else "",
        language=detect_last(old.spoken if (old := read_compacted(text)) else text for text in spoken),
        earlier=messages[:last],
        rounds=_rounds(messages[last + 1 :]),
        tools=frozenset(spec.name for spec in request.tools),
        now=now,
        resumed=isinstance(user, UserMessage) and read_compacted(user.text) is not None,
    )


def asked(message: UserMessage) -> str:
    """Return the user's text in it; of a summary the request behind it."""
    compacted = read_compacted(message.text)
    if compacted:
        return compacted.question
    text = message.text
    for label in message.attached:
        name = label.partition(" · ")[0]
        text = text.replace(f"@{name}", name)
    return text


def _rounds(messages: Sequence[Message]) -> tuple[tuple[CallOutcome, ...], ...]:
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolResultMessage)}
    return tuple(
        tuple(_outcome(PlannedCall(call.name, call.arguments), results.get(call.id)) for call in message.tool_calls)
        for message in messages
        if isinstance(message, AssistantMessage) and message.tool_calls
    )


def _outcome(call: PlannedCall, result: ToolResultMessage | None) -> CallOutcome:
    if result is None:
        return CallOutcome(call, "no answer", is_error=True)
    declined = isinstance(result.details, dict) and result.details.get("declined") is True
    return CallOutcome(call, result.text, result.is_error, declined, result.details)


def follow(plan: Plan, turn: Turn) -> Step:
    """Return the next step of `plan`, or the end of the turn. Nothing is done a second time."""
    step = _advance(plan, turn)
    if step is None:
        return what_was_done(turn)
    if isinstance(step, str):
        return step
    may_repeat = turn.resumed and not turn.rounds and any(call.name in (*WRITERS, "shell") for call in step)
    return turn.reply("resumed_unknown", tool=step[0].name) if may_repeat else step


def _advance(plan: Plan, turn: Turn) -> Step | None:
    """Run `plan` past the rounds that were made: return its next calls, or its reply; None if the rounds belong to
    another plan, or the first are missing."""
    try:
        wanted = next(plan)
        for outcomes in turn.rounds:
            made = [outcome.call for outcome in outcomes]
            # Where the beginning may be missing, a later round may be of the same tools as the first.
            if [call.name for call in wanted] != [call.name for call in made] or (turn.resumed and wanted != made):
                return None
            wanted = plan.send(list(outcomes))
    except StopIteration as end:
        return str(end.value)
    return wanted


def what_was_done(turn: Turn) -> str:
    """End a turn that can't go on: name what was written, else quote the last tool."""
    outcomes = [outcome for outcomes in turn.rounds for outcome in outcomes]
    written = [outcome.call for outcome in outcomes if outcome.call.name in WRITERS and not outcome.is_error]
    if turn.resumed and written:
        done = dict.fromkeys(f"`{call.name}` `{call.arguments.get('path', '?')}`" for call in written)
        return turn.reply("resumed_written", done=", ".join(done))
    return turn.reply("cut_off", tool=outcomes[-1].call.name, reason=quote(outcomes[-1].text))
