"""A workspace with proposals that wait for a review."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clawbot.config.paths import Paths
from clawbot.plugins.dreaming.proposals import Proposal, ProposalStore, identified, proposal_store
from tests.clocks import StillClock
from tests.tui.fake_runtime import FakeRuntime, RuntimeStatus

PORT = "- the staging proxy answers on 8080"
DATABASE = "- the database is Postgres 14"
MEMORY = f"# Memory\n\n## Facts\n\n{PORT}\n{DATABASE}\n- 用户喜欢制表符\n"
NOTE = "# 2026-10-02\n\n- staging proxy moved to 8443; 8080 clashed with grafana\n- 我们把数据库端口改成 5433 🎉\n"


def proposal(**values: Any) -> Proposal:
    """A proposal to add a line, unless the values say otherwise."""
    usual = {
        "id": "",
        "kind": "add",
        "file": "MEMORY.md",
        "text": "- 数据库端口是 5433",
        "sources": ("memory/2026-10-02.md:4",),
        "reason": "The note of 2 October says so.",
    }
    return identified(Proposal(**{**usual, **values}))


ADD = proposal()
SUPERSEDE = proposal(
    kind="supersede",
    text="- the staging proxy answers on 8443 (since 2026-10-02)",
    sources=("memory/2026-10-02.md:3", "memory/2026-09-18.md:7"),
    reason="It moved on 2 October.",
    old=(PORT,),
    until="2026-10-02",
)
DROP = proposal(kind="drop", text="", old=(DATABASE,), reason="The line below says the same.")


class Desk:
    """The workspace below `folder`, and the proposals that wait there."""

    def __init__(self, folder: Path, *proposals: Proposal, memory: str = MEMORY) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        self.home.mkdir(exist_ok=True)
        self.write(memory)
        (self.workspace / "memory" / "2026-10-02.md").write_text(NOTE)
        self.store: ProposalStore = proposal_store(
            Paths(self.home), "main", StillClock(datetime(2026, 11, 20, tzinfo=UTC))
        )
        self.store.record(proposals)

    def write(self, text: str) -> None:
        (self.workspace / "MEMORY.md").write_text(text)

    @property
    def memory(self) -> str:
        return (self.workspace / "MEMORY.md").read_text()

    @property
    def pending(self) -> list[str]:
        return [each.id for each in self.store.pending()]

    def runtime(self) -> FakeRuntime:
        files = {"memory/2026-10-02.md": NOTE, "MEMORY.md": self.memory}
        return FakeRuntime(self.home, status=RuntimeStatus(workspace=self.workspace), files=files)
