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


Problems = Iterator[tuple[bool, str]]
"""What may be wrong, in order: whether it is, and the reason."""


def check(proposal: Proposal, book: Book) -> None:
    """Raise RefusedError for a `proposal` that breaks a rule. Blocks at the first call."""
    for rule in (_of_files, _of_sources, _of_old, _of_line, _of_words, _of_topic_name, _of_kind, _of_change):
        for is_wrong, reason in rule(proposal, book):
            if is_wrong:
                raise RefusedError(reason)


def topic_path(path: str) -> bool:
    """Return whether `path` may be that of a topic file: no day, no file with another meaning, no other folder."""
    found = _TOPIC.fullmatch(path)
    if found is None or composed(path) != path:
        return False
    name = fold_name(found["name"])
    return name not in _RESERVED and not any(map(str.isdigit, name))


def _of_files(proposal: Proposal, book: Book) -> Problems:
    for path in filter(None, (proposal.file, proposal.target)):
        is_known = path == MAIN or path in book.files or topic_path(path)
        yield not is_known, f"{clean_line(path, 80)} is neither MEMORY.md nor a topic file"
        yield path in book.closed, f"{path} can't be read: {book.closed.get(path)}"
    is_move = proposal.kind == "move"
    yield is_move and proposal.target in ("", MAIN, proposal.file), "a move needs another topic file"


def _of_sources(proposal: Proposal, book: Book) -> Problems:
    yield proposal.kind != "move" and not proposal.sources, "it names no source"
    yield len(proposal.sources) > MAX_SOURCES, f"it has more than {MAX_SOURCES} sources"
    for source in proposal.sources:
        yield source not in book.shown, f"{clean_line(source, 80)} is no line that was shown"


def _of_old(proposal: Proposal, book: Book) -> Problems:
    """The old lines are in the file, are text, and as many as the kind needs."""
    kind, count, lines = proposal.kind, len(proposal.old), book.files.get(proposal.file, ())
    fewest = {"add": 0, "merge": 2}.get(kind, 1)
    most = {"add": 0, "supersede": 2, "drop": 1}.get(kind, MAX_OLD)
    yield not fewest <= count <= most, f"a proposal of the kind {kind} can't have {count} old lines"
    for old in proposal.old:
        is_entry = old in lines and BULLET.match(old) and not HEADING.match(old)
        yield not is_entry, "an old line is no entry of its file"
    yield len(set(proposal.old)) != count, "it has an old line twice"


def _of_line(proposal: Proposal, book: Book) -> Problems:
    """The text is one harmless line."""
    text, reason = proposal.text, proposal.reason
    yield (proposal.kind == "drop") != (text == ""), "only a proposal to drop a line has no text"
    yield len(text) > MAX_LINE or len(reason) > MAX_REASON, "its text or its reason is too long"
    is_plain = clean_line(text) == text and not _MARKUP.search(bare(text)) and words(bare(text))
    yield text != "" and not is_plain, "its text is not one plain line"
    for part in (text, reason, proposal.target, *_joined(text)):
        is_known = any(value in part.lower() for value in book.secrets)
        yield is_known or holds_secret(part), "it holds a secret"
    yield is_order(bare(text)) or is_order(reason), "it gives an order"


def _of_words(proposal: Proposal, book: Book) -> Problems:
    """Each word, number, date and character is in a source or in an old line."""
    if proposal.kind == "move":
        yield proposal.text != pointer(proposal.target), "the line that leads to a topic file is another one"
    if proposal.kind in ("drop", "move"):
        return
    lines = _ground(proposal, book)
    is_unfit = any(is_order(line.text) or holds_secret(line.text) for line in lines)
    yield is_unfit, "a source gives an order or holds a secret"
    ground = Ground(lines)
    problem = ground.problem(bare(proposal.text))
    yield problem != "", problem
    for marks in (validity_of(proposal.text), validity_of(f"x (until {proposal.until})")):
        for day in filter(None, (marks.since, marks.until)):
            yield day not in ground.days, f"no source is of {day}"


def _of_topic_name(proposal: Proposal, book: Book) -> Problems:
    """The name of a new topic file has words of its lines."""
    path = proposal.target or proposal.file
    found = _TOPIC.fullmatch(path)
    if path not in (MAIN, EARLIER, OTHERS, *book.files) and found is not None:
        name = found["name"].replace("-", " ").replace("_", " ")
        problem = Ground(_ground(proposal, book)).problem(name, share=0.0)
        yield problem != "", f"the name of the topic file: {problem}"


def _ground(proposal: Proposal, book: Book) -> list[SourceLine]:
    """Return the lines whose words a proposal may have: its sources and the old lines."""
    return [*book.lines(proposal.sources), *(SourceLine(proposal.file, 0, old, None) for old in proposal.old)]


def _of_kind(proposal: Proposal, book: Book) -> Problems:
    """A merge loses nothing, and a supersession is about one thing, whose old value can have ended on that day."""
    text = bare(proposal.text)
    days = [line.day for line in book.lines(proposal.sources) if line.day is not None]
    until = day_in(proposal.until)
    for line in proposal.old if proposal.kind in ("merge", "supersede") else ():
        old, marks = bare(line), validity_of(line)
        if proposal.kind == "merge":
            lost = sorted(names_in(old) - names_in(text, every=True))
            is_less = len(words(old) & words(text)) * 2 < len(words(old))
            yield bool(lost) or is_less, f"the merged line lacks {lost[0] if lost else 'most of a line'}"
            yield marks.until is not None, "a line that has ended is not merged"
        else:
            yield marks.until is not None, "the old line has ended already"
            is_possible = until is not None and until >= (marks.since or until) and until <= max(days, default=date.max)
            yield not is_possible, "the old line can't have ended on that day"
            is_other = words(old).isdisjoint(words(text)) and not replaces(line, proposal.text)
            yield is_other, "the new line is about something else"
    if proposal.kind == "supersede":
        is_old = any(_is_same(proposal.text, old) for old in proposal.old)
        yield is_old, "the new line is the old one"


def _of_change(proposal: Proposal, book: Book) -> Problems:
    """The change states something new, and can be made."""
    others = [line for lines in book.files.values() for line in lines if line not in proposal.old]
    lines = list(book.files.get(proposal.file, ("",)))
    is_there = proposal.kind == "supersede" and proposal.text in lines
    is_text = proposal.kind in ("add", "supersede", "merge") and not is_there
    yield is_text and any(_is_same(proposal.text, line) for line in others), "a line states that already"
    try:
        after = edited(lines, proposal, proposal.file)
    except ValueError as error:
        raise RefusedError(str(error)) from error
    yield after == lines, "it changes nothing"
    is_worse = len(find_secrets("\n".join(after))) > len(find_secrets("\n".join(lines)))
    yield is_worse, "it would put a secret together"


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
