"""Checks what is proposed against its sources, by rule: nothing that no source has, no secret, no order, no other file.

The model is not trusted, and neither are the notes, which may quote anything. So a line that gives orders or holds a
secret is no source, and a proposal is built of the words of its sources or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from clawbot.memory.dates.validity import validity_of
from clawbot.plugins.dreaming.applying import MAIN, edited
from clawbot.plugins.dreaming.book import Book
from clawbot.plugins.dreaming.changes import replaces
from clawbot.plugins.dreaming.grounding import Ground, names_in
from clawbot.plugins.dreaming.lines import BULLET, HEADING, bare, is_alike, is_order, words
from clawbot.plugins.dreaming.proposals import Proposal, RefusedError, SourceLine
from clawbot.text.names import composed, fold_name
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean_line
from clawbot.text.secrets import find_secrets, holds_secret

MAX_LINE, MAX_REASON, MAX_SOURCES, MAX_OLD = 300, 200, 8, 40
EARLIER, OTHERS = "memory/earlier.md", "memory/more.md"
"""The topic files of what has ended, and of what has no topic."""

_TOPIC = lazy_re(r"memory/(?P<name>[^\W_][\w-]{0,39})\.md")
_RESERVED = frozenset({"memory", "intents", "history", "readme", "index"})
_SAME = 0.999
_GAP = lazy_re(r"(?<=[!-~])[\s\"'+.,_-]+(?=[!-~])")
_MARKUP = lazy_re(r"\A[#>|=~]|\A[-*_ ]{3,}\Z|[`<>\\{}]|\]\(|\A\W*\Z")
"""What would change how other lines are read, or shows nothing."""


def check(proposal: Proposal, book: Book) -> None:
    """Raise RefusedError for a `proposal` that breaks a rule. Blocks at the first call."""
    for rule in (_check_file, _check_sources, _check_old, _check_line, _check_words, _check_topic_name, _check_change):
        rule(proposal, book)


def topic_path(path: str) -> bool:
    """Return whether `path` may be that of a topic file: no day, no file with another meaning, no other folder."""
    found = _TOPIC.fullmatch(path)
    if found is None or composed(path) != path:
        return False
    name = fold_name(found["name"])
    return name not in _RESERVED and not any(map(str.isdigit, name))


def _check_file(proposal: Proposal, book: Book) -> None:
    for path in filter(None, (proposal.file, proposal.target)):
        if path != MAIN and path not in book.files and not topic_path(path):
            raise RefusedError(f"{clean_line(path, 80)} is neither MEMORY.md nor a topic file")
        if path in book.closed:
            raise RefusedError(f"{path} can't be read: {book.closed[path]}")
    if proposal.kind == "move" and proposal.target in ("", MAIN, proposal.file):
        raise RefusedError("a move needs another topic file")


def _check_sources(proposal: Proposal, book: Book) -> None:
    if proposal.kind != "move" and not proposal.sources:
        raise RefusedError("it names no source")
    if len(proposal.sources) > MAX_SOURCES:
        raise RefusedError(f"it has more than {MAX_SOURCES} sources")
    if missing := next((source for source in proposal.sources if source not in book.shown), ""):
        raise RefusedError(f"{clean_line(missing, 80)} is no line that was shown")


def _check_old(proposal: Proposal, book: Book) -> None:
    """Raise RefusedError unless the old lines are in the file, are text, and as many as the kind needs."""
    fewest = {"add": 0, "merge": 2}.get(proposal.kind, 1)
    most = {"add": 0, "supersede": 2, "drop": 1}.get(proposal.kind, MAX_OLD)
    if not fewest <= len(proposal.old) <= most:
        raise RefusedError(f"a proposal of the kind {proposal.kind} can't have {len(proposal.old)} old lines")
    lines = book.files.get(proposal.file, ())
    for old in proposal.old:
        if old not in lines or HEADING.match(old) or not BULLET.match(old):
            raise RefusedError("an old line is no entry of its file")
    if len(set(proposal.old)) != len(proposal.old):
        raise RefusedError("it has an old line twice")


def _check_line(proposal: Proposal, book: Book) -> None:
    """Raise RefusedError for what can't be one harmless line of a file."""
    text, reason = proposal.text, proposal.reason
    if (proposal.kind == "drop") != (text == ""):
        raise RefusedError("only a proposal to drop a line has no text")
    if len(text) > MAX_LINE or len(reason) > MAX_REASON:
        raise RefusedError("its text or its reason is too long")
    if text and (clean_line(text) != text or _MARKUP.search(bare(text)) or not words(bare(text))):
        raise RefusedError("its text is not one plain line")
    for part in (text, reason, proposal.target, *_joined(text)):
        if holds_secret(part) or any(value in part.lower() for value in book.secrets):
            raise RefusedError("it holds a secret")
    if is_order(bare(text)) or is_order(reason):
        raise RefusedError("it gives an order")


def _check_words(proposal: Proposal, book: Book) -> None:
    """Raise RefusedError for a word, a number, a date or a character that neither a source nor an old line has."""
    if proposal.kind == "move" and proposal.text != pointer(proposal.target):
        raise RefusedError("the line that leads to a topic file is another one")
    if proposal.kind in ("drop", "move"):
        return
    lines = _ground(proposal, book)
    if any(is_order(line.text) or holds_secret(line.text) for line in lines):
        raise RefusedError("a source gives an order or holds a secret")
    ground = Ground(lines)
    if problem := ground.problem(bare(proposal.text)):
        raise RefusedError(problem)
    for marks in (validity_of(proposal.text), validity_of(f"x (until {proposal.until})")):
        for day in filter(None, (marks.since, marks.until)):
            if day not in ground.days:
                raise RefusedError(f"no source is of {day}")


def _check_topic_name(proposal: Proposal, book: Book) -> None:
    """Raise RefusedError if a new topic file has a name of other words than those of its lines."""
    path = proposal.target or proposal.file
    found = _TOPIC.fullmatch(path)
    if path in (MAIN, EARLIER, OTHERS) or path in book.files or found is None:
        return
    name = found["name"].replace("-", " ").replace("_", " ")
    if problem := Ground(_ground(proposal, book)).problem(name, share=0.0):
        raise RefusedError(f"the name of the topic file: {problem}")


def _ground(proposal: Proposal, book: Book) -> list[SourceLine]:
    """Return the lines whose words a proposal may have: its sources and the old lines."""
    return [*book.lines(proposal.sources), *(SourceLine(proposal.file, 0, old, None) for old in proposal.old)]


def _check_change(proposal: Proposal, book: Book) -> None:
    """Raise RefusedError for a change that loses something, says nothing new, or can't be made."""
    if proposal.kind == "merge":
        _check_merge(proposal)
    if proposal.kind == "supersede":
        _check_supersede(proposal, book)
    others = [line for path in book.files for line in book.files[path] if line not in proposal.old]
    is_there = proposal.kind == "supersede" and proposal.text in book.files.get(proposal.file, ())
    is_text = proposal.kind in ("add", "supersede", "merge") and not is_there
    if is_text and any(_is_same(proposal.text, line) for line in others):
        raise RefusedError("a line states that already")
    lines = list(book.files.get(proposal.file, ("",)))
    try:
        after = edited(lines, proposal, proposal.file)
    except ValueError as error:
        raise RefusedError(str(error)) from error
    if after == lines:
        raise RefusedError("it changes nothing")
    if len(find_secrets("\n".join(after))) > len(find_secrets("\n".join(lines))):
        raise RefusedError("it would put a secret together")


def _check_merge(proposal: Proposal) -> None:
    kept = words(bare(proposal.text))
    for old in proposal.old:
        lost = sorted(names_in(bare(old)) - names_in(bare(proposal.text), every=True))
        if lost or len(words(bare(old)) & kept) * 2 < len(words(bare(old))):
            raise RefusedError(f"the merged line lacks {lost[0] if lost else 'most of a line'}")
        if validity_of(old).until is not None:
            raise RefusedError("a line that has ended is not merged")


def _check_supersede(proposal: Proposal, book: Book) -> None:
    until = day_in(proposal.until)
    days = [line.day for line in book.lines(proposal.sources) if line.day is not None]
    for old in proposal.old:
        since = validity_of(old).since
        if validity_of(old).until is not None:
            raise RefusedError("the old line has ended already")
        if until is None or (since is not None and until < since) or (days and until > max(days)):
            raise RefusedError("the old line can't have ended on that day")
        if words(bare(old)).isdisjoint(words(bare(proposal.text))) and not replaces(old, proposal.text):
            raise RefusedError("the new line is about something else")
    if any(_is_same(proposal.text, old) for old in proposal.old):
        raise RefusedError("the new line is the old one")


def pointer(target: str) -> str:
    """Return the line of MEMORY.md that leads to the topic file `target`."""
    name = target.removeprefix("memory/").removesuffix(".md")
    return f"- {name[:1].upper()}{name[1:].replace('-', ' ')}: {target}"


def _is_same(text: str, line: str) -> bool:
    return bool(BULLET.match(line)) and validity_of(line).until is None and is_alike(text, line, _SAME)


def _joined(text: str) -> Iterator[str]:
    """Yield `text` with one gap less, for each gap that can part a secret, and without any gap."""
    plain = bare(text)
    yield from (plain[: gap.start()] + plain[gap.end() :] for gap in _GAP.finditer(plain))
    yield _GAP.sub("", plain)


def day_in(text: str) -> date | None:
    """Return the day `text` (YYYY-MM-DD), None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
