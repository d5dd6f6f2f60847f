"""A stand-in for qmd: answers from recorded forms of qmd 2.8.3, and fails in the ways that a test asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clawbot.clock import SystemClock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.indexing import Listener, memory_documents, open_index
from clawbot.memory.backend import BackendContext
from clawbot.memory.backends.self_healing import SelfHealingBackend
from clawbot.memory.values import SearchRequest, SearchResult

SCRIPT = """\
#!/bin/sh
here=${0%/*}
echo "$*" >> "$here/calls"
env > "$here/environment"
read -r fault < "$here/fault"
case "$fault-$1" in
hang-search|hang-query|hang-update) sleep 600 & sleep 600;;
garbage-search|garbage-query) echo 'Warning: <html>502</html>'; exit 0;;
dies-search|dies-query) printf '[{"docid": "#41f9f0", "sco'; kill -9 $$;;
exits-*) echo "Error: The module was compiled against a different Node.js version" >&2; exit 3;;
crashes-search|crashes-query|crashes-update) exit 139;;
flood-search|flood-query) yes '[[[[[[[[[[[[[[[[[[[[';;
esac
case $1 in
--version) echo 'qmd 2.8.3 (facd35e)';;
update) echo index > "$INDEX_PATH"; cat "$here/update";;
search|query|vsearch) cat "$here/answer";;
esac
"""
UPDATED = """\
Updating 1 collection(s)...

[1/1] main-memory ({MEMORY,memory}.md)
Collection: /home/ada/.clawbot/workspace ({MEMORY,memory}.md)

Indexed: 1 new, 0 updated, 0 unchanged, 0 removed

✓ All collections updated.
"""


def answer(file: str, line: int, score: float = 0.8) -> dict[str, Any]:
    """A result as qmd prints it."""
    snippet = f"@@ -{line},1 @@ ({line - 1} before, 0 after)\nwhatever qmd remembers of it"
    return {"docid": "#41f9f0", "score": score, "file": file, "line": line, "title": "Notes", "snippet": snippet}


class Machine:
    """A home with notes, a stand-in on no PATH, and memories that search with it."""

    def __init__(self, top: Path) -> None:
        self.bin = top / "bin"
        self.paths = Paths(top / "home")
        self.workspace = top / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        self.paths.sessions("main").mkdir(parents=True)
        self.told: list[str] = []
        self.talk = "one"
        self.write("MEMORY.md", "# Notes\n\n- the proxy moved to port 8443\n- 喜欢乌龙茶\n")
        self.write(
            "memory/2026-11-20.md", "- staging proxy listens on 8444\n- lunch with Ann\n- 部署窗口改到周四晚上\n"
        )
        self.bin.mkdir()
        self.install()
        self.answers(answer("qmd://main-memory/MEMORY.md", 3))

    def write(self, name: str, text: str) -> None:
        (self.workspace / name).write_text(text, encoding="utf-8")

    def install(self) -> None:
        """Put the program and its node where they belong."""
        for name, text in {"qmd": SCRIPT, "node": "#!/bin/sh\necho v22.23.3\n"}.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        (self.bin / "update").write_text(UPDATED)
        self.fails("")

    def remove(self) -> None:
        """Take the program away."""
        (self.bin / "qmd").unlink()

    def fails(self, fault: str) -> None:
        """From now on it does `fault`; "" for nothing."""
        (self.bin / "fault").write_text(f"{fault}\n")

    def answers(self, *found: dict[str, Any]) -> None:
        """What the next searches answer."""
        (self.bin / "answer").write_text(json.dumps(found, ensure_ascii=False, indent=2), encoding="utf-8")

    @property
    def calls(self) -> list[str]:
        """The command lines so far."""
        file = self.bin / "calls"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def settings(self, **qmd: Any) -> Settings:
        """Those of the memories."""
        search = {
            "provider": "none",
            "query": {"wait_for_writes": qmd.pop("wait", 30)},
            "extra_paths": qmd.pop("extra_paths", []),
            "sync": {"watch": qmd.pop("watch", False), "sessions": {"delta_bytes": 0}},
        }
        defaults = {"workspace": str(self.workspace), "memory_search": search}
        limits = {"timeout_ms": qmd.pop("timeout_ms", 30_000)}
        section = {"command": str(self.bin / "qmd"), "daemon_port": 0, "limits": limits, **qmd}
        return Settings.model_validate({"agents": {"defaults": defaults}, "memory": {"backend": "qmd", "qmd": section}})

    def memory(self, *, long_lived: bool = False, **qmd: Any) -> SelfHealingBackend:
        """A memory of the agent main."""
        listener = Listener(self.told.append, lambda: frozenset({self.talk}))
        settings, clock = self.settings(**qmd), SystemClock()
        found = open_index(settings, "main", self.paths, clock, long_lived=long_lived, listener=listener)
        assert isinstance(found, SelfHealingBackend)
        return found

    def context(self, **qmd: Any) -> BackendContext:
        """What the backend itself is made of."""
        settings = self.settings(**qmd)
        documents = memory_documents(settings, "main", self.paths)
        return BackendContext(
            agent_id="main",
            agent=settings.agent("main"),
            memory=settings.memory,
            paths=self.paths,
            clock=SystemClock(),
            documents=documents,
            sources=(documents,),
        )


async def ask(memory: SelfHealingBackend, *questions: str, **bounds: Any) -> SearchResult:
    """The results for `questions`."""
    return await memory.search(SearchRequest(queries=questions or ("where is the proxy",), **bounds))


def places(found: SearchResult) -> Sequence[str]:
    """Where the results are."""
    return [hit.location for hit in found.hits]
