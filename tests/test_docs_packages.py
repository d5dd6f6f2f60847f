"""The examples of the pages on memory backends and on models run as they stand: a package of them is installed."""

from __future__ import annotations

import re
from contextlib import aclosing
from pathlib import Path

import pytest

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.config.schema_agent import AgentSettings
from clawbot.indexing import open_index
from clawbot.llm.errors import RefusedError
from clawbot.llm.factory import open_model
from clawbot.llm.protocol import ChatRequest, FinalPart, TextPart
from clawbot.memory.values import SearchRequest
from clawbot.messages import UserMessage
from tests.packages import install

DOCS = Path(__file__).parents[1] / "docs"


def install_example(page: str, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the package that `page` describes: its Python, and the entry point of its TOML."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    source, points = (
        re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for kind in ("python", "toml")
    )
    group, name, module = re.findall(r'entry-points\."([\w.]+)"\]\n(\w+) = "(.+)"', points[0])[0]
    install(site, module.partition(":")[0], f"[{group}]\n{name} = {module}\n", source[0])
    monkeypatch.syspath_prepend(site)


async def test_the_memory_backend_of_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example("writing-memory-backends.md", tmp_path / "site", monkeypatch)
    paths = Paths(tmp_path / "home")
    (paths.workspace("main") / "memory").mkdir(parents=True)
    (paths.workspace("main") / "memory/2026-11-20.md").write_text("# Friday\n\n- the Proxy moved to port 8443\n")
    paths.config_file.write_text("memory: {backend: lines}\n")
    backend = open_index(load_settings(paths).settings, "main", paths, SystemClock())
    assert backend is not None
    found = await backend.search(SearchRequest(queries=("proxy", "port")))
    assert [(hit.path, hit.start_line, hit.snippet) for hit in found.hits] == [
        ("memory/2026-11-20.md", 3, "- the Proxy moved to port 8443")
    ]
    status = await backend.status()
    assert (found.fallback, status.identity, status.files) == (None, "lines", 1)
    await backend.close()


async def test_the_model_of_the_page_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_example("writing-models.md", tmp_path / "site", monkeypatch)
    model = await open_model("echo/small", AgentSettings(), clock=SystemClock())
    async with aclosing(model.stream(ChatRequest("", (UserMessage("good day"),)))) as stream:
        *texts, last = [part async for part in stream]
    assert (model.info.ref, texts) == ("echo/small", [TextPart("good "), TextPart("day ")])
    assert isinstance(last, FinalPart)
    assert last.message.text == "good day "
    with pytest.raises(RefusedError, match="nothing to repeat"):
        await anext(model.stream(ChatRequest("", ())))
    await model.aclose()
