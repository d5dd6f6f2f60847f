"""Memory backends of installed packages: chosen by name, used like the builtin one, harmless when they are broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.indexing import VectorProbe, open_index
from clawbot.memory.backend import MemoryBackend
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


ASKED = SearchRequest(queries=("proxy",))


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


async def test_an_unknown_name_is_told_with_the_known_ones_and_the_builtin_index_answers(paths: Paths) -> None:
    backend = opened(paths, "gerp")
    [notice] = load_settings(paths).notices
    assert "config.yaml:1: memory.backend: expected a memory backend that is installed" in notice
    assert "(builtin, qmd, milvus, crashing" in notice
    found = await backend.search(ASKED)
    assert (found.hits[0].path, found.fallback and found.fallback.from_) == ("MEMORY.md", "gerp")
    assert found.fallback is not None
    assert "config.yaml:1" in found.fallback.reason
    await backend.close()


@pytest.mark.parametrize("section", ["{search_mode: fast}", "{searchmode: query}", "{limits: {timeout_ms: -1}}", "5"])
async def test_a_mistake_in_the_section_of_a_backend_is_told_and_the_builtin_index_answers(
    paths: Paths, section: str
) -> None:
    paths.config_file.write_text(f"memory:\n  backend: qmd\n  qmd: {section}\n")
    loaded = load_settings(paths)
    backend = open_index(loaded.settings, "main", paths, SystemClock())
    assert backend is not None
    found = await backend.search(ASKED)
    assert found.hits
    assert found.fallback is not None
    assert (found.fallback.from_, len(loaded.notices)) == ("qmd", 1)
    assert "config.yaml:3: memory.qmd" in found.fallback.reason
    await backend.close()


def test_other_mistakes_stop_the_start_as_before_and_all_are_named(paths: Paths) -> None:
    paths.config_file.write_text("memory: {backend: gerp, citations: perhaps}\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(paths)
    assert [problem.key for problem in caught.value.problems] == ["memory.backend", "memory.citations"]


async def test_a_backend_of_a_package_searches_and_reads(paths: Paths) -> None:
    backend = opened(paths, "grep")
    backend.start()
    [hit] = (await backend.search(ASKED)).hits
    assert (hit.location, hit.snippet) == ("MEMORY.md#L1", "- the proxy moved to port 8443")
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
async def test_one_that_cannot_be_opened_says_why_and_the_builtin_index_answers(
    paths: Paths, name: str, why: str
) -> None:
    backend = opened(paths, name)
    told: list[str] = []
    probe = VectorProbe("main", {"main": backend})
    probe.start(told.append, deep=False)
    await until(lambda: bool(told))
    await probe.close()
    assert why in told[0]
    assert f"The memory backend {name} can't be opened: acme_memory:{NAMES[name]} of the package acme-memory" in told[0]
    assert told[0].endswith("Update or repair the package, or set memory.backend to builtin.")
    assert (await backend.search(ASKED)).hits[0].path == "MEMORY.md"
    assert "8443" in await backend.text("MEMORY.md")
    await backend.close()


async def test_one_that_crashes_is_named_and_ends_nothing(paths: Paths) -> None:
    backend = opened(paths, "crashing")
    backend.start()
    found = await backend.search(ASKED)
    assert found.hits[0].path == "MEMORY.md"
    assert found.fallback is not None
    assert (found.fallback.from_, "RuntimeError: cosmic ray" in found.fallback.reason) == ("crashing", True)
    status = await backend.status()
    assert (status.fallback, status.files) == (found.fallback, 1)
    assert "cosmic ray" in await backend.probe()
    assert (await backend.verify()).clean
    assert (backend.location, backend.built) == (paths.memory_db("main"), True)
    await backend.close()
