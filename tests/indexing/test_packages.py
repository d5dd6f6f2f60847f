"""Memory backends of installed packages: chosen by name, used like the builtin one, harmless when they are broken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.indexing import VectorProbe, open_index
from clawbot.memory.backend import IndexUnavailableError, MemoryBackend
from clawbot.memory.index import MemoryIndex
from clawbot.memory.values import SearchRequest
from tests.memory.index_host import until

PACKAGE = '''
"""A memory that knows every line with one of the words."""

import asyncio

from clawbot.memory.backend import FileBackend
from clawbot.memory.values import Hit, IndexStatus, SearchResult


class Grep(FileBackend):
    def __init__(self, context):
        super().__init__(context.documents)
        self.sources = context.sources

    def _hits(self, word):
        for source in self.sources:
            for state in source.list().files:
                for number, line in enumerate(source.read(state).text.split("\\n"), 1):
                    if word in line:
                        yield Hit(state.path, number, number, 1.0, line, source.source, number)

    async def search(self, request, building=None):
        [word] = request.queries
        return SearchResult(await asyncio.to_thread(lambda: tuple(self._hits(word))), "fts-only", "none", "")

    async def status(self, *, deep=False):
        return IndexStatus(provider="none", requested_provider="none", model="", remote=False, mode="fts-only", files=1,
            total_files=1, chunks=1, vectors=0, tokens=0, text_bytes=0, disk_bytes=0, workspace_dir="", identity="grep",
            details={"color": "auto"})


class Crashing(Grep):
    @property
    def generation(self):
        raise RuntimeError("cosmic ray")

    location = built = generation

    def fail(self, *arguments, **named):
        raise RuntimeError("cosmic ray")

    start = fail

    async def search(self, *arguments, **named):
        raise RuntimeError("cosmic ray")

    probe = status = sync = verify = scrub = read = text = close = search


class Half:
    on_progress = None


def make_half(context):
    return Half()


def forbidden(context):
    raise SystemExit(3)
'''
NAMES = {"grep": "Grep", "crashing": "Crashing", "half": "make_half", "lost": "Missing", "exits": "forbidden"}


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A home with one note, where a package is installed that offers NAMES."""
    site = tmp_path / "site"
    info = site / "acme_memory-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_memory.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-memory\nVersion: 1.0\n")
    points = "\n".join(f"{name} = acme_memory:{attribute}" for name, attribute in NAMES.items())
    (info / "entry_points.txt").write_text(f"[clawbot.memory_backends]\n{points}\n")
    monkeypatch.syspath_prepend(site)
    found = Paths(tmp_path / "home")
    found.workspace("main").mkdir(parents=True)
    (found.workspace("main") / "MEMORY.md").write_text("- the proxy moved to port 8443\n")
    return found


def opened(paths: Paths, name: str) -> MemoryBackend:
    paths.config_file.write_text(f"memory: {{backend: {name}}}\n")
    backend = open_index(load_settings(paths).settings, "main", paths, SystemClock())
    assert backend is not None
    return backend


def test_the_builtin_one_is_the_index_in_sqlite(paths: Paths) -> None:
    assert isinstance(opened(paths, "builtin"), MemoryIndex)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(paths: Paths) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml:1: memory\.backend: .*builtin, crashing, exits, grep"):
        opened(paths, "gerp")


async def test_a_backend_of_a_package_searches_and_reads(paths: Paths) -> None:
    backend = opened(paths, "grep")
    backend.start()
    [hit] = (await backend.search(SearchRequest(queries=("proxy",)))).hits
    assert (hit.place, hit.snippet) == ("MEMORY.md#L1", "- the proxy moved to port 8443")
    assert (await backend.read("MEMORY.md", 1, 1)).text == hit.snippet
    assert await backend.text("MEMORY.md") == f"{hit.snippet}\n"
    assert (await backend.status()).details == {"color": "auto"}
    assert (backend.built, backend.location, backend.generation, backend.problem) == (True, None, 0, "")
    assert (await backend.sync()).issues == ()
    assert (await backend.verify()).clean
    assert await backend.scrub()
    assert await backend.probe() == ""
    await backend.close()


@pytest.mark.parametrize(
    ("name", "why"), [("half", "lacks built, close,"), ("lost", "no attribute 'Missing'"), ("exits", "SystemExit: 3")]
)
async def test_one_that_cannot_be_opened_says_why_and_files_are_still_read(paths: Paths, name: str, why: str) -> None:
    backend = opened(paths, name)
    told: list[str] = []
    probe = VectorProbe("main", {"main": backend})
    probe.start(told.append, deep=False)
    await until(lambda: bool(told))
    await probe.close()
    assert why in told[0]
    assert (
        f"memory: The memory backend {name} can't be opened: acme_memory:{NAMES[name]} of the package acme-memory"
        in told[0]
    )
    assert told[0].endswith("Update or repair the package, or set memory.backend to builtin.")
    asked = (backend.search(SearchRequest(queries=("proxy",))), backend.sync(), backend.status(), backend.verify())
    for refused in await asyncio.gather(*asked, backend.scrub(), return_exceptions=True):
        assert isinstance(refused, IndexUnavailableError)
    assert "8443" in await backend.text("MEMORY.md")
    backend.start()
    await backend.close()


async def test_one_that_crashes_is_named_and_ends_nothing(paths: Paths) -> None:
    backend = opened(paths, "crashing")
    backend.on_progress = None
    backend.start()
    assert backend.problem.startswith("The memory backend crashing (acme_memory:Crashing of the package acme-memory)")
    assert "failed to start: RuntimeError: cosmic ray. Update" in backend.problem
    assert await backend.probe() == backend.problem
    asked = (backend.search(SearchRequest(queries=("proxy",))), backend.sync(), backend.status(), backend.verify())
    reads = (backend.read("MEMORY.md"), backend.text("MEMORY.md"), backend.scrub())
    for refused in await asyncio.gather(*asked, *reads, return_exceptions=True):
        assert isinstance(refused, ClawbotError)
    assert (backend.generation, backend.location, backend.built) == (0, None, True)
    await backend.close()
