"""What the files of a conversation say of each message: where it is, and what memory was offered of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.agent.conversation import Conversation
from clawbot.sessions.audit import FINAL, OFFER, MemoryWrite, Offer


class Ledger(Struct, frozen=True):
    """A transcript as its lines tell it: `messages` are the ids of the message entries in their order, those before
    `kept` are under a summary. `ended` are the records of offers that are over, `begun` is what one has written so far
    that is not."""

    lines: list[dict[str, Any]]
    messages: list[str]
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
    messages = [entry["id"] for entry in entries if entry["type"] == "message"]
    kept, summary = 0, ""
    ended: dict[str, Offer] = {}
    opened = ""
    begun: list[MemoryWrite] = []
    for place, entry in enumerate(entries):
        if entry["type"] == "compaction":
            first = entry["firstKeptEntryId"]
            assert first in ids[:place], "a compaction keeps what came later"
            before = sum(1 for other in entries[: ids.index(first)] if other["type"] == "message")
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
    return Ledger(lines, messages, kept, summary, list(ended.values()), begun)


def assert_offered_once(ledger: Ledger, *, archived: bool) -> None:
    """What lies under a summary (in an archived transcript: everything) was offered for good exactly once; nothing was
    twice, and offers follow each other."""
    place = {ident: number for number, ident in enumerate(ledger.messages)}
    upto = 0
    for offer in ledger.ended:
        assert offer.first in place, f"an offer without a first entry: {offer}"
        assert offer.last in place, f"an offer without a last entry: {offer}"
        first, last = place[offer.first], place[offer.last]
        assert offer.messages == last - first + 1, f"an offer that miscounts: {offer}"
        if offer.result not in FINAL:
            continue
        assert first == upto, f"offered from {first} to {last}, while memory had {upto}: {offer}"
        upto = last + 1
    must = len(ledger.messages) if archived else ledger.kept
    assert upto >= must, f"{must} left, only {upto} were offered"


def assert_in_context(ledger: Ledger, conversation: Conversation) -> None:
    """What the transcript says that the model sees is what the live conversation has, word for word."""
    written = [item for item in conversation.items if item.entry_id]
    assert conversation.items[: len(written)] == written, "what is not written is no tail"
    ids = [item.entry_id for item in written]
    kept = ledger.messages[ledger.kept :]
    assert ids == ([ledger.summary, *kept] if ledger.summary else kept)
    stored = {line["id"]: line["message"]["content"] for line in ledger.lines if line["type"] == "message"}
    for item in written[1 if ledger.summary else 0 :]:
        assert item.message.text == _text(stored[item.entry_id])


def assert_written_once(memory: Path, ledgers: list[Ledger]) -> None:
    """Each byte of the notes was recorded by an offer that took, or by one that is still open: so no offer of the same
    entries writes it again."""
    records = [
        write for ledger in ledgers for offer in ledger.ended if offer.result == "written" for write in offer.writes
    ]
    records += [write for ledger in ledgers for write in ledger.begun]
    for path in memory.glob("*.md"):
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
