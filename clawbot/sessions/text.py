"""The text of the user and the agent in a transcript: for the index, notes, titles and views.

Without tools and their output, also where an answer repeats it, quotes of notes, reasoning, slash commands, prompts of
jobs, silent replies with the prompts that asked for them, and forgotten text. Secrets are redacted.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct, structs

from clawbot.messages import OFFLINE, AssistantMessage, Message, UserMessage, quotes_notes
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.entries import MessageEntry
from clawbot.sessions.envelopes import REFERENCE, users_text, without_echo
from clawbot.sessions.errors import store_errors
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.lines import LARGEST_BLOCK, ByteSource, line_end, line_numbers, lines_on
from clawbot.sessions.offsets import read_entry, spans_backwards
from clawbot.sessions.silence import names_token, spoken_message
from clawbot.sessions.summary import read_header
from clawbot.sessions.transcript import Transcript
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import clean_session, without_known
from clawbot.text.statements import is_refusal

T = TypeVar("T")
Speaker = Literal["user", "agent"]

LINE_CHARS = 700
"""Longer texts are split into several lines, between their paragraphs."""

_NAMES: dict[Speaker, str] = {"user": "User", "agent": "Assistant"}
_PARAGRAPH = lazy_re(r"\n\s*\n")
# A reference that replaces a quote or a tool's output.
_REFERENCE = lazy_re(rf"[ \t]*{REFERENCE}[ \t]*$", re.MULTILINE)
# How far after a part the answer to its last question is searched.
_READ_AHEAD_BYTES = 1024 * 1024
# Bytes read first around an entry: a dozen turns.
_NEAR_BYTES = 64 * 1024
# The size of an id with its key, which may cross a block boundary.
_ID_BYTES = 64
_BATCH = 200  # texts read together: of a long session only some are kept
_PAGE = 60  # items of history read together: a turn with tools has a handful
_MAX_TEXTS = 128  # maximum user texts kept of a session
_MAX_TEXT_CHARS = 2_000  # maximum characters of each: more is pasted text


def is_spoken(message: Message) -> bool:
    """Whether `message` has such a text by itself. One that asks for silence does not: whether it was silent depends on
    the next message."""
    match message:
        case UserMessage():
            text = users_text(message)
            return bool(text) and not (names_token(text) or quotes_notes(message))
        case AssistantMessage():
            shown = spoken_message(message)
            return shown is not None and bool(shown.text.strip())
        case _:
            return False


def _turns(messages: Iterable[tuple[T, Message]]) -> Iterator[list[tuple[T, Message]]]:
    """`messages` by turns, each with the message that it answers; at least one turn."""
    turn: list[tuple[T, Message]] = []
    for each in messages:
        if turn and isinstance(each[1], UserMessage) and each[1].text.strip():
            yield turn
            turn = []
        turn.append(each)
    yield turn


def _texts_of(
    turn: Sequence[tuple[T, Message]], role: str = "", *, is_answered: bool = False
) -> Iterator[tuple[T, Message, str]]:
    """The texts of a turn, of one `role` if given, with their messages, from which tokens of silence are removed. A
    prompt for silence is left out if the first answer is silent; `is_answered`: a later message answers it."""
    messages = [message for _, message in turn]
    answers = (each for each in messages if isinstance(each, AssistantMessage))
    texts = (each.text.strip() for each in answers if each.text.strip() or not (each.tool_calls or each.error_message))
    is_answered = is_answered or bool(next(texts, ""))
    for item, message in turn:
        text = ""
        if isinstance(message, UserMessage) and role != "assistant":
            text = users_text(message)
            text = text if is_answered or not names_token(text) else ""
        elif isinstance(message, AssistantMessage) and role != "user":
            text = without_echo(message, messages, quotes_only=message.provider == OFFLINE).strip()
        if text:
            yield item, message, text


class Spoken(Struct, frozen=True):
    """One line of a message: `text` is without the speaker. `line` is its line in the file, counted from 1 at the start
    of the search; `timestamp` is in milliseconds since the epoch, 0 if unknown; `by` is the other program whose
    assistant spoke. A long message yields several."""

    line: int
    entry: str
    who: Speaker
    timestamp: int
    text: str
    by: str = ""

    @property
    def labelled(self) -> str:
        """`User: …` or `Assistant: …`."""
        return f"{_NAMES[self.who]}: {self.text}"


class SpokenPart(Struct, frozen=True):
    """The messages in a part of a transcript. `settled`: nothing appended later changes it."""

    lines: tuple[Spoken, ...]
    settled: bool = True


def spoken_part(path: Path, start: int = 0, end: int | None = None) -> SpokenPart:
    """The messages of user and model in the transcript at `path`, oldest first. Blocks. `start` and `end` are byte
    offsets: the lines that begin between them count entirely. All branches and compacted entries are included;
    unreadable lines are left out. Whitespace is collapsed. Raises OSError."""
    forgotten = read_forgotten(path.parent)
    with ByteSource.open(path) as source:
        size = source.size
        first = line_end(source, start - 1, size) if start else 0
        stop = size if end is None or end >= size else line_end(source, end - 1, size)
        if first >= stop:
            return SpokenPart(())
        *turns, last = _turns(_messages(source, first, stop))
        kept = [each for turn in turns for each in _texts_of(turn)]
        ahead: Message | None = None
        if is_open := _asks_for_silence(last):
            ahead = next(_messages(source, stop, min(size, stop + _READ_AHEAD_BYTES)), (None, None))[1]
        kept += _texts_of(last, is_answered=isinstance(ahead, AssistantMessage) and bool(ahead.text.strip()))
        kept = [
            (at, message, own)
            for at, message, text in kept
            if (own := text if text == message.text.strip() else _REFERENCE.sub("", text).strip())
        ]
        numbers = line_numbers(source, (at.offset for at, _, _ in kept), first)
        clean, _ = clean_session(text for _, _, text in kept)
        spoken = (
            _spoken(at.entry, message, numbers[at.offset], line)
            for (at, message, _), text in zip(kept, clean, strict=True)
            if not forgotten.holds(path.name, at.entry.id)
            for line in _paragraphs(text)
        )
        return SpokenPart(tuple(spoken), not is_open or ahead is not None)


def spoken_at(path: Path, start: int, line: int) -> Spoken | None:
    """The speaker of the line `line` (from 1 at the byte `start`), without the text. Blocks. Raises OSError."""
    with ByteSource.open(path) as source:
        size = source.size
        at = lines_on(source, line_end(source, start - 1, size) if start else 0, line - 1, size)
        span = next(spans_backwards(source, line_end(source, at, size)), None)
        entry = read_entry(source, span) if span is not None and span.start >= at else None
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage | AssistantMessage):
        return None
    return _spoken(entry, entry.message, line, "")


def spoken_around(path: Path, entry: str, count: int) -> list[Spoken]:
    """The messages up to `count` lines before and after the entry `entry`; without one, the end of the conversation.
    Blocks. Empty if there is no such entry. Line numbers count from the start of the search. Raises OSError."""
    size = path.stat().st_size
    at = _offset_of(path, entry.encode(), size) if entry else size
    if at is None:
        return []
    lines: Sequence[Spoken] = ()
    near = 0
    for reach in (_NEAR_BYTES, 8 * _NEAR_BYTES, size):
        lines = spoken_part(path, max(0, at - reach), min(size, at + reach)).lines
        near = next((index for index, one in enumerate(lines) if one.entry == entry), len(lines) if not entry else -1)
        if near >= count and (not entry or len(lines) - near > count):
            break
    return list(lines[max(0, near - count) : near + count + 1]) if near >= 0 else []


def _offset_of(path: Path, entry: bytes, size: int) -> int | None:
    """The byte offset of `"id":"…"` of an entry, whichever program wrote it."""
    if not entry.isalnum():
        return None
    wanted = re.compile(rb'"id":\s?"%s"' % entry)
    with ByteSource.open(path) as source:
        for start in range(0, size, LARGEST_BLOCK):
            found = wanted.search(source.read(start, min(size, start + LARGEST_BLOCK + _ID_BYTES)))
            if found:
                return start + found.start()
    return None


class _Position(NamedTuple):
    offset: int
    entry: MessageEntry


def _messages(source: ByteSource, start: int, end: int) -> Iterator[tuple[_Position, Message]]:
    """The messages between two line starts, in file order. Silent replies are empty."""
    spans = list(itertools.takewhile(lambda span: span.start >= start, spans_backwards(source, end)))
    for span in reversed(spans):
        entry = read_entry(source, span) if span.kind == "message" else None
        if isinstance(entry, MessageEntry):
            message = entry.message
            if isinstance(message, AssistantMessage):
                message = spoken_message(message) or structs.replace(message, content=[])
            yield _Position(span.start, entry), message


def _asks_for_silence(turn: Sequence[tuple[_Position, Message]]) -> bool:
    """Whether a turn without an answer may ask for a silent one."""
    asked = [names_token(users_text(message)) for _, message in turn if isinstance(message, UserMessage)]
    return any(asked) and not any(isinstance(message, AssistantMessage) for _, message in turn)


def _spoken(entry: MessageEntry, message: Message, line: int, text: str) -> Spoken:
    who: Speaker = "user" if isinstance(message, UserMessage) else "agent"
    by = (message.by or "") if isinstance(message, AssistantMessage) else ""
    return Spoken(line, entry.id, who, message.timestamp or entry.moment, text, by)


def _paragraphs(text: str) -> Sequence[str]:
    """`text` with whitespace collapsed: in one line, or if long in as few as its paragraphs allow."""
    line = " ".join(text.split())
    if len(line) <= LINE_CHARS:
        return [line] if line else []
    found: list[str] = []
    for paragraph in _PARAGRAPH.split(text):
        clean = " ".join(paragraph.split())
        if found and len(found[-1]) + len(clean) < LINE_CHARS:
            found[-1] = f"{found[-1]} {clean}".strip()
        elif clean:
            found.append(clean)
    return found


class SpokenText(Struct, frozen=True):
    """A text of the conversation: `role` is `user` or `assistant`, `timestamp` in milliseconds since the epoch,
    `entry_id` its entry in the transcript."""

    role: str
    text: str
    timestamp: int
    entry_id: str = ""


def last_texts(
    transcript: Transcript, limit: int, role: str = "", *, known: Collection[str] = ()
) -> tuple[list[SpokenText], frozenset[str]]:
    """The last `limit` texts in `transcript`, of one `role` if given, oldest first; and the secrets redacted in them:
    those `known`, and those found in a text. Blocks. Raises SessionStoreError. All text of a message counts as one.
    References replace what is left out of an answer; refusals of the offline model are left out too."""
    found = itertools.islice(_remembered(_texts_backwards(transcript, role), transcript.path), limit)
    return _clean(list(found)[::-1], known)


class Asked(NamedTuple):
    """The user's texts in a session: up to 129, truncated, oldest first; the first, the last and evenly spaced others.
    And the secrets redacted in them."""

    texts: tuple[SpokenText, ...]
    secrets: frozenset[str]


class UserWords:
    """The user's texts in the open session, read incrementally, so that ending a long session costs no more than a
    short one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin(None)

    def _begin(self, path: Path | None) -> None:
        self._path = path
        self._settled = (
            _begins_at(path) if path is not None else ""
        )  # the last entry read for good; the answer to the one after it may still come
        self._count = 0
        self._stride = 1
        self._kept: list[SpokenText] = []
        self._secrets: frozenset[str] = frozenset()

    def read(self, transcript: Transcript) -> Asked:
        """Read what is new in `transcript`. Blocks. Raises SessionStoreError."""
        with self._lock:
            if transcript.path != self._path:
                self._begin(transcript.path)
            on_path, items = transcript.history_after(self._settled)
            if not on_path:
                self._begin(transcript.path)
            unread: list[SpokenText] = []
            for turn in _turns((item, item.message) for item in items if item.message is not None):
                unread += _texts_in(turn, "user")
                if len(unread) > _BATCH:
                    self._take(unread[:-1])
                    del unread[:-1]
            self._take(unread[:-1])
            last, secrets = _clean(unread[-1:], self._secrets)
            kept = _remembered([*self._kept, *map(_shortened, last)], transcript.path)
            return Asked(tuple(structs.replace(one, text=without_known(one.text, secrets)) for one in kept), secrets)

    def _take(self, texts: Sequence[SpokenText]) -> None:
        clean, self._secrets = _clean(texts, self._secrets)
        for text in clean:
            if self._count % self._stride == 0:
                self._kept.append(_shortened(text))
            self._count += 1
            self._settled = text.entry_id
            if len(self._kept) > _MAX_TEXTS:
                self._kept = self._kept[::2]
                self._stride *= 2


def _clean(texts: Sequence[SpokenText], known: Collection[str]) -> tuple[list[SpokenText], frozenset[str]]:
    """`texts` with secrets redacted, and all secrets, including the `known` ones."""
    clean, secrets = clean_session((text.text for text in texts), known)
    return [structs.replace(text, text=redacted) for text, redacted in zip(texts, clean, strict=True)], secrets


def _shortened(text: SpokenText) -> SpokenText:
    return structs.replace(text, text=text.text[:_MAX_TEXT_CHARS])


def _remembered(texts: Iterable[SpokenText], path: Path) -> Iterator[SpokenText]:
    """The `texts` of the transcript at `path` that are not forgotten. Raises SessionStoreError."""
    with store_errors("read", path.parent):
        forgotten = read_forgotten(path.parent)
    return (text for text in texts if not forgotten.holds(path.name, text.entry_id))


def last_words_at(transcript: Transcript) -> int:
    """The time of the user's last message, in milliseconds since the epoch; 0 if there is none or it is unknown.
    Blocks. Raises SessionStoreError."""
    return next((text.timestamp for text in _texts_backwards(transcript, "user")), 0)


def _texts_backwards(transcript: Transcript, role: str) -> Iterator[SpokenText]:
    """The texts of the conversation, of one `role` if given, the last one first."""
    turn: list[tuple[HistoryItem, Message]] = []
    for item in itertools.chain(_items(transcript), (None,)):
        if item is not None and item.message is not None:
            turn.append((item, item.message))
        if item is None or (isinstance(item.message, UserMessage) and item.message.text.strip()):
            yield from _texts_in(turn[::-1], role)[::-1]
            turn = []


def _texts_in(turn: Sequence[tuple[HistoryItem, Message]], role: str) -> list[SpokenText]:
    return [
        SpokenText("user" if isinstance(message, UserMessage) else "assistant", text, item.timestamp, item.entry_id)
        for item, message, text in _texts_of(turn, role)
        if not (isinstance(message, AssistantMessage) and message.provider == OFFLINE and is_refusal(message.text))
    ]


def _items(transcript: Transcript) -> Iterator[HistoryItem]:
    """The history, last item first, read page by page; of a fork only what is its own."""
    before: str | None = None
    own = _begins_at(transcript.path)
    while page := transcript.history(before=before, limit=_PAGE):
        for item in reversed(page):
            if own and item.entry_id == own:
                return
            yield item
        before = page[0].entry_id


def _begins_at(path: Path) -> str:
    """The entry with which a fork's own part begins: what precedes it belongs to the other session; "" for any other
    transcript. Raises SessionStoreError."""
    with store_errors("read", path):
        header = read_header(path)
    return (header.fork if header else None) or ""
