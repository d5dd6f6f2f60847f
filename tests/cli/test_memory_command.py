"""`clawbot memory status | index | search | verify`, over an index that answers what a test gives it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec import structs

from clawbot.cli import memory as memory_command
from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.llm import embedding
from clawbot.memory.values import (
    Counts,
    Fallback,
    Hit,
    Issue,
    Progress,
    SearchResult,
    SourceCount,
    SyncReport,
    VerifyReport,
)
from tests.memory.fake_index import CLEAN, FOUND, HIT, STATUS, FakeIndex

Indexes = dict[str, FakeIndex | Exception | None]
Serve = Callable[..., Indexes]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Have the commands open these indexes, by agent."""

    def _serve(main: FakeIndex | Exception | None = None, **others: FakeIndex | Exception | None) -> Indexes:
        indexes = {"main": main, **others}

        def open_index(settings: Any, agent_id: str, paths: Paths, clock: Any, *, long_lived: bool) -> FakeIndex | None:
            found = indexes[agent_id]
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(memory_command, "open_index", open_index)
        monkeypatch.setattr(embedding, "embedding_keys", lambda: {"openai": "OPENAI_API_KEY"})
        return indexes

    return _serve


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["memory", *arguments])


def config(text: str) -> None:
    file = Paths(find_home()).config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# -- search ------------------------------------------------------------------------------------------------------------


def test_hits_are_printed_with_score_place_and_text(serve: Serve) -> None:
    index = FakeIndex()
    serve(index)
    result = run("search", "proxy", "port")
    assert result.stdout == (
        "0.873 memory/2026-10-02.md:13-14\n## 15:20\n- staging proxy moved to 8443\n\n"
        "0.610 memory/2026-09-30.md:4-4\n- 部署窗口改到周四晚上\n"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert index.requests[0].queries == ("proxy port",)
    assert index.closed


def test_search_as_json(serve: Serve) -> None:
    fallback = Fallback(from_="openai", reason="no key")
    hit = Hit("a\x1b.md", 1, 2, 0.123456, "red \x1b[31m \udcff", "sessions")
    serve(FakeIndex(SearchResult((hit,), "fts-only", "none", "", fallback, partial=True, warnings=("n",))))
    assert json.loads(run("search", "x", "--json").stdout) == {
        "results": [
            {
                "path": "a\x1b.md",
                "startLine": 1,
                "endLine": 2,
                "score": 0.123456,
                "snippet": "red \x1b[31m ?",
                "source": "sessions",
                "line": 0,
                "said": None,
                "origin": "file",
            }
        ],
        "mode": "fts-only",
        "provider": "none",
        "model": "",
        "fallback": {"from": "openai", "reason": "no key"},
        "evidence": "fair",
        "partial": True,
        "notes": ["n"],
    }


def test_what_is_printed_cannot_steer_the_terminal(serve: Serve) -> None:
    serve(
        FakeIndex(
            SearchResult((Hit("a\x1b]0;x\x07.md", 1, 2, 1.0, "red \x1b[31mx\ty\x07", "memory"),), "hybrid", "", "")
        )
    )
    assert run("search", "x").stdout == "1.000 a.md:1-2\nred x\ty\n"


def test_no_hits(serve: Serve) -> None:
    serve(FakeIndex(SearchResult((), "hybrid", "offline", "m")))
    result = run("search", "x")
    assert (result.exit_code, result.stdout) == (0, "No matches.\n")
    assert json.loads(run("search", "x", "--json").stdout)["results"] == []


def test_how_it_was_searched_is_told_beside_the_hits(serve: Serve) -> None:
    fallback = Fallback(from_="openai", reason="no\nkey")
    serve(
        FakeIndex(SearchResult((HIT,), "fts-only", "none", "", fallback, partial=True, warnings=("420 pieces wait",)))
    )
    assert run("search", "x").stderr.splitlines() == [
        "clawbot: openai was not used: no key",
        "clawbot: Not everything was searched.",
        "clawbot: 420 pieces wait",
    ]


def test_bounds_reach_the_index(serve: Serve) -> None:
    index = FakeIndex()
    serve(index)
    options = ["--max-results", "3", "--max-chars", "900", "--min-score", "0.2", "--path", "memory/*.md"]
    run("search", "x", *options, "--after", "2026-02", "--before", "2024-02")
    [request] = index.requests
    assert (request.max_results, request.max_chars, request.min_score, request.path) == (3, 900, 0.2, "memory/*.md")
    assert (request.after, request.before) == (date(2026, 2, 1), date(2024, 2, 29))


@pytest.mark.parametrize(
    "arguments",
    [
        ["search"],
        ["search", "x", "--after", "last week"],
        ["search", "x", "--max-results", "0"],
        ["search", "x", "--min-score", "2"],
    ],
)
def test_wrong_usage_exits_with_2(serve: Serve, arguments: list[str]) -> None:
    serve(FakeIndex())
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_search_that_fails_is_one_line(serve: Serve, form: list[str]) -> None:
    serve(FakeIndex(ClawbotError("The index is\nbroken.", hint="Run `clawbot memory index --force`.")))
    result = run("search", "x", *form)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "clawbot: The index is broken. Run `clawbot memory index --force`.\n"


def test_an_empty_query_a_switched_off_index_and_an_unknown_agent(serve: Serve) -> None:
    serve(None)
    for arguments, said in (
        (["search", " "], "query is empty"),
        (["search", "x"], "switched off"),
        (["search", "x", "--agent", "work"], "there is no agent 'work'"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert said in result.stderr


# -- status ------------------------------------------------------------------------------------------------------------


def test_status_for_people(serve: Serve) -> None:
    state = structs.replace(
        STATUS,
        last_sync=datetime(2026, 11, 20, 9, 41, tzinfo=UTC),
        dirty=True,
        pending_vectors=1,
        vectors=40,
        details={**STATUS.details, "cache": {"enabled": True, "entries": 12, "maxEntries": 50_000}},
        issues=(Issue("memory/a.md", "is not UTF-8\x1b[2J"),),
    )
    config("agents: {defaults: {timezone: Asia/Shanghai}}")
    serve(FakeIndex(state=state))
    assert run("status").stdout.splitlines() == [
        "Memory of main",
        "  notes       3 of 3 files, 41 pieces, about 1,200 tokens (4.8 KB)",
        "  words       ready",
        "  vectors     40 of 41, 256 dimensions, by offline wordllama-256",
        "  state       files changed since the last sync; 1 piece still waits for a vector; "
        "last sync 2026-11-20 17:41:00",
        "  settings    lines, tokenizer 1, offline wordllama-256, 256 dimensions, memory",
        "  database    /home/ada/.clawbot/memory/main.sqlite (90.1 KB)",
        "  workspace   /home/ada/.clawbot/workspace",
        "  cache       12 of at most 50,000 embeddings",
        "  leaves here nothing: words and vectors are made on this machine",
        "  with a key  vectors of openai (OPENAI_API_KEY is set) by memory_search.provider; the texts go there then",
        "  problem     memory/a.md: is not UTF-8",
    ]


def test_status_as_json_has_the_names_of_the_reference(serve: Serve) -> None:
    counts = (SourceCount("memory", 2, 3, 30), SourceCount("sessions", 1, 1, 11))
    state = structs.replace(STATUS, source_counts=counts, issues=(Issue("x", "gone"),))
    serve(FakeIndex(state=state))
    [found] = json.loads(run("status", "--json", "--deep").stdout)
    assert list(found) == ["agentId", "embeddingProbe", "scan", "status"]
    assert found["agentId"] == "main"
    assert found["embeddingProbe"] == {"ok": True, "error": None, "seconds": 0.012}
    assert found["scan"] == {
        "sources": [{"source": "memory", "totalFiles": 3}, {"source": "sessions", "totalFiles": 1}],
        "totalFiles": 3,
        "issues": [{"path": "x", "text": "gone"}],
    }
    status = found["status"]
    assert (status["files"], status["chunks"], status["requestedProvider"], status["lastSync"]) == (3, 41, "auto", None)
    assert status["vector"] == {"available": True, "error": None}
    assert "issues" not in status
    assert "embeddingProbe" not in json.loads(run("status", "--json").stdout)[0]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"provider": "none", "vectors": 0}, "  vectors     none: searching by words alone"),
        (
            {"fallback": Fallback(from_="openai", reason="no key")},
            "  vectors     none: openai was not used: no key",
        ),
        ({"remote": True}, "  leaves here the text of pieces and queries goes to offline"),
        (
            {"remote": True, "address": "http://127.0.0.1:9000/v1"},
            "  leaves here the text of pieces and queries goes to http://127.0.0.1:9000/v1",
        ),
        ({"rebuilding": True}, "  state       up to date; a new index is being built next to this one; never synced"),
        ({"busy": True}, "  state       up to date; another process is indexing; never synced"),
        ({"extra_paths": ("../docs",)}, "  next to it  ../docs"),
        (
            {"source_counts": (SourceCount("memory", 2, 3, 30), SourceCount("sessions", 1, 1, 1))},
            "              sessions: 1 of 1 file, 1 piece",
        ),
    ],
)
def test_status_says_what_is_not_usual(serve: Serve, change: dict[str, Any], line: str) -> None:
    serve(FakeIndex(state=structs.replace(STATUS, **change)))
    assert line in run("status").stdout.splitlines()


def test_status_without_a_key_and_with_a_provider_in_use(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(FakeIndex())
    monkeypatch.setattr(embedding, "embedding_keys", dict)
    assert "  with a key  vectors of a provider such as openai" in run("status").stdout
    serve(FakeIndex(state=structs.replace(STATUS, remote=True)))
    assert "with a key" not in run("status").stdout


def test_a_deep_status_tells_how_the_provider_answered(serve: Serve) -> None:
    index = FakeIndex()
    serve(index)
    assert "  embeddings  answer in 12 ms" in run("status", "--deep").stdout.splitlines()
    assert index.calls == ["status deep=True"]


def test_status_of_all_agents_and_of_one(serve: Serve) -> None:
    config("agents: {work: {}, off: {}}")
    serve(FakeIndex(), work=ClawbotError("The database is foreign."), off=None)
    result = run("status")
    assert (result.exit_code, result.stderr) == (1, "clawbot: work: The database is foreign.\n")
    heads = [part.splitlines()[:2] for part in result.stdout.split("\n\n")]
    assert heads[1:] == [
        ["Memory of work", "  The database is foreign."],
        ["Memory of off", "  Memory search is switched off (memory_search.enabled)."],
    ]
    found = json.loads(run("status", "--json").stdout)
    assert [one["agentId"] for one in found] == ["main", "work", "off"]
    assert found[1] == {"agentId": "work", "indexError": "The database is foreign.", "status": None}
    assert found[2] == {"agentId": "off", "status": None}
    assert run("status", "--agent", "main").exit_code == 0


def test_without_the_program_of_a_backend_the_builtin_index_answers_and_says_so() -> None:
    config("memory: {backend: qmd, qmd: {command: no-such-qmd}}\nagents: {defaults: {memory_search: {provider: none}}}")
    workspace = Paths(find_home()).workspace("main")
    workspace.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("- the proxy moved to port 8443\n")
    found = json.loads(run("search", "--json", "proxy").stdout)
    assert [hit["path"] for hit in found["results"]] == ["MEMORY.md"]
    assert (found["fallback"]["from"], found["mode"]) == ("qmd", "fts-only")
    assert "there is no program no-such-qmd on the PATH" in found["fallback"]["reason"]
    [status] = json.loads(run("status", "--json").stdout)
    assert status["status"]["fallback"] == {**found["fallback"], "since": status["status"]["fallback"]["since"]}
    told = run("search", "proxy")
    assert told.stdout.startswith("0.")
    assert "the builtin index does: qmd is not installed" in told.stderr
    assert "  instead     qmd has not answered since " in run("status").stdout


# -- index -------------------------------------------------------------------------------------------------------------

STEPS = (
    Progress("scan", 0, 3, "files"),
    Progress("text", 1, 3, "files", 10.0, 0.2),
    Progress("text", 3, 3, "files", 10.0, 0.0),
    Progress("vectors", 41, 41, "pieces", 900.0, 0.0),
)


def test_indexing_tells_each_step_quietly_and_what_came_of_it(serve: Serve) -> None:
    index = FakeIndex(
        report=SyncReport(added=2, changed=1, unchanged=7, pieces_written=41, pieces_embedded=40, pending_vectors=1,
                          seconds=0.44, issues=(Issue("memory/x.md", "is not UTF-8"),))
    )  # fmt: skip
    index.steps = STEPS
    serve(index)
    result = run("index")
    assert result.stdout == (
        "Memory index updated: 10 files (2 added, 1 changed), 41 pieces written, 40 embedded, 0.4 s. "
        "1 piece still waits for a vector.\n"
    )
    assert result.stderr.splitlines() == [
        "listing: 3 files",
        "reading: 3 files",
        "embedding: 41 pieces",
        "clawbot: memory/x.md: is not UTF-8",
    ]
    assert (result.exit_code, index.calls, index.closed) == (0, ["sync force=False"], True)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (SyncReport(unchanged=3), "Memory index is up to date: 3 files.\n"),
        (SyncReport(busy=True), "Another process is indexing; nothing was done here.\n"),
        (
            SyncReport(added=1, pieces_written=1, rebuilt=True, seconds=1.0),
            "Memory index rebuilt: 1 file (1 added), 1 piece written, 0 embedded, 1.0 s.\n",
        ),
    ],
)
def test_what_came_of_indexing(serve: Serve, report: SyncReport, said: str) -> None:
    serve(FakeIndex(report=report))
    assert run("index").stdout == said


def test_indexing_says_why_vectors_are_missing(serve: Serve) -> None:
    fallback = Fallback(from_="openai", reason="no\nkey")
    serve(FakeIndex(report=SyncReport(unchanged=3, fallback=fallback)))
    result = run("index")
    assert result.stdout == "Memory index is up to date: 3 files.\n"
    assert result.stderr == "clawbot: openai was not used: no key\n"
    [found] = json.loads(run("index", "--json").stdout)
    assert found["report"]["fallback"] == {"from": "openai", "reason": "no\nkey"}


def test_index_as_json_tells_no_steps(serve: Serve) -> None:
    config("agents: {work: {}, off: {}}")
    index = FakeIndex(report=SyncReport(added=2, seconds=0.5))
    index.steps = STEPS
    serve(index, work=ClawbotError("full disk"), off=None)
    result = run("index", "--json", "--force")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert result.stderr == "clawbot: work: full disk\n"
    assert found[0]["report"]["added"] == 2
    assert found[0]["error"] is None
    assert found[1:] == [
        {"agentId": "work", "report": None, "error": "full disk"},
        {"agentId": "off", "report": None, "error": None},
    ]
    assert index.calls == ["sync force=True"]


def test_an_index_that_fails_is_one_line_and_holds_up_no_other(serve: Serve) -> None:
    config("agents: {work: {}}")
    broken = FakeIndex(report=ClawbotError("The disk is full.", hint="Make room."))
    other = FakeIndex(report=SyncReport(unchanged=1))
    serve(broken, work=other)
    result = run("index")
    assert result.exit_code == 1
    assert result.stdout == "work: Memory index is up to date: 1 file.\n"
    assert result.stderr == "clawbot: main: The disk is full. Make room.\n"
    assert broken.closed
    assert other.closed


def test_an_interrupt_says_that_the_next_run_goes_on(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    index = FakeIndex()

    async def interrupted(**_: Any) -> SyncReport:
        raise KeyboardInterrupt

    monkeypatch.setattr(index, "sync", interrupted)
    serve(index)
    result = run("index")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "clawbot: Interrupted; the next run goes on from here.\n"


class Changing(FakeIndex):
    """Changes once after it was started; the next look at its state is the user's Ctrl+C."""

    def start(self) -> None:
        super().start()
        self.state = structs.replace(self.state, files=4, chunks=45)
        assert self.on_progress is not None
        self.on_progress(None)

    async def status(self, *, deep: bool = False) -> Any:
        state = await super().status(deep=deep)
        if self.calls.count("status deep=False") == 2:
            assert self.on_progress is not None
            self.on_progress(None)
        if self.calls.count("status deep=False") == 3:
            raise KeyboardInterrupt
        return state


def test_watching_tells_each_change_until_it_is_ended(serve: Serve) -> None:
    index = Changing(report=SyncReport(unchanged=3))
    serve(index)
    result = run("index", "--watch")
    assert result.stdout.splitlines() == [
        "main: Memory index is up to date: 3 files.",
        "main: updated: 4 files, 45 pieces.",
    ]
    assert result.exit_code == 0
    assert index.closed


def test_watching_as_json_is_one_object_a_line(serve: Serve) -> None:
    serve(Changing(report=SyncReport(unchanged=3)))
    first, second = map(json.loads, run("index", "--watch", "--json").stdout.splitlines())
    assert (first["agentId"], first["report"]["unchanged"]) == ("main", 3)
    assert (second["agentId"], second["status"]["chunks"]) == ("main", 45)


# -- verify ------------------------------------------------------------------------------------------------------------


def test_a_clean_index(serve: Serve) -> None:
    index = FakeIndex()
    serve(index)
    result = run("verify")
    assert result.stdout == "3 files, 41 pieces, 41 by words, 41 by vectors: agree.\n"
    assert (result.exit_code, index.calls) == (0, ["verify fix=False"])


def test_what_differs_is_told_and_exits_with_1(serve: Serve) -> None:
    report = VerifyReport(("memory/a.md: 2 pieces lack a vector",), (), Counts(3, 41, 41, 39), clean=False)
    serve(FakeIndex(verified=report))
    result = run("verify")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "memory/a.md: 2 pieces lack a vector",
        "3 files, 41 pieces, 41 by words, 39 by vectors: do not agree; "
        "`clawbot memory verify --fix` repairs the differences.",
    ]
    result = run("verify", "--json")
    assert result.exit_code == 1
    [found] = json.loads(result.stdout)
    assert found == {
        "agentId": "main",
        "error": None,
        "report": {
            "checked": {"files": 3, "chunks": 41, "keywords": 41, "vectors": 39},
            "clean": False,
            "fixed": [],
            "problems": ["memory/a.md: 2 pieces lack a vector"],
        },
    }


def test_what_was_fixed_is_told(serve: Serve) -> None:
    index = FakeIndex(verified=structs.replace(CLEAN, problems=("a",), fixed=("a",)))
    serve(index)
    result = run("verify", "--fix")
    assert (result.exit_code, index.calls) == (0, ["verify fix=True"])
    assert result.stdout.splitlines()[:2] == ["a", "fixed: a"]


def test_the_log_goes_to_its_file(serve: Serve) -> None:
    serve(FakeIndex(FOUND))
    run("search", "x")
    assert Path(Paths(find_home()).log_file).exists()
