"""Converts a transcript's entries into the model's context and the reader's history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    compacted_text,
    text_of,
)
from clawbot.sessions.entries import (
    FORK,
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    MemoryWrite,
    MessageEntry,
    ModelChangeEntry,
    Offer,
    offer_of,
)
from clawbot.sessions.forgotten import MARK, Forgotten, session_of
from clawbot.sessions.silence import spoken_message
from clawbot.text.interface import _

SUMMARY_PREAMBLE = (
    "The conversation before this point was compacted to make room. This summary stands for it, and what was kept of "
    "it word for word follows:"
)
# In the details of a compaction that split a turn: the user message being answered.
REQUEST = "request"
REQUEST_PREAMBLE = "The user's message that you are answering right now, word for word; go on where you stopped:"
BRANCH_PREAMBLE = "The conversation went another way from here before it came back to this point. In short:"


NOTES = "clawbot.notes"
"""The type of a custom message that quotes notes at the start of a session; `details.files` are their paths."""


SILENT = "clawbot.silent-turn"
"""The type of the record of a turn that was not requested by the user and had nothing to show: the entries from
`data.first` up to the record are left out of the context."""


REWIND = "clawbot.rewind"
"""The type of the record with which a branch begins: the user took the message `data.to` back, and what followed it up
to `data.left`. `data.taken` are the first and last entries of what memory had been offered of the rest, and
`data.flushed` whether the threshold had."""


class ContextItem(Struct, frozen=True, gc=False):
    """A message for the model, and the id of its entry (the compaction's for a summary)."""

    entry_id: str
    message: Message


class HistoryItem(Struct, frozen=True):
    """An entry for the reader.

    `message` is None for a divider (a compaction, a memory write, a model change), described by `note`; `timestamp` is
    in milliseconds since the epoch; `interrupted` marks a truncated reply. `compaction` is the divider's summary,
    `offer` the memory write, `quote` the notes quoted at the start of the session.
    """

    entry_id: str
    timestamp: int
    message: Message | None = None
    interrupted: bool = False
    note: str = ""
    compaction: CompactionEntry | None = None
    offer: Offer | None = None
    quote: CustomMessageEntry | None = None


def context_items(entries: Sequence[Entry]) -> list[ContextItem]:
    """The context of `entries` (a path, oldest first, from the first entry kept by the last compaction)."""
    compactions = [index for index, entry in enumerate(entries) if isinstance(entry, CompactionEntry)]
    summary = [entries[compactions[-1]]] if compactions else []
    silent = _silent_entries(entries)
    rest = [entry for entry in entries if not isinstance(entry, CompactionEntry) and entry.id not in silent]
    return [item for entry in [*summary, *rest] if (item := _context_item(entry)) is not None]


def without_forgotten(items: Sequence[ContextItem], forgotten: Forgotten, transcript: str) -> list[ContextItem]:
    """`items` of the context, with the text of forgotten ones replaced by a mark."""
    if not (forgotten.is_whole(transcript) or session_of(transcript) in forgotten.entries):
        return list(items)
    return [
        structs.replace(item, message=_blanked(item.message)) if forgotten.holds(transcript, item.entry_id) else item
        for item in items
    ]


def _blanked(message: Message) -> Message:
    match message:
        case AssistantMessage(content=content):
            calls = [structs.replace(each, arguments={}) for each in content if isinstance(each, ToolCallBlock)]
            return structs.replace(message, content=[TextBlock(MARK), *calls])
        case BashExecutionMessage():
            return structs.replace(message, command=MARK, output="")
        case _:
            return structs.replace(message, content=[TextBlock(MARK)])


def history_item(entry: Entry) -> HistoryItem | None:
    """`entry` for a reader; None if there is nothing to show."""
    match entry:
        case MessageEntry(message=message):
            return _message_item(entry, message)
        case CompactionEntry():
            before = f" ({entry.tokens_before:,} tokens before)" if entry.tokens_before else ""
            return HistoryItem(entry.id, entry.moment, note=f"compacted{before}", compaction=entry)
        case ModelChangeEntry():
            return HistoryItem(entry.id, entry.moment, note=f"model: {model_ref(entry)}")
        case CustomMessageEntry(display=True):
            is_quote = entry.custom_type == NOTES
            note = quoted_note(entry) if is_quote else text_of(entry.content)
            return HistoryItem(entry.id, entry.moment, note=note, quote=entry if is_quote else None)
        case BranchSummaryEntry():
            return HistoryItem(entry.id, entry.moment, note=f"another branch: {entry.summary}")
        case CustomEntry():
            return _record_item(entry)
        case _:
            return None


def _record_item(entry: CustomEntry) -> HistoryItem | None:
    if entry.custom_type == FORK:
        imported = isinstance(entry.data, dict) and "source" in entry.data
        note = _("Imported. What follows was said here.") if imported else _("Forked. The original is unchanged.")
        return HistoryItem(entry.id, entry.moment, note=note)
    offer = offer_of(entry)
    written = offer is not None and offer.phase == "end" and offer.writes
    return HistoryItem(entry.id, entry.moment, note=written_note(written), offer=offer) if written else None


def quoted_note(entry: CustomMessageEntry) -> str:
    """A one-line description of quoted notes: `notes: 2 files, 2,143 characters`."""
    files = len(quoted_files(entry))
    return f"notes: {files} {'file' if files == 1 else 'files'}, {len(text_of(entry.content)):,} characters"


def quoted_files(entry: CustomMessageEntry) -> tuple[str, ...]:
    """The paths of the quoted notes; values of a damaged transcript that are not paths are left out."""
    files = entry.details.get("files") if isinstance(entry.details, dict) else None
    return tuple(file for file in files if isinstance(file, str)) if isinstance(files, list | tuple) else ()


def written_note(writes: Sequence[MemoryWrite]) -> str:
    """A one-line description of memory writes: `memory: 3 lines to memory/2026-11-20.md`."""
    lines: dict[str, int] = {}
    for write in writes:
        lines[write.path] = lines.get(write.path, 0) + write.end_line - write.line + 1
    parts = (f"{count} {'line' if count == 1 else 'lines'} to {path}" for path, count in lines.items())
    return f"memory: {', '.join(parts)}"


def model_ref(entry: ModelChangeEntry) -> str:
    """The model in the user's notation: `provider/model`, or the bare name without a provider."""
    return f"{entry.provider}/{entry.model_id}" if entry.provider else entry.model_id


def _silent_entries(entries: Sequence[Entry]) -> set[str]:
    """The ids of entries of turns that are left out of the context."""
    positions = {entry.id: position for position, entry in enumerate(entries)}
    found: set[str] = set()
    for end, entry in enumerate(entries):
        if isinstance(entry, CustomEntry) and entry.custom_type == SILENT and isinstance(entry.data, dict):
            start = positions.get(str(entry.data.get("first")), end)
            found.update(each.id for each in entries[start:end] if isinstance(each, MessageEntry))
    return found


def _message_item(entry: Entry, message: Message) -> HistoryItem | None:
    """None for a silent reply; tokens next to an answer are removed."""
    moment = message.timestamp or entry.moment
    if not isinstance(message, AssistantMessage):
        return HistoryItem(entry.id, moment, message)
    shown = spoken_message(message)
    if shown is None:
        return None
    return HistoryItem(entry.id, moment, shown, interrupted=message.stop_reason == "aborted")


def _context_item(entry: Entry) -> ContextItem | None:
    match entry:
        case MessageEntry(message=BashExecutionMessage(exclude_from_context=True)):
            return None
        case MessageEntry(message=message):
            return ContextItem(entry.id, message)
        case CompactionEntry(summary=summary, details=details):
            request = details.get(REQUEST) if isinstance(details, dict) else None
            text = compacted_text(
                SUMMARY_PREAMBLE, summary, REQUEST_PREAMBLE, request if isinstance(request, str) else ""
            )
        case BranchSummaryEntry(summary=summary):
            text = compacted_text(BRANCH_PREAMBLE, summary)
        case CustomMessageEntry(content=content):
            return ContextItem(entry.id, UserMessage(content=content, timestamp=entry.moment))
        case _:
            return None
    return ContextItem(entry.id, UserMessage(content=text, timestamp=entry.moment))


MISSING = (
    "There is no result: the run was interrupted before this call answered. It may or may not have taken effect; look "
    "before you repeat it."
)


class _Turn:
    """An assistant message with the results found for its calls."""

    def __init__(self, message: AssistantMessage) -> None:
        self.message = message
        self.results: list[ToolResultMessage | None] = [None] * len(message.tool_calls)

    @property
    def waits(self) -> bool:
        """Whether a call has no result yet."""
        return None in self.results

    def takes(self, result: ToolResultMessage) -> bool:
        """Assign `result` to the first call of its id without one; returns whether there is one."""
        for index, call in enumerate(self.message.tool_calls):
            if call.id == result.tool_call_id and self.results[index] is None:
                self.results[index] = result
                return True
        return False

    def messages(self) -> Iterable[Message]:
        """The message and one result for each call, in the order of the calls."""
        yield self.message
        for call, result in zip(self.message.tool_calls, self.results, strict=True):
            yield result or ToolResultMessage(
                call.id, call.name, [TextBlock(MISSING)], is_error=True, timestamp=self.message.timestamp
            )


class Pairing:
    """`repair_pairs` of messages that mostly grow at their end: only additions since the last call are read.
    For one thread at a time."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._seen: list[Message] = []
        self._kept: list[Message | _Turn] = []  # what `_paired` does not hold
        self._turns: list[_Turn] = []  # with a call that has no result yet
        self._paired: list[Message] = []  # up to the first of those

    def of(self, messages: Sequence[Message]) -> list[Message]:
        if list(messages[: len(self._seen)]) != self._seen:
            self._begin()
        for message in messages[len(self._seen) :]:
            self._take(message)
        self._seen = list(messages)
        self._turns = [turn for turn in self._turns if turn.waits]
        settled = self._kept.index(self._turns[0]) if self._turns else len(self._kept)
        self._paired += _flat(self._kept[:settled])
        del self._kept[:settled]
        return [*self._paired, *_flat(self._kept)]

    def _take(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            sound = _without_broken_calls(message)
            if sound.tool_calls:
                self._turns.append(_Turn(sound))
                self._kept.append(self._turns[-1])
            elif sound.text.strip():
                self._kept.append(sound)
        elif isinstance(message, ToolResultMessage):
            any(turn.takes(message) for turn in reversed(self._turns))
        else:
            self._kept.append(message)


def repair_pairs(messages: Sequence[Message]) -> list[Message]:
    """`messages` with exactly one result directly after each call, and no result without a call.

    A result belongs to the nearest preceding call with its id and no result yet (ids may repeat). Further results and
    results without a call are dropped; a missing one is replaced by an error. Calls of failed or interrupted answers
    are dropped, and so is an answer that is empty without them.
    """
    return Pairing().of(messages)


def _flat(kept: Iterable[Message | _Turn]) -> list[Message]:
    return [message for item in kept for message in (item.messages() if isinstance(item, _Turn) else (item,))]


def _without_broken_calls(message: AssistantMessage) -> AssistantMessage:
    """The calls of a broken message were cut off by the failure and never ran."""
    if not message.broken or not message.tool_calls:
        return message
    return structs.replace(
        message, content=[block for block in message.content if not isinstance(block, ToolCallBlock)]
    )
