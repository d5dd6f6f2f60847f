"""What the offline model does in the workspace: writes down what the user wants kept (one list line in the file of the
day, never twice), and lists, reads, appends and runs, one tool call for one plain request."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from datetime import timedelta
from pathlib import PurePosixPath

from clawbot.languages.tables import pattern_in
from clawbot.llm.offline.turn import (
    CallOutcome,
    Intent,
    Plan,
    PlannedCall,
    Turn,
    asked,
    bare,
    block,
    classify,
    done_words,
    one_line,
    phrase,
    quote,
)
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean
from clawbot.text.secrets import asks_to_keep, find_secrets, holds_secret, redact
from clawbot.text.topics import words

MAX_FACT = 4_000  # characters that one note may hold; more belongs into a file of its own
NOTES_SHOWN = 8
MAX_PATTERN = 900  # characters of the pattern that searches facts in the notes; grep takes a thousand

FoundBefore = Generator[list[PlannedCall], list[CallOutcome], tuple[dict[tuple[str, ...], str], str]]
_LIST_MARK = lazy_re(r"\A(?:[-*+]\s{1,4})(?:\[[ xX]\]\s{1,4})?")
_TRAILING = lazy_re(rf"(?:\s*(?:{pattern_in('courtesy')})[.!?。!?]*)$", re.IGNORECASE)
_INSISTING = lazy_re(
    rf"[,.;:!，。；：！\s-]{{0,5}}(?:{pattern_in('insists_behind')})[.!。！\s]{{0,5}}\Z", re.IGNORECASE
)
_INSISTING_FIRST = lazy_re(rf"\s{{0,5}}(?:{pattern_in('insists_first')})", re.IGNORECASE)
_SMALLTALK = ("thanks", "praise", "blamed", "chat", "agreed", "hello")
_DAYS = [lazy_re(pattern_in(day), re.IGNORECASE) for day in ("today", "tomorrow", "after_tomorrow")]
_MISSING = lazy_re(r"(?P<path>[^\n]{1,300}?) does not exist\.")
_NOTE = r"^\s*[-*+] (?!\*\*(?:Session|Source|Reason))\S"  # a line that states something in a note
_CLAUSE = lazy_re(r"[^\w ]+|_")
_FOUND = lazy_re(r"(?:\./)?(?P<path>memory\.md|memory/[^:\n]{1,400}\.md):(?P<line>\d{1,7}):(?P<text>.*)", re.IGNORECASE)


def remember(turn: Turn, intent: Intent) -> Plan:
    """Store a fact in the user's own words; one that holds a secret only when the user insists (`--keep`, `anyway`)."""
    stated = intent.text or _statement_before(turn)
    without = _INSISTING.sub("", stated).strip()
    fact = tidy(without if holds_secret(without) else stated)
    if not words(fact):
        return turn.reply("remember_what")
    if len(fact) > MAX_FACT:
        return turn.reply("fact_too_long", size=len(fact), limit=MAX_FACT)
    insists = asks_to_keep(turn.text) or _INSISTING.search(turn.text) or _INSISTING_FIRST.match(turn.text)
    if holds_secret(fact) and not insists:
        return left_out(turn, fact)
    if "append" not in turn.tools:
        return turn.reply("no_tool", tool="append")
    path = daily_file(turn)
    positions, heading = yield from find_before(turn, [fact], path)
    if key(fact) in positions:
        return turn.reply("already_noted", quote=quote(redact(fact), positions[key(fact)]))
    [outcome] = yield [PlannedCall("append", {"path": path, "content": heading + as_item(fact)})]
    if outcome.is_error:
        return failed(turn, outcome)
    # Midnight may have passed since the call was made.
    path = str(outcome.call.arguments.get("path", path))
    noted = turn.reply("remembered", path=path, fact=redact(quote(fact)).removeprefix("> "))
    return noted + turn.reply("secret_warning", path=path) if holds_secret(fact) else noted


def left_out(turn: Turn, fact: str) -> str:
    """Answer that `fact`, which holds a secret, was not stored, of what kind it is, and how the user keeps it."""
    kind = find_secrets(fact)[0].kind
    return turn.reply("secret", kind=turn.reply(f"like {kind}"))


def remind(turn: Turn, intent: Intent) -> Plan:
    """Store what the user wants to be reminded of, with the date of a relative day; there is no alarm."""
    fact = tidy(intent.text)
    days = [after for after, names in enumerate(_DAYS) if names.search(fact)]
    if days:
        fact += f"{turn.reply('comma')}{turn.now + timedelta(days=days[-1]):%Y-%m-%d}"
    noted = ""
    if words(fact):
        label = "" if pattern_in("reminder", "zh") in fact else turn.reply("reminder")
        noted = yield from remember(turn, Intent("remember", label + fact))
    return "\n\n".join(filter(None, (turn.reply("no_alarm"), noted)))


def forget(turn: Turn, intent: Intent) -> Plan:
    """Name the position of the note that is to be forgotten; deleting it is the user's."""
    fact = tidy(intent.text) or _statement_before(turn)
    positions, _ = (yield from find_before(turn, [fact], daily_file(turn))) if words(fact) else ({}, "")
    location = positions.get(key(fact)) or next(iter(positions.values()), "")
    if not location:
        return turn.reply("forget")
    return turn.reply("forget_here", place=location, path=location.rpartition(":")[0])


def was_offered(turn: Turn) -> bool:
    """Whether the last answer offered to note the user's message before it."""
    last = turn.earlier[-1] if turn.earlier else None
    return isinstance(last, AssistantMessage) and last.text in (phrase("en", "statement"), phrase("zh", "statement"))


def tidy(text: str) -> str:
    """Return a fact without control characters, a list mark, a closing "please"."""
    fact = _LIST_MARK.sub("", clean(text).strip())
    return _TRAILING.sub("", fact).strip(" \n,，;；") if len(fact) <= MAX_FACT else fact


def daily_file(turn: Turn) -> str:
    """Return the file of today, in the user's zone."""
    return f"memory/{turn.now:%Y-%m-%d}.md"


def as_item(fact: str) -> str:
    """Return `fact` as one item of a Markdown list; further lines are indented."""
    first, *more = [line.rstrip() for line in fact.split("\n") if line.strip()]
    return "\n".join([f"- {first}", *(f"  {line}" for line in more)]) + "\n"


def find_before(turn: Turn, facts: Sequence[str], path: str) -> FoundBefore:
    """Search `facts` in the notes, and the file at `path`: return the positions of lines like them, by their words, and
    the heading of a new file. A failed search stops nothing: better a fact twice than one that is lost."""
    pattern = _any_of(facts)
    search = PlannedCall("grep", {"pattern": pattern, "glob": "*.md", "ignore_case": True})
    calls = [*([search] if pattern else ()), PlannedCall("list", {"pattern": path})]
    calls = [call for call in calls if call.name in turn.tools]
    outcomes = (yield calls) if calls else []
    results = {outcome.call.name: outcome.text.splitlines() for outcome in outcomes if not outcome.is_error}
    found = [line for line in map(_FOUND.fullmatch, results.get("grep", [])) if line]
    positions = {key(bare(line["text"])): f"{line['path']}:{line['line']}" for line in found}
    is_new = path not in results.get("list", [path])
    return positions, f"# {PurePosixPath(path).stem}\n\n" if is_new else ""


def key(fact: str) -> tuple[str, ...]:
    """Return what facts are compared by: the words of the first line."""
    return tuple(words(fact.partition("\n")[0]))


def _any_of(facts: Sequence[str]) -> str:
    """Return a pattern for the lines that hold the longest clause of one of `facts`, or its beginning."""
    clauses = [max(_CLAUSE.split(fact.partition("\n")[0]), key=len).strip() for fact in facts]
    return "|".join(filter(None, (clause[: MAX_PATTERN // len(facts) - 1].strip() for clause in clauses)))


def _statement_before(turn: Turn) -> str:
    """Return what a bare "remember that" points at: the user's last message besides chat, if it stated
    something."""
    texts = (asked(message) for message in reversed(turn.earlier) if isinstance(message, UserMessage))
    before = (classify(text, turn.language) for text in texts if text.strip())
    last = next((intent for intent in before if intent.kind not in _SMALLTALK), Intent("empty"))
    return last.text if last.kind in ("remember", "statement", "secret") else ""


def list_files(turn: Turn, intent: Intent) -> Plan:
    """Show the content of a folder, by default the workspace; of the notes the newest lines."""
    if intent.kind == "notes" and "grep" in turn.tools:
        [outcome] = yield [PlannedCall("grep", {"pattern": _NOTE, "glob": "*.md"})]
        found = [line for line in map(_FOUND.fullmatch, outcome.text.splitlines()) if line]
        newest = sorted(found, key=lambda line: (line["path"].startswith("memory/"), line["path"], int(line["line"])))
        quotes = [quote(bare(line["text"]), f"{line['path']}:{line['line']}") for line in newest[-NOTES_SHOWN:]]
        if not outcome.is_error and quotes:
            return turn.reply("newest_first", quotes="\n\n".join(reversed(quotes)))
        return failed(turn, outcome) if outcome.declined else turn.reply("no_notes")
    path = intent.path or "."
    return (yield from _call(turn, PlannedCall("list", {"path": path}), intent.path or "workspace"))


def read_file(turn: Turn, intent: Intent) -> Plan:
    """Show a file."""
    return (yield from _call(turn, PlannedCall("read", {"path": intent.path}), intent.path))


def run_command(turn: Turn, intent: Intent) -> Plan:
    """Run a command; the permission is asked for outside of this model."""
    command = intent.text.strip()
    return (yield from _call(turn, PlannedCall("shell", {"command": command}), one_line(command, 80).replace("`", "'")))


def append_text(turn: Turn, intent: Intent) -> Plan:
    """Append a text to a file."""
    return (yield from _call(turn, PlannedCall("append", {"path": intent.path, "content": f"{intent.text}\n"})))


def create_file(turn: Turn, intent: Intent) -> Plan:
    """Create a new file; an existing one is left as it is."""
    if missing := next((tool for tool in ("write", "list") if tool not in turn.tools), None):
        return turn.reply("no_tool", tool=missing)
    path = intent.path.removeprefix("./")
    [listed] = yield [PlannedCall("list", {"pattern": path})]
    if listed.is_error:
        return failed(turn, listed)
    if path in listed.text.splitlines():
        return turn.reply("file_exists", path=path)
    content = f"{intent.text}\n" if intent.text else ""
    return (yield from _call(turn, PlannedCall("write", {"path": intent.path, "content": content})))


def failed(turn: Turn, outcome: CallOutcome) -> str:
    """Report a failed tool."""
    if outcome.declined:
        return turn.reply("declined")
    if missing := _MISSING.match(outcome.text):
        return turn.reply("missing", path=missing["path"])
    return turn.reply("tool_failed", tool=outcome.call.name, reason=quote(outcome.text))


def _call(turn: Turn, call: PlannedCall, what: str = "") -> Plan:
    """Make one call and show its answer below `what`, or report that it was done."""
    if call.name not in turn.tools:
        return turn.reply("no_tool", tool=call.name)
    [outcome] = yield [call]
    if outcome.is_error:
        return failed(turn, outcome)
    return block(turn.language, what, outcome.text) if what else done_words(turn.language, one_line(outcome.text))
