"""What the files of a conversation say of each message: where it is, and what memory was offered of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.agent.conversation import Conversation
from clawbot.sessions.conversation import NOTES, SILENT
from clawbot.sessions.entries import FINAL, OFFER, MemoryWrite, Offer

DAILY = "????-??-??.md"
"""The notes that flushes append to; those of sessions have a name behind the day."""


class Ledger(Struct, frozen=True):
    """A transcript as its lines tell it: `messages` are the ids of what is for the model (messages, and the quote of
    notes that is nobody's word), in their order, those before `kept` are under a summary. `said` are the texts that
    somebody spoke, with the role. `ended` are the records of offers that are over, `begun` is what one has written so
    far that is not."""

    lines: list[dict[str, Any]]
    messages: list[str]
    said: list[tuple[str, str]]
    kept: int
    summary: str
    ended: list[Offer]
    begun: list[MemoryWrite]


def read_ledger(path: Path) -> Ledger:
    """The ledger of the transcript at `path`, whose entries must follow each other without a gap."""
    whole = path.read_bytes().rpartition(b"\n")[0]  # a crash may have torn the last line of an archived one
    lines = [json.loads(line) for line in whole.split(b"\n") if line.strip()]
    assert lines[0]["type"] == "session"
    entries = lines[1:]
    ids = [entry["id"] for entry in entries]
    assert len(set(ids)) == len(ids), "an id is there twice"
    assert [entry.get("parentId") for entry in entries] == [None, *ids[:-1]][: len(ids)], "the chain is broken"
    silent = _silent(entries)
    messages = [entry["id"] for entry in entries if _is_shown(entry) and entry["id"] not in silent]
    quotes = [place for place, entry in enumerate(entries) if entry.get("customType") == NOTES]
    spoken = [place for place, entry in enumerate(entries) if entry["type"] == "message" and entry["id"] in messages]
    assert len(quotes) <= 1, "notes are quoted twice"
    assert not quotes or not spoken or quotes[0] < spoken[0], "notes are quoted behind the first message"
    kept, summary = 0, ""
    ended: dict[str, Offer] = {}
    opened = ""
    begun: list[MemoryWrite] = []
    for place, entry in enumerate(entries):
        if entry["type"] == "compaction":
            first = entry["firstKeptEntryId"]
            assert first in ids[:place], "a compaction keeps what came later"
            before = sum(other["id"] in messages for other in entries[: ids.index(first)])
            assert before > kept, "a compaction that made nothing smaller"
            kept, summary = before, entry["id"]
        if entry.get("customType") == OFFER:
            offer = msgspec.convert(entry["data"], Offer)
            if offer.phase == "end":
                assert offer.offer not in ended, "an offer ended twice"
                ended[offer.offer] = offer
                begun = []
            elif offer.phase == "begin":
                assert not begun, "an offer began while another had written and was open"
                opened = offer.offer
            else:
                assert offer.offer == opened
                begun += offer.writes
    return Ledger(lines, messages, _said(entries), kept, summary, list(ended.values()), begun)


def _is_shown(entry: dict[str, Any]) -> bool:
    return entry["type"] == "message" or entry.get("customType") == NOTES


def _silent(entries: list[dict[str, Any]]) -> set[str]:
    """The ids of what a job said and was answered in silence: that left the context."""
    found: set[str] = set()
    for entry in entries:
        if entry.get("customType") == SILENT:
            ids = [other["id"] for other in entries]
            found.update(ids[ids.index(entry["data"]["first"]) : ids.index(entry["id"])])
    return found


def _said(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The role (`job` where one spoke in the user's place) and the text of each message that has words."""
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    texts = [
        ("job" if message.get("scheduled") else message["role"], _text(message["content"])) for message in messages
    ]
    return [(role, text) for role, text in texts if role in ("user", "assistant", "job") and text]


def assert_offered_once(ledger: Ledger, *, archived: bool) -> None:
    """What lies under a summary (in an archived transcript: everything) was offered for good exactly once, and nothing
    was twice."""
    place = {ident: number for number, ident in enumerate(ledger.messages)}
    taken: set[int] = set()
    for offer in ledger.ended:
        assert offer.first in place, f"an offer without a first entry: {offer}"
        assert offer.last in place, f"an offer without a last entry: {offer}"
        first, last = place[offer.first], place[offer.last]
        assert offer.messages == last - first + 1, f"an offer that miscounts: {offer}"
        if offer.result not in FINAL:
            continue
        again = taken.intersection(range(first, last + 1))
        assert not again, f"offered from {first} to {last}, while memory had {again}: {offer}"
        taken.update(range(first, last + 1))
    left = set(range(len(ledger.messages) if archived else ledger.kept)) - taken
    assert not left, f"{left} left, only {taken} were offered"


def assert_in_context(ledger: Ledger, conversation: Conversation) -> None:
    """What the transcript says that the model sees is what the live conversation has, word for word."""
    written = [item for item in conversation.items if item.entry_id]
    assert conversation.items[: len(written)] == written, "what is not written is no tail"
    ids = [item.entry_id for item in written]
    kept = ledger.messages[ledger.kept :]
    assert ids == ([ledger.summary, *kept] if ledger.summary else kept)
    shown = [line for line in ledger.lines[1:] if _is_shown(line)]
    stored = {line["id"]: line["message"]["content"] if "message" in line else line["content"] for line in shown}
    for item in written[1 if ledger.summary else 0 :]:
        assert item.message.text == _text(stored[item.entry_id])


def assert_written_once(memory: Path, ledgers: list[Ledger]) -> None:
    """Each byte of the daily notes was recorded by an offer that took, or by one that is still open: so no offer of
    the same entries writes it again."""
    records = [
        write for ledger in ledgers for offer in ledger.ended if offer.result == "written" for write in offer.writes
    ]
    records += [write for ledger in ledgers for write in ledger.begun]
    for path in memory.glob(DAILY):
        data, end = path.read_bytes(), 0
        ours = {(write.offset, write.size): write for write in records if write.path == f"memory/{path.name}"}
        for (offset, size), write in sorted(ours.items()):
            if hashlib.sha256(data[offset : offset + size]).hexdigest() == write.digest and offset == end:
                end = offset + size
        assert end == len(data), f"{path.name} has bytes from {end} on that no final offer wrote"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content if block["type"] == "text")
