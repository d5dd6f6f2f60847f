"""A memory index that answers what a test gives it: the methods of the facade without SQLite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import structs, to_builtins

from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import (
    BuiltinDetails,
    Counts,
    Excerpt,
    Hit,
    IndexStatus,
    Probe,
    Progress,
    SearchRequest,
    SearchResult,
    SyncReport,
    VerifyReport,
)

HIT = Hit("memory/2026-10-02.md", 13, 14, 0.8731, "## 15:20\n- staging proxy moved to 8443", "memory")
HIT_ZH = Hit("memory/2026-09-30.md", 4, 4, 0.61, "- 部署窗口改到周四晚上", "memory")
FOUND = SearchResult((HIT, HIT_ZH), "hybrid", "offline", "wordllama-256")
STATUS = IndexStatus(
    provider="offline",
    requested_provider="auto",
    model="wordllama-256",
    remote=False,
    mode="hybrid",
    files=3,
    total_files=3,
    chunks=41,
    vectors=41,
    tokens=1_200,
    text_bytes=4_800,
    disk_bytes=90_112,
    workspace_dir="/home/ada/.clawbot/workspace",
    identity="lines, tokenizer 1, offline wordllama-256, 256 dimensions, memory",
    details=to_builtins(
        BuiltinDetails(db_path="/home/ada/.clawbot/memory/main.sqlite", profile="lines", dimensions=256)
    ),
)
CLEAN = VerifyReport((), (), Counts(3, 41, 41, 41), clean=True)


class FakeIndex(MemoryBackend):
    """Answers `found`, `files`, `report`, `state` and `verified`; an exception in their place is raised.

    `requests`, `reads` and `calls` hold what was asked.
    """

    location: Path | None = None
    built = True

    def __init__(
        self,
        found: SearchResult | Exception = FOUND,
        *,
        files: Mapping[str, str] | Exception | None = None,
        report: SyncReport | Exception | None = None,
        state: IndexStatus = STATUS,
        verified: VerifyReport = CLEAN,
    ) -> None:
        self.found = found
        self.files = files if isinstance(files, Exception) else dict(files or {})
        self.report = report or SyncReport()
        self.state = state
        self.verified = verified
        self.steps: tuple[Progress, ...] = ()
        self.requests: list[SearchRequest] = []
        self.reads: list[tuple[str, int | None, int | None]] = []
        self.calls: list[str] = []
        self.on_progress: Callable[[Progress | None], None] | None = None
        self.closed = False

    @property
    def generation(self) -> int:
        """How many searches there were."""
        return len(self.requests)

    @property
    def problem(self) -> str:
        """None."""
        return ""

    async def probe(self, *, deep: bool = True) -> str:
        """None."""
        return ""

    async def search(self, request: SearchRequest, building: Callable[[Progress], None] | None = None) -> SearchResult:
        """Answer `found`."""
        self.requests.append(request)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of one of `files`, as the facade returns them."""
        self.reads.append((path, from_line, lines))
        if isinstance(self.files, Exception):
            raise self.files
        if path not in self.files:
            return Excerpt(path, "", 0, 0, 0, found=False)
        whole = self.files[path].removesuffix("\n").split("\n")
        first = from_line or 1
        taken = whole[first - 1 : first - 1 + lines] if lines else whole[first - 1 :]
        if not taken:
            return Excerpt(path, "", 0, 0, len(whole))
        last = first + len(taken) - 1
        more = last < len(whole)
        return Excerpt(path, "\n".join(taken), first, last, len(whole), more, last + 1 if more else None)

    async def text(self, path: str) -> str:
        """One of `files`, whole."""
        return (await self.read(path)).text

    async def sync(self, *, force: bool = False, progress: Callable[[Progress], None] | None = None) -> SyncReport:
        """Play `steps`, then answer `report`."""
        self.calls.append(f"sync force={force}")
        for step in self.steps:
            if progress is not None:
                progress(step)
        if isinstance(self.report, Exception):
            raise self.report
        return self.report

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """Answer `state`, with a probe when `deep`."""
        self.calls.append(f"status deep={deep}")
        return structs.replace(self.state, embedding_probe=Probe(ok=True, seconds=0.012)) if deep else self.state

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Answer `verified`."""
        self.calls.append(f"verify fix={fix}")
        return self.verified

    def start(self) -> None:
        """Note that it was started."""
        self.calls.append("start")

    async def scrub(self) -> bool:
        """Note that it was scrubbed."""
        self.calls.append("scrub")
        return True

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True
