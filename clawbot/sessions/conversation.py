"""What a transcript's entries mean: to the model (context) and to the reader (history). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    compacted_text,
    text_of,
)
from clawbot.sessions.entries import (
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
from clawbot.sessions.silence import spoken_message

SUMMARY_PREAMBLE = (
    "The conversation before this point was compacted to make room. This summary stands for it, and what was kept of "
    "it word for word follows:"
)
# In the details of a compaction that cut a turn in two: the message of the user that is being answered.
REQUEST = "request"
REQUEST_PREAMBLE = "The user's message that you are answering right now, word for word; go on where you stopped:"
BRANCH_PREAMBLE = "The conversation went another way from here before it came back to this point. In short:"


NOTES = "clawbot.notes"
"""The type of a custom message that quotes notes to a session that begins; `details.files` are their paths."""


SILENT = "clawbot.silent-turn"
"""The type of the record of a turn that no user asked for and that had nothing to say: what stands from the entry
`data.first` on before the record is no part of the context (reference sheet 21)."""


class ContextItem(Struct, frozen=True):
    """A message as the model is to see it, and the entry that it comes from (the compaction's for a summary)."""

    entry_id: str
    message: Message


class HistoryItem(Struct, frozen=True):
    """An entry as a reader is to see it.

    `message` is None for a divider (a compaction, a write to memory, another model), which `note` names; `timestamp` is
    in milliseconds since the epoch; `interrupted` marks a reply that was cut off. `compaction` is the summary that the
    divider stands for, `offer` what was written to memory there, `quote` the notes that the session begins with.
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
    """The context that `entries` (a path, oldest first, from what the last compaction kept on) stand for."""
    compactions = [index for index, entry in enumerate(entries) if isinstance(entry, CompactionEntry)]
    summary = [entries[compactions[-1]]] if compactions else []
    silent = _silent_entries(entries)
    rest = [entry for entry in entries if not isinstance(entry, CompactionEntry) and entry.id not in silent]
    return [item for entry in [*summary, *rest] if (item := _context_item(entry)) is not None]


def history_item(entry: Entry) -> HistoryItem | None:
    """How `entry` looks to a reader; None when it is nothing to look at."""
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
            offer = offer_of(entry)
            written = offer is not None and offer.phase == "end" and offer.writes
            return HistoryItem(entry.id, entry.moment, note=written_note(written), offer=offer) if written else None
        case _:
            return None


def quoted_note(entry: CustomMessageEntry) -> str:
    """What the quote of notes is, in one line: `notes: 2 files, 2,143 characters`."""
    files = len(quoted_files(entry))
    return f"notes: {files} {'file' if files == 1 else 'files'}, {len(text_of(entry.content)):,} characters"


def quoted_files(entry: CustomMessageEntry) -> tuple[str, ...]:
    """The paths of the notes that the quote holds; what is no path, in a damaged transcript, is left out."""
    files = entry.details.get("files") if isinstance(entry.details, dict) else None
    return tuple(file for file in files if isinstance(file, str)) if isinstance(files, list | tuple) else ()


def written_note(writes: Sequence[MemoryWrite]) -> str:
    """What was written to memory, in one line: `memory: 3 lines to memory/2026-11-20.md`."""
    lines: dict[str, int] = {}
    for write in writes:
        lines[write.path] = lines.get(write.path, 0) + write.end_line - write.line + 1
    places = (f"{count} {'line' if count == 1 else 'lines'} to {path}" for path, count in lines.items())
    return f"memory: {', '.join(places)}"


def model_ref(entry: ModelChangeEntry) -> str:
    """The model as the user names it: `provider/model`, or the bare name where there is no provider."""
    return f"{entry.provider}/{entry.model_id}" if entry.provider else entry.model_id


def _silent_entries(entries: Sequence[Entry]) -> set[str]:
    """The ids of what was said in turns that are left out of the context."""
    places = {entry.id: place for place, entry in enumerate(entries)}
    found: set[str] = set()
    for end, entry in enumerate(entries):
        if isinstance(entry, CustomEntry) and entry.custom_type == SILENT and isinstance(entry.data, dict):
            start = places.get(str(entry.data.get("first")), end)
            found.update(each.id for each in entries[start:end] if isinstance(each, MessageEntry))
    return found


def _message_item(entry: Entry, message: Message) -> HistoryItem | None:
    """Silent replies are no item, and tokens beside an answer are not shown (reference sheet 9)."""
    moment = message.timestamp or entry.moment
    if not isinstance(message, AssistantMessage):
        return HistoryItem(entry.id, moment, message)
    shown = spoken_message(message)
    if shown is None:
        return None
    return HistoryItem(entry.id, moment, shown, interrupted=message.stop_reason == "aborted")


def _context_item(entry: Entry) -> ContextItem | None:
    match entry:
        case MessageEntry(message=message, excluded=False):
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
    """An assistant message, and for each of its calls the result that was found."""

    def __init__(self, message: AssistantMessage) -> None:
        self.message = message
        self.results: list[ToolResultMessage | None] = [None] * len(message.tool_calls)

    def takes(self, result: ToolResultMessage) -> bool:
        """Give `result` to the first call of its id that has none yet. Whether there is one."""
        for index, call in enumerate(self.message.tool_calls):
            if call.id == result.tool_call_id and self.results[index] is None:
                self.results[index] = result
                return True
        return False

    def messages(self) -> Iterable[Message]:
        """The message and a result for each call, in the order of the calls."""
        yield self.message
        for call, result in zip(self.message.tool_calls, self.results, strict=True):
            yield result or _missing(call, self.message.timestamp)


def repair_pairs(messages: Sequence[Message]) -> list[Message]:
    """`messages` with exactly one result directly behind each call, and no result without one.

    A result goes to the nearest call before it that has its id and no result yet (ids may repeat); a second one and one
    without a call are dropped; a missing one is made up as an error. Calls of answers that failed or were interrupted
    are dropped, and so is an answer that then neither says nor calls anything.
    """
    kept: list[Message | _Turn] = []
    turns: list[_Turn] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            sound = _without_broken_calls(message)
            if sound.tool_calls:
                turns.append(_Turn(sound))
                kept.append(turns[-1])
            elif sound.text.strip():
                kept.append(sound)
        elif isinstance(message, ToolResultMessage):
            any(turn.takes(message) for turn in reversed(turns))
        else:
            kept.append(message)
    return [message for item in kept for message in (item.messages() if isinstance(item, _Turn) else [item])]


def _without_broken_calls(message: AssistantMessage) -> AssistantMessage:
    """What a broken message called was cut off by the failure and never run."""
    if not message.broken or not message.tool_calls:
        return message
    return structs.replace(
        message, content=[block for block in message.content if not isinstance(block, ToolCallBlock)]
    )


def _missing(call: ToolCallBlock, timestamp: int) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=[TextBlock(MISSING)],
        is_error=True,
        timestamp=timestamp,
    )
