"""A backend that fails is replaced by the builtin index at once, for the same question, and tried again later."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import structs

from clawbot.clock import SystemClock
from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexUnavailableError, MemoryBackend
from clawbot.memory.backends import self_healing
from clawbot.memory.backends.guard import ScopeGuard
from clawbot.memory.backends.pool import BackendPool
from clawbot.memory.backends.self_healing import (
    FIRST_PAUSE,
    MAX_PAUSE,
    Health,
    Primary,
    SelfHealingBackend,
    Surroundings,
)
from clawbot.memory.documents.memory_files import ForbiddenPathError, MemoryDocuments
from clawbot.memory.values import Fallback, Hit, Progress, SearchRequest, SearchResult, SyncReport
from tests.memory.fake_index import FakeIndex
from tests.memory.index_host import until

ASKED = SearchRequest(queries=("proxy",))
CALLS: dict[str, Callable[[MemoryBackend], Any]] = {
    "search": lambda memory: memory.search(ASKED),
    "read": lambda memory: memory.read("MEMORY.md"),
    "text": lambda memory: memory.text("MEMORY.md"),
    "sync": lambda memory: memory.sync(),
    "probe": lambda memory: memory.probe(),
    "status": lambda memory: memory.status(),
    "verify": lambda memory: memory.verify(),
}


def result(text: str, path: str = "MEMORY.md") -> SearchResult:
    return SearchResult((Hit(path, 1, 1, 0.5, text, "memory", 1),), "fts-only", "none", "")


class Primaries:
    """The instances of a primary. `fault`, when set, is what the next calls of every instance do."""

    def __init__(self) -> None:
        self.made: list[FakeIndex] = []
        self.fault: Exception | None = None
        self.hangs = False
        self.answer = result("from the backend")

    def make(self) -> MemoryBackend:
        self.made.append(Instance(self))
        return self.made[-1]


class Instance(FakeIndex):
    """One of them."""

    def __init__(self, all_of_them: Primaries) -> None:
        super().__init__()
        self.all = all_of_them

    async def _act(self) -> None:
        if self.closed:
            raise AssertionError("a closed instance was asked")
        if self.all.hangs:
            await asyncio.Event().wait()
        if self.all.fault is not None:
            raise self.all.fault

    async def search(self, request: SearchRequest, building: Any = None) -> SearchResult:
        await self._act()
        self.requests.append(request)
        return self.all.answer

    async def read(self, *arguments: Any) -> Any:
        await self._act()
        return await super().read(*arguments)

    async def sync(self, **named: Any) -> SyncReport:
        await self._act()
        return await super().sync(**named)

    async def probe(self, *, deep: bool = True) -> str:
        await self._act()
        return ""

    async def status(self, *, deep: bool = False) -> Any:
        await self._act()
        return await super().status(deep=deep)

    async def verify(self, *, fix: bool = False) -> Any:
        await self._act()
        return await super().verify(fix=fix)


class Home:
    """A memory over `primaries`, with a builtin index behind it. `told` and `open` are what the owner hears and has."""

    def __init__(self, folder: Path) -> None:
        (folder / "MEMORY.md").write_text("- the proxy\n")
        self.documents = MemoryDocuments(folder, [])
        self.primaries = Primaries()
        self.builtins: list[FakeIndex] = []
        self.builtin_answer: SearchResult | Exception = result("from the builtin index")
        self.pool = BackendPool()
        self.told: list[str] = []
        self.open = frozenset({"one"})
        self.memory = self.another()

    def another(self, limit: float = 30.0) -> SelfHealingBackend:
        """One more memory with the same agent and configuration; its calls may take `limit` seconds."""
        around = Surroundings(
            clock=SystemClock(dt.UTC), limit=limit, notify=self.told.append, conversations=lambda: self.open
        )
        primary = Primary("qmd", self.primaries.make, "key", self.pool)
        guard = ScopeGuard(self.documents, [self.documents], 4_000)
        return SelfHealingBackend(primary, self._builtin, guard, around)

    def _builtin(self) -> MemoryBackend:
        self.builtins.append(FakeIndex(self.builtin_answer, files={"MEMORY.md": "- the proxy\n"}))
        return self.builtins[-1]

    async def found(self, request: SearchRequest = ASKED) -> str:
        [hit] = (await self.memory.search(request)).hits
        return hit.snippet


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_while_it_works_it_answers_and_no_builtin_index_is_opened(home: Home) -> None:
    assert [await home.found(), await home.found()] == ["from the backend"] * 2
    assert (len(home.primaries.made), home.builtins, home.told, home.memory.problem) == (1, [], [], "")
    await home.memory.close()
    assert home.primaries.made[0].closed


FAULTS: tuple[Exception | None, ...] = (RuntimeError("cosmic ray"), IndexUnavailableError("qmd died."), None)


@pytest.mark.parametrize(
    ("call", "fault"),
    # A hang is none in what may take as long as it needs.
    [(call, fault) for call in CALLS for fault in FAULTS if fault or call not in ("sync", "verify")],
)
async def test_a_failure_in_any_call_is_answered_by_the_builtin_index_and_told_once(
    home: Home, call: str, fault: Exception | None
) -> None:
    home.primaries.fault, home.primaries.hangs = fault, fault is None
    if fault is None:
        home.memory = home.another(limit=0.05)
    await CALLS[call](home.memory)
    [failed] = home.primaries.made
    await until(lambda: failed.closed)
    assert (len(home.builtins), len(home.told)) == (1, 1)
    failure = home.memory.fallback
    assert failure is not None
    assert failure.from_ == "qmd"
    assert failure.since is not None
    assert any(why in failure.reason for why in ("cosmic ray", "qmd died.", "longer than 0.05 s"))
    home.primaries.fault, home.primaries.hangs = None, False
    found = await home.memory.search(ASKED)
    assert (found.hits[0].snippet, found.fallback) == ("from the builtin index", failure)
    assert (await home.memory.status()).fallback == failure
    assert failure.reason in home.memory.problem
    assert len(home.told) == len(home.primaries.made) == 1
    await home.memory.close()


async def test_what_may_not_be_read_is_an_answer_and_no_failure(home: Home) -> None:
    home.primaries.fault = ForbiddenPathError("no memory file.")
    with pytest.raises(ForbiddenPathError):
        await home.memory.read("/etc/passwd")
    assert (home.told, home.memory.fallback) == ([], None)
    await home.memory.close()


async def test_the_next_conversation_uses_it_again_when_it_is_back(home: Home) -> None:
    home.primaries.fault = IndexUnavailableError("qmd died.")
    assert await home.found() == "from the builtin index"
    home.primaries.fault = None
    assert await home.found() == "from the builtin index"
    home.open = frozenset({"two"})
    await home.memory.read("MEMORY.md")
    assert home.memory.fallback is not None, "a file that can be read does not prove that a search works"
    assert await home.found() == "from the backend"
    assert len(home.primaries.made) == 2
    assert home.memory.fallback is None
    await home.memory.close()


async def test_a_probe_after_a_pause_brings_it_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.memory.backends.self_healing.FIRST_PAUSE", 0.01)
    home.primaries.fault = IndexUnavailableError("qmd died.")
    steps: list[Progress | None] = []
    home.memory.on_progress = steps.append
    home.memory.start()
    assert await home.found() == "from the builtin index"
    await until(lambda: len(home.primaries.made) >= 3)
    assert len(home.told) == 1
    before = home.memory.generation
    home.primaries.fault = None
    await until(lambda: home.memory.fallback is None)
    assert await home.found() == "from the backend"
    assert home.memory.generation >= before
    assert steps[-1] is None
    await home.memory.close()


async def test_two_memories_of_one_configuration_share_it_and_it_is_evicted_once(home: Home) -> None:
    other = home.another()
    await asyncio.gather(home.found(), other.search(ASKED))
    [shared] = home.primaries.made
    home.primaries.fault = IndexUnavailableError("qmd died.")
    await asyncio.gather(*(memory.search(ASKED) for memory in (home.memory, home.memory, other)))
    await until(lambda: shared.closed)
    home.primaries.fault, home.open = None, frozenset({"two"})
    await asyncio.gather(home.found(), other.search(ASKED))
    assert len(home.primaries.made) == 2
    await home.memory.close()
    assert not home.primaries.made[1].closed
    third = home.another()
    await third.search(ASKED)
    assert len(home.primaries.made) == 2, "who comes later shares it with who is still there"
    await asyncio.gather(other.close(), third.close())
    assert home.primaries.made[1].closed


async def test_one_that_cannot_be_opened_leaves_the_answer_to_the_builtin_index(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> MemoryBackend:
        raise IndexUnavailableError("qmd is not installed.", hint="npm install -g @tobilu/qmd")

    monkeypatch.setattr(home.primaries, "make", refuse)
    memory = home.another()
    found = await memory.search(ASKED)
    assert found.hits[0].snippet == "from the builtin index"
    assert found.fallback is not None
    assert found.fallback.reason == "qmd is not installed. npm install -g @tobilu/qmd"
    assert memory.problem.startswith("qmd has not answered since ")
    await memory.close()


async def test_when_both_fail_the_error_names_both(home: Home) -> None:
    home.primaries.fault = IndexUnavailableError("qmd died.")
    home.builtin_answer = IndexUnavailableError("the disk is full.", hint="Make room.")
    with pytest.raises(ClawbotError, match=r"qmd died\. That failed, too: the disk is full\. Make room\."):
        await home.memory.search(ASKED)
    await home.memory.close()


async def test_why_the_builtin_index_has_no_vectors_is_said_beside_it(home: Home) -> None:
    home.primaries.fault = IndexUnavailableError("qmd died.")
    home.builtin_answer = structs.replace(result("x"), fallback=Fallback("openai", "no key"))
    found = await home.memory.search(ASKED)
    assert found.fallback is not None
    assert (found.fallback.from_, found.warnings) == ("qmd", ("openai was not used: no key",))
    await home.memory.close()


async def test_an_interrupted_search_is_no_failure(home: Home) -> None:
    home.primaries.hangs = True
    search = asyncio.create_task(home.memory.search(ASKED))
    await until(lambda: bool(home.primaries.made))
    search.cancel()
    await asyncio.wait([search])
    assert home.memory.fallback is None
    await home.memory.close()


async def test_garbage_is_a_failure(home: Home) -> None:
    home.primaries.answer = SearchResult(cast("Any", ("no hit",)), "fts-only", "none", "")
    assert await home.found() == "from the builtin index"
    await home.memory.close()


async def test_what_a_session_may_not_know_is_not_asked_and_gives_an_empty_list(home: Home) -> None:
    nothing = await home.memory.search(structs.replace(ASKED, sources=()))
    talks = await home.memory.search(structs.replace(ASKED, sources=("sessions",)))
    assert (nothing.hits, nothing.fallback, talks.hits, home.primaries.made) == ((), None, (), [])
    await home.memory.close()


@pytest.mark.parametrize(
    "hit",
    [
        Hit("/etc/passwd", 1, 1, 0.9, "root", "memory"),
        Hit("../other/MEMORY.md", 1, 1, 0.9, "secret", "memory"),
        Hit("memory/link.md", 1, 1, 0.9, "secret", "memory"),
        Hit("memory/gone.md", 1, 1, 0.9, "secret", "memory"),
        Hit("sessions/a.jsonl", 1, 1, 0.9, "said", "sessions"),
        Hit("MEMORY.md", 0, 0, 0.9, "no line", "memory"),
    ],
)
async def test_its_answers_are_checked_by_path_again(home: Home, tmp_path: Path, hit: Hit) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "memory" / "link.md").symlink_to(tmp_path / "secret.md")
    home.primaries.answer = structs.replace(home.primaries.answer, hits=(hit, *home.primaries.answer.hits))
    assert await home.found() == "from the backend"
    elsewhere = structs.replace(ASKED, path="memory")
    assert (await home.memory.search(elsewhere)).hits == ()
    await home.memory.close()


async def test_a_large_result_is_cut_at_max_injected_chars(home: Home) -> None:
    long = Hit("MEMORY.md", 1, 1, float("nan"), "长" * 3_000, "memory")
    home.primaries.answer = SearchResult((long,) * 5, "fts-only", "none", "")
    hits = (await home.memory.search(ASKED)).hits
    assert [len(hit.snippet) for hit in hits] == [3_000, 1_000]
    assert hits[0].score == 0
    hits = (await home.memory.search(structs.replace(ASKED, max_chars=100, max_results=1))).hits
    assert [len(hit.snippet) for hit in hits] == [100]
    await home.memory.close()


async def test_what_is_erased_is_erased_from_an_older_builtin_index_too(home: Home) -> None:
    assert await home.memory.scrub()
    [builtin] = home.builtins
    assert builtin.calls[:1] == ["sync force=False"]
    home.primaries.fault = IndexUnavailableError("qmd died.")
    await home.memory.sync()
    assert not home.memory._health.trusted
    assert await home.memory.scrub(), "it is asked for that, trusted or not"
    assert home.memory.fallback is not None
    await home.memory.close()


async def test_one_that_does_not_close_holds_up_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_healing, "CLOSE_SECONDS", 0.01)
    await home.found()
    forever = asyncio.Event()
    monkeypatch.setattr(home.primaries.made[0], "close", forever.wait)
    await home.memory.close()
    with pytest.raises(IndexUnavailableError):
        await home.memory.search(ASKED)


NOON = dt.datetime(2026, 11, 20, 12, tzinfo=dt.UTC)


def failed(health: Health, reason: str = "it died", minutes: int = 0) -> Health:
    return health.failed(health.attempt, reason, NOON + dt.timedelta(minutes=minutes))


def test_a_failure_is_kept_with_its_reason_and_the_time_of_the_first_one() -> None:
    health = failed(failed(Health(name="qmd")), "它又死了", minutes=5)
    assert not health.trusted
    assert health.failure is not None
    assert (health.failure.from_, health.failure.reason, health.failure.since) == ("qmd", "它又死了", NOON)


def test_a_new_conversation_tries_anew_and_an_old_one_does_not() -> None:
    health = failed(Health(name="qmd").met(frozenset({"a"})))
    assert health.met(frozenset({"a"})) is health
    assert health.met(frozenset()) is health
    again = health.met(frozenset({"b"}))
    assert (again.trusted, again.failure) == (True, health.failure)
    assert failed(again).met(frozenset({"b"})).trusted is False
    assert again.answered(again.attempt).failure is None


def test_two_conversations_side_by_side_try_once_each() -> None:
    health = failed(Health(name="qmd").met(frozenset({"a"})))
    health = failed(health.met(frozenset({"a", "b"})))
    assert health.met(frozenset({"a", "b"})).trusted is False


def test_the_pause_doubles_up_to_an_hour_and_begins_anew_after_an_answer() -> None:
    health = Health(name="qmd")
    pauses = []
    for _ in range(9):
        health = failed(health)
        pauses.append(health.pause)
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == MAX_PAUSE
    assert failed(health.answered(health.attempt)).pause == FIRST_PAUSE


class Life(RuleBasedStateMachine):
    """Instances come and go; their answers and failures arrive in any order, also late."""

    def __init__(self) -> None:
        super().__init__()
        self.now = Health(name="qmd")
        self.evicted: list[int] = []
        self.highest = 1

    @rule(back=st.integers(0, 3))
    def fails(self, back: int) -> None:
        attempt = self.now.attempt - back
        after = self.now.failed(attempt, "why", NOON)
        assert (after is self.now) == (back > 0)
        if after is not self.now:
            self.evicted.append(attempt)
        self.now = after

    @rule(back=st.integers(0, 3))
    def answers(self, back: int) -> None:
        after = self.now.answered(self.now.attempt - back)
        assert back == 0 or after is self.now
        self.now = after

    @rule(open_now=st.frozensets(st.sampled_from("abc")))
    def conversations(self, open_now: frozenset[str]) -> None:
        self.now = self.now.met(open_now)
        assert self.now.met(open_now) is self.now

    @invariant()
    def rules_hold(self) -> None:
        assert len(self.evicted) == len(set(self.evicted))
        assert self.now.attempt not in self.evicted
        assert self.now.trusted or self.now.failure is not None
        assert (self.now.failure is None) == (self.now.failures == 0)
        assert FIRST_PAUSE <= self.now.pause <= MAX_PAUSE


Life.TestCase.settings = settings(max_examples=30, stateful_step_count=20)
TestLife = Life.TestCase
