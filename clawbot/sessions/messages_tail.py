"""The texts of user and assistant in a conversation, without tool calls: its last ones, and a selection of the
user's."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from clawbot.messages import AssistantMessage, Message, UserMessage, quotes_notes
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.echo import without_echo
from clawbot.sessions.envelopes import users_words
from clawbot.sessions.errors import store_errors
from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.plain_lines import is_command
from clawbot.sessions.silence import names_token, spoken_message
from clawbot.sessions.summary import read_header
from clawbot.sessions.transcript import Transcript
from clawbot.text.secrets import clean_talk, without_known

_BATCH = 200  # texts looked at together: of a long talk only some are kept
_PAGE = 60  # items of history read together: a turn with tools has a handful
_MOST_WORDS = 128  # maximum user texts kept of a session
_LONGEST_WORDS = 2_000  # maximum characters of each: more is pasted text


class SaidText(Struct, frozen=True):
    """A text of the conversation: `role` is `user` or `assistant`, `timestamp` in milliseconds since the epoch,
    `entry_id` its entry in the transcript."""

    role: str
    text: str
    timestamp: int
    entry_id: str = ""


def is_said(message: Message) -> bool:
    """Whether `message` counts as such a text by itself. One that asks for silence does not: whether it was silent
    depends on the next message."""
    match message:
        case UserMessage(scheduled=True):
            return False
        case UserMessage():
            text = (users_words(message.text) or "").strip()
            return bool(text) and not (is_command(text) or names_token(text) or quotes_notes(message))
        case AssistantMessage():
            shown = spoken_message(message)
            return shown is not None and bool(shown.text.strip())
        case _:
            return False


Manner = Literal["free", "quoting", "refusing"]
"""How an answer is made: freely; by rules that quote everything they did not write; or as a plain refusal."""


def answers_freely(_message: AssistantMessage) -> Manner:
    """The manner of a language model."""
    return "free"


def last_said(
    transcript: Transcript,
    limit: int,
    role: str = "",
    *,
    manner: Callable[[AssistantMessage], Manner] = answers_freely,
    known: Collection[str] = (),
) -> tuple[list[SaidText], frozenset[str]]:
    """The last `limit` texts in `transcript`, of one `role` if given, oldest first; and the secrets redacted in them:
    those `known`, and those found in a text. Blocks. Raises SessionStoreError.

    All text of a message counts as one. Left out are tools and their output, also where an answer repeats it, quotes of
    notes (see `echo`), reasoning, slash commands, prompts of jobs, refusals, silent replies with the prompts that asked
    for them, and forgotten text.
    """
    texts = (text for turn in _turns(transcript) for text in _said_in(turn, role, manner))
    found = itertools.islice(_remembered(texts, transcript.path), limit)
    return _clean(list(found)[::-1], known)


class Asked(NamedTuple):
    """The user's texts in a session: up to 129, truncated, oldest first; the first, the last and evenly spaced others.
    And the secrets redacted in them."""

    texts: tuple[SaidText, ...]
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
        self._kept: list[SaidText] = []
        self._secrets: frozenset[str] = frozenset()

    def read(self, transcript: Transcript) -> Asked:
        """Read what is new in `transcript`. Blocks. Raises SessionStoreError."""
        with self._lock:
            if transcript.path != self._path:
                self._begin(transcript.path)
            on_path, items = transcript.history_after(self._settled)
            if not on_path:
                self._begin(transcript.path)
            unread: list[SaidText] = []
            for turn in _turns_onward(items):
                unread += _said_in(turn, "user", answers_freely)
                if len(unread) > _BATCH:
                    self._take(unread[:-1])
                    del unread[:-1]
            self._take(unread[:-1])
            last, secrets = _clean(unread[-1:], self._secrets)
            kept = _remembered([*self._kept, *map(_shortened, last)], transcript.path)
            return Asked(tuple(structs.replace(one, text=without_known(one.text, secrets)) for one in kept), secrets)

    def _take(self, texts: Sequence[SaidText]) -> None:
        clean, self._secrets = _clean(texts, self._secrets)
        for text in clean:
            if self._count % self._stride == 0:
                self._kept.append(_shortened(text))
            self._count += 1
            self._settled = text.entry_id
            if len(self._kept) > _MOST_WORDS:
                self._kept = self._kept[::2]
                self._stride *= 2


def _clean(texts: Sequence[SaidText], known: Collection[str]) -> tuple[list[SaidText], frozenset[str]]:
    """`texts` with secrets redacted, and all secrets, including the `known` ones."""
    clean, secrets = clean_talk((text.text for text in texts), known)
    return [structs.replace(text, text=told) for text, told in zip(texts, clean, strict=True)], secrets


def _shortened(text: SaidText) -> SaidText:
    return structs.replace(text, text=text.text[:_LONGEST_WORDS])


def _remembered(texts: Iterable[SaidText], path: Path) -> Iterator[SaidText]:
    """The `texts` of the transcript at `path` that are not forgotten. Raises SessionStoreError."""
    with store_errors("read", path.parent):
        forgotten = read_forgotten(path.parent)
    return (text for text in texts if not forgotten.holds(path.name, text.entry_id))


def last_words_at(transcript: Transcript) -> int:
    """The time of the user's last message, in milliseconds since the epoch; 0 if there is none or it is unknown.
    Blocks. Raises SessionStoreError."""
    texts = (text for turn in _turns(transcript) for text in _said_in(turn, "user", answers_freely))
    return next((text.timestamp for text in texts), 0)


def _turns(transcript: Transcript) -> Iterator[list[HistoryItem]]:
    """The history by turns, each with the message that it answers; last turn and last item first."""
    turn: list[HistoryItem] = []
    for item in _items(transcript):
        turn.append(item)
        if isinstance(item.message, UserMessage) and item.message.text.strip():
            yield turn
            turn = []
    yield turn


def _turns_onward(items: Iterable[HistoryItem]) -> Iterator[list[HistoryItem]]:
    """`_turns` of `items` whose first comes first: first turn first, but the last item of each first, too."""
    turn: list[HistoryItem] = []
    for item in items:
        if turn and isinstance(item.message, UserMessage) and item.message.text.strip():
            yield turn[::-1]
            turn = []
        turn.append(item)
    yield turn[::-1]


def _said_in(
    turn: Sequence[HistoryItem], role: str, manner: Callable[[AssistantMessage], Manner]
) -> Iterator[SaidText]:
    """The texts of a turn, of one `role` if given, last first."""
    if role != "user":
        yield from _answers(turn, manner)
    asked = turn[-1] if turn else None
    if role != "assistant" and asked is not None and isinstance(asked.message, UserMessage):
        text = (users_words(asked.message.text) or "").strip()
        was_answered = any(isinstance(item.message, AssistantMessage) and item.message.text.strip() for item in turn)
        is_talk = text and not is_command(text) and not asked.message.scheduled
        if is_talk and (was_answered or not names_token(text)):
            yield SaidText("user", text, asked.timestamp, asked.entry_id)


def _answers(turn: Sequence[HistoryItem], manner: Callable[[AssistantMessage], Manner]) -> Iterator[SaidText]:
    """The agent's texts in a turn whose last item comes first."""
    messages = [item.message for item in reversed(turn) if item.message is not None]
    for item in turn:
        message = item.message
        if not isinstance(message, AssistantMessage) or (how := manner(message)) == "refusing":
            continue
        if text := without_echo(message, messages, quotes_only=how == "quoting").strip():
            yield SaidText("assistant", text, item.timestamp, item.entry_id)


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
    """The entry with which a fork's own part begins: what stands before is told of the session where it was said; ""
    for any other transcript. Raises SessionStoreError."""
    with store_errors("read", path):
        header = read_header(path)
    return (header.fork if header else None) or ""
