"""Brings what one machine holds of an agent's files into Milvus: plans, claims, writes, deletes, verifies. Blocks.

Each step leaves a state from which the next sync goes on; see `passages` for the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.memory.documents.library import Library, Plan, make_plan
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.store.records import ChunkRecord
from clawbot.memory.store.writer import day_runs
from clawbot.memory.values import Counts, Issue, Source, VerifyReport
from clawbot.plugins.milvus.collections import Collections
from clawbot.plugins.milvus.passages import (
    BLOCK,
    MAX_BLOCKS,
    Block,
    Claim,
    Version,
    begun,
    block_of,
    blocks_of,
    contested,
    deletable,
    fits,
    forgotten,
    max_passages,
    passage_id,
    settled,
    speaker_of,
)

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings

GROUP_BYTES = 256 * 1024
GROUP_FILES = 64
"""Files that take their steps together: what is in memory at once, and what a kill does again."""

TAKEOVER_SECONDS = 60.0
"""After so long, a block that another machine began to delete counts as deleted: that machine has died."""

TOMBSTONE_DAYS = 30
_DAY_MS = 86_400_000
_MAX_SHOWN = 20
_UNREAD = Version(size=-1, mtime_ns=0, digest=b"", source="memory")


class Change(Struct, frozen=True):
    """A file to be written: its claim as it begins, the new version, and its blocks."""

    claim: Claim
    version: Version
    blocks: tuple[Block, ...]

    @property
    def settled(self) -> Claim:
        """The claim after its blocks were written."""
        return settled(self.claim, self.version, self.claim.at)


class Missing(Struct, frozen=True):
    """A block that is not in Milvus, of the file of `change`."""

    change: Change
    block: Block

    @property
    def source(self) -> Source:
        return self.change.version.source


class ClaimWriter:
    """What `owner` holds of the files of `agent`. One thread, and one process of this owner, at a time."""

    def __init__(
        self,
        collections: Collections,
        library: Library,
        settings: MemorySearchSettings,
        *,
        names: tuple[str, str],
        clock: Clock,
        contested: dict[int, float],
    ) -> None:
        """`names` are the agent and the owner. `contested` has the time (monotonic) at which a block was first
        seen that another machine deletes; it outlives the writer."""
        self.known: dict[str, Claim] = {}
        self._collections = collections
        self._library = library
        self._settings = settings
        self._agent, self._owner = names
        self._clock = clock
        self._contested = contested

    @property
    def _agents(self) -> tuple[str, ...]:
        return (self._agent,)

    def plan(self) -> Plan:
        """Compare the files with what was claimed. Raises MilvusError."""
        claims = self._collections.claims(self._agents, owner=self._owner, strong=True)
        self.known = {claim.path: claim for claim in claims}
        indexed = self.indexed
        self._library.remember(indexed)
        listing = self._library.list()
        return make_plan(listing.files, indexed, listing.hidden)

    @property
    def indexed(self) -> dict[str, Version]:
        """The files as they were read; one whose writing was cut off differs from any file."""
        found = {path: _UNREAD if claim.pending else claim.version for path, claim in self.known.items()}
        return {path: version for path, version in found.items() if version is not None}

    def read(self, states: Sequence[FileState], *, again: bool = False) -> list[Change]:
        """Read files, and claim the blocks of those that are to be written; others are settled at once. `again`: write
        all. Raises MilvusError."""
        changes: list[Change] = []
        others: list[Claim] = []
        for state in states:
            document = self._library.read(state)
            known = self.known.get(state.path)
            if document is None:
                others += [settled(known, None, self._now())] if known is not None and known.version else []
                continue
            claim = known or Claim(agent=self._agent, owner=self._owner, path=state.path, at=self._now())
            change = self._changed(document, claim)
            if change is None:
                continue
            same = known is not None and not known.pending and known.blocks == change.version.blocks
            if same and not again:
                others.append(change.settled)
            else:
                changes.append(change)
        self._collections.put_claims([change.claim for change in changes])
        for change in changes:
            self.known[change.claim.path] = change.claim
        self.put(others)
        return changes

    def missing(self, changes: Sequence[Change], *, again: bool = False) -> list[Missing]:
        """Return the blocks of `changes` that nobody has written; with `again` all. Raises MilvusError."""
        wanted = [Missing(change, block) for change in changes for block in change.blocks]
        if again or not wanted:
            return wanted
        ids = [passage_id(each.block.id, number) for each in wanted for number in range(len(each.block.passages))]
        there = Counter(block_of(one) for one in self._collections.present(self._agents, ids))
        return [each for each in wanted if there[each.block.id] < len(each.block.passages)]

    def settle(self, changes: Sequence[Change]) -> int:
        """Complete the claims of written `changes`, and delete what no version needs any more. The number of files that
        must wait, since another machine deletes the same text now. Raises MilvusError."""
        others = self._of_paths([change.claim.path for change in changes])
        done = [change for change in changes if not self._must_wait(change.claim, others.get(change.claim.path, ()))]
        self.put([change.settled for change in done])
        return len(changes) - len(done)

    def remove(self, paths: Sequence[str]) -> None:
        """Leave tombstones for deleted files. Raises MilvusError."""
        self.put([settled(self.known[path], None, self._now()) for path in paths])

    def put(self, claims: Sequence[Claim]) -> None:
        """Write settled claims, and delete what they dropped and nobody needs. Raises MilvusError."""
        if not claims:
            return
        self._collections.put_claims(claims)
        for claim in claims:
            self.known[claim.path] = claim
        self.collect([claim for claim in claims if claim.dropped])

    def collect(self, claims: Sequence[Claim]) -> None:
        """Delete the dropped blocks of `claims` that no machine needs. Raises MilvusError."""
        if not claims:
            return
        others = self._of_paths([claim.path for claim in claims])
        blocks = {block for claim in claims for block in deletable(claim, others.get(claim.path, ()))}
        if blocks:
            self._collections.remove_blocks(self._agent, blocks)
        clean = [forgotten(claim, self._now()) for claim in claims]
        self._collections.put_claims(clean)
        for claim in clean:
            self.known[claim.path] = claim

    def unfinished(self) -> list[Claim]:
        """Return the claims whose deletions were cut off."""
        return [claim for claim in self.known.values() if claim.dropped and not claim.pending]

    def verify(self, *, fix: bool) -> tuple[VerifyReport, list[FileState]]:
        """Compare the files, the claims and the passages; the report, and the files to be written again.

        With `fix`, passages that nobody needs are deleted, and old tombstones. Raises MilvusError.
        """
        self.plan()
        states = {state.path: state for state in self._library.list().files}
        there = Counter(self._collections.every_passage(self._agent))
        # After the passages: what was there has been claimed before.
        claims = self._collections.claims(self._agents, strong=True)
        broken, problems = self._unlike_files(states)
        lost, more = _lost(claims, there, self._owner)
        doubled = sum(count > 1 for count in there.values())
        orphans = {block_of(one) for one in there} - {
            block for claim in claims for block in (*claim.needs, *claim.dropped)
        }
        problems += more
        problems += [f"{doubled:,} passages are there twice."] if doubled else []
        problems += [f"{len(orphans):,} blocks of text belong to no file."] if orphans else []
        if fix:
            self._collections.remove_blocks(self._agent, orphans)
            self._bury(claims)
        again = [states[path] for path in sorted(broken | lost) if path in states]
        counts = Counts(len(self.indexed), len(there), len(there), len(there) if self._collections.has_vectors else 0)
        shown = tuple(problems[:_MAX_SHOWN])
        return VerifyReport(shown, shown if fix else (), counts, clean=not problems), again

    def _unlike_files(self, states: Mapping[str, FileState]) -> tuple[set[str], list[str]]:
        broken = set()
        problems = []
        for path, state in states.items():
            document = self._library.read(state)
            known = self.known.get(path)
            if document is None or known is None:
                if document is not None:
                    problems.append(f"{path} is not indexed.")
                continue
            change = self._changed(document, known)
            if change is not None and (known.pending or known.blocks != change.version.blocks):
                broken.add(path)
                problems.append(f"{path} is indexed in another version.")
        gone = [path for path in self.indexed if path not in states]
        return broken, [*problems, *(f"{path} is indexed and not there." for path in gone)]

    def _bury(self, claims: Sequence[Claim]) -> None:
        """Delete own tombstones that every machine has seen."""
        before = self._now() - TOMBSTONE_DAYS * _DAY_MS
        old = [each.id for each in claims if each.owner == self._owner and _is_over(each, before)]
        self._collections.remove_claims(self._agent, old)

    def _changed(self, document: Document, claim: Claim) -> Change | None:
        """Return the change that `document` needs; None if it is too large, which becomes an issue of the library."""
        # Deferred: importing the chunker takes as long as a sync without changes.
        from clawbot.memory.chunking.document_chunks import chunks_of

        state = document.state
        passages = chunks_of(document, self._settings)
        blocks = tuple(blocks_of(self._agent, state.path, passages)) if len(passages) <= max_passages() else ()
        version = _version(document, passages, blocks)
        change = Change(begun(claim, version.blocks, self._now()), version, blocks)
        if len(passages) > max_passages() or not fits(change.claim) or not fits(change.settled):
            reason = f"it has {len(passages):,} passages; {MAX_BLOCKS * BLOCK:,} are the most for Milvus"
            self._library.refuse(state, Issue(state.path, reason))
            return None
        return change

    def _of_paths(self, paths: Sequence[str]) -> dict[str, list[Claim]]:
        found: dict[str, list[Claim]] = {}
        for claim in self._collections.claims(self._agents, paths=paths, strong=True) if paths else ():
            found.setdefault(claim.path, []).append(claim)
        return found

    def _must_wait(self, claim: Claim, others: Sequence[Claim]) -> bool:
        """Return whether another machine deletes blocks of `claim`; not for longer than it can need."""
        met = contested(claim, others)
        now = self._clock.monotonic()
        since = [self._contested.setdefault(block, now) for block in met]
        return any(now - first < TAKEOVER_SECONDS for first in since)

    def _now(self) -> int:
        return int(self._clock.now().timestamp() * 1000)


def _version(document: Document, passages: Sequence[ChunkRecord], blocks: Sequence[Block]) -> Version:
    state = document.state
    return Version(
        size=state.size,
        mtime_ns=state.mtime_ns,
        digest=document.digest,
        source=state.source,
        blocks=tuple(block.id for block in blocks),
        chunks=len(passages),
        chars=sum(len(passage.text) for passage in passages),
        day=document.date,
        days=tuple(day_runs(document.days, passages)),
        speakers=tuple(dict.fromkeys(name for passage in passages if (name := speaker_of(passage)))),
    )


def passages_of(version: Version) -> Iterator[int]:
    """The ids of all passages of a version, in order."""
    for number, block in enumerate(version.blocks):
        for position in range(min(BLOCK, version.chunks - number * BLOCK)):
            yield passage_id(block, position)


def _lost(claims: Sequence[Claim], there: Mapping[int, int], owner: str) -> tuple[set[str], list[str]]:
    """The own paths with passages that are not there, and what is wrong with any path."""
    lost = set()
    problems = []
    for claim in claims:
        missing = sum(one not in there for one in passages_of(claim.version)) if claim.version is not None else 0
        if missing:
            mine = claim.owner == owner
            lost |= {claim.path} if mine else set()
            whose = "" if mine else f" (of {claim.owner}, which mends it)"
            problems.append(f"{claim.path} has lost {missing:,} passages{whose}.")
        if claim.owner == owner and (claim.pending or claim.dropped):
            problems.append(f"{claim.path} was left in the middle of a change.")
    return lost, problems


def _is_over(claim: Claim, before: int) -> bool:
    return claim.version is None and not claim.needs and not claim.dropped and claim.at < before
