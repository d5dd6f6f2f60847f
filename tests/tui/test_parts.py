"""The decisions of the screen: what an input is, what was typed before, what the status line shows."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Literal

import pytest

from clawbot.agent.events import TurnEnded, TurnStarted
from clawbot.agent.slash import COMMANDS, nearest_command
from clawbot.config.schema import Settings
from clawbot.memory.values import Progress
from clawbot.messages import TextBlock, Usage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.tui.input import (
    ENTRY_MAX,
    Choice,
    CompletionRequest,
    PromptHistory,
    ScreenCommand,
    Submitted,
    UnknownCommand,
    UserInput,
    argument_words,
    best,
    classify,
    load_history,
    save_entry,
    wanted,
)
from clawbot.tui.render.items import ChipsItem, Page
from clawbot.tui.render.lines import duration, short
from clawbot.tui.render.markdown_blocks import Lexers
from clawbot.tui.status_bar import Written, gauge_of, indexing_share, indexing_text
from clawbot.tui.themes import DARK, LIGHT, theme_name
from clawbot.tui.widgets.status_line import Effort, Gauge, StatusState, figures, status_line
from tests.said_secrets import SECRETS, SaidSecret
from tests.tui.chat_host import chatting, page_text, screen_text, until
from tests.tui.fake_runtime import FakeRuntime, RuntimeStatus


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("", None),
        (" \n ", None),
        ("hello", Submitted("hello")),
        ("/new tell me", Submitted("/new tell me")),
        ("/status  ", Submitted("/status")),
        ("/model", ScreenCommand("/model", "")),
        ("/model openai/gpt-5", Submitted("/model openai/gpt-5")),
        ("/edit USER.md", ScreenCommand("/edit", "USER.md")),
        ("/memory 代理 port", ScreenCommand("/memory", "代理 port")),
        ("/memory", ScreenCommand("/memory", "")),
        ("/quit", ScreenCommand("/quit", "")),
        ("/staus", UnknownCommand("/staus", "/status")),
        ("/zzzz", UnknownCommand("/zzzz", None)),
        ("/etc/hosts is\nbroken", Submitted("/etc/hosts is\nbroken")),
        ("/etc/hosts is broken", Submitted("/etc/hosts is broken")),
        ("/status\nof the build", Submitted("/status\nof the build")),
        ("/new one\ntwo", Submitted("/new one\ntwo")),
        ("  /New tell me", Submitted("/new tell me")),
        (" /Model", ScreenCommand("/model", "")),
        ("/Exit", ScreenCommand("/quit", "")),
        ("!ls", Submitted("!ls")),
        ("!", None),
        ("!! ", None),
    ],
)
def test_an_input_is_classified_once(text: str, entry: UserInput | None) -> None:
    assert classify(text, COMMANDS) == entry


def test_history_walks_back_and_returns_to_the_draft() -> None:
    history = PromptHistory()
    history.preload(["one", "two"])
    assert history.older("draft") == "two"
    assert history.older("two") == "one"
    assert history.older("one") is None
    assert [history.newer(), history.newer(), history.newer()] == ["two", "draft", None]


def test_a_repeated_entry_is_kept_once() -> None:
    history = PromptHistory()
    assert [history.add(text) for text in ("a", "a", " ", "b")] == [True, False, False, True]
    assert history.entries == ["a", "b"]


def test_history_persists_and_only_the_user_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "home" / "history.jsonl"
    for text in ("erste\nZeile", "你好"):
        save_entry(path, text)
    assert load_history(path) == ["erste\nZeile", "你好"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_bad_line_of_the_history_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(json.dumps({"text": "good"}).encode() + b'\n{"text": 3}\n\xff\xfe{torn\n')
    assert load_history(path) == ["good"]


def test_a_history_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "history.jsonl").mkdir()
    save_entry(tmp_path / "history.jsonl", "text")
    assert load_history(tmp_path / "history.jsonl") == []
    assert "can't be written" in caplog.text


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.secret[:24])
def test_what_holds_a_secret_is_not_remembered_on_disk(tmp_path: Path, secret: SaidSecret) -> None:
    save_entry(tmp_path / "history.jsonl", secret.text)
    save_entry(tmp_path / "history.jsonl", "the password manager is 1Password")
    assert load_history(tmp_path / "history.jsonl") == ["the password manager is 1Password"]


def test_a_huge_entry_is_not_written(tmp_path: Path) -> None:
    save_entry(tmp_path / "history.jsonl", "x" * (ENTRY_MAX + 1))
    assert load_history(tmp_path / "history.jsonl") == []


@pytest.mark.parametrize(
    ("before", "want"),
    [
        ("/st", CompletionRequest("command", "/st", 0)),
        ("/st x", CompletionRequest("argument", "x", 4, "/st")),
        ("/edit ", CompletionRequest("argument", "", 6, "/edit")),
        ("/new two words", None),
        ("see /edit x", None),
        ("/new see @mem", CompletionRequest("file", "mem", 9)),
        ("see @mem", CompletionRequest("file", "mem", 4)),
        ("mail me@home", None),
        ("word", None),
    ],
)
def test_what_is_to_be_completed(before: str, want: CompletionRequest | None) -> None:
    assert wanted(before) == want


def test_the_best_completion_comes_first() -> None:
    choices = [Choice("/reset"), Choice("/status"), Choice("/sessions")]
    assert [choice.text for choice in best("/st", choices)] == ["/status", "/reset"]
    assert [choice.text for choice in best("/", choices)] == ["/reset", "/status", "/sessions"]
    # What is typed whole goes before what it begins.
    choices = [Choice("/model"), Choice("/mode")]
    assert [choice.text for choice in best("/mode", choices)] == ["/mode", "/model"]


def test_the_words_of_a_command_are_read_from_its_arguments() -> None:
    assert argument_words("[md|json] [path]") == ["md", "json"]
    assert argument_words("[name]") == argument_words("FILE") == []


def line(width: int, **values: object) -> str:
    state = StatusState(label="main", gauge=Gauge(122_000, 200_000), cost=0.41, notes=128, hint="/help")
    changed = {name: getattr(state, name) for name in state.__struct_fields__} | values
    return "".join(span.text for span in status_line(StatusState(**changed), width))


def test_the_status_line_drops_parts_from_the_right() -> None:
    assert line(100).split() == [
        "main", "·", "▕███████████░░░░░░░▏", "61%", "122k/200k", "·", "$0.41", "·", "memory", "128", "notes", "/help",
    ]  # fmt: skip
    assert "memory" not in line(66)
    assert "$0.41" in line(66)
    assert "$" not in line(50)
    assert "61%" in line(50)
    assert line(20).split()[0] == "main"
    assert all(len(line(width)) == width for width in range(20, 140))


def test_what_runs_leaves_the_percentage_of_the_meter_in_a_narrow_line() -> None:
    shown = line(60, activity="saving to memory", seconds=12, hint="esc skips")
    assert shown.startswith(" main · 61%  ")
    assert shown.endswith("saving to memory 12 s · esc skips ")
    assert "▕" not in shown
    assert "%" in line(60, activity="search the memory for all of the ports", seconds=125, hint="esc stops")


def test_a_mark_that_was_passed_stands_in_the_bar() -> None:
    def full(tokens: int) -> str:
        return line(100, gauge=Gauge(tokens, 200_000, flush=100_000, compaction=150_000))

    assert "▕█░░░░░░░░┊░░░┊░░░░▏ 4%" in full(8_000)
    assert "▕█████████┊█░░┊░░░░▏ 61%" in full(122_000)
    assert "▕█████████┊███┊██░░▏ 90%" in full(180_000)


def test_the_status_line_says_what_runs() -> None:
    assert line(100, activity="shell make", seconds=125, hint="esc stops").endswith(
        "shell make 2 min 05 s · esc stops "
    )
    narrow = line(60, activity="waits for your answer", hint="esc stops")
    assert narrow.startswith(" main ")
    assert narrow.endswith(" waits for your answer 0 s · esc stops ")


def test_the_status_line_tells_what_the_model_has_written_where_there_is_room() -> None:
    running = {"activity": "writing", "seconds": 42, "written": 1_234, "hint": "esc stops"}
    assert line(100, **running).endswith("writing 42 s · ↓ 1.2k tokens · esc stops ")
    assert line(70, **running).endswith("writing 42 s · ↓ 1.2k · esc stops ")
    assert line(50, **running).endswith("writing 42 s · esc stops ")
    assert figures(StatusState(took=Effort(42, 1_234)), 100) == "42 s · ↓ 1.2k tokens"
    assert figures(StatusState(took=Effort(42, 900, about=True)), 100) == "42 s · ↓ ~900 tokens"
    assert figures(StatusState(took=Effort(0, 900)), 100) == ""
    assert line(100, took=Effort(42, 900), hint="shell").endswith(" shell ")


def test_tokens_are_estimated_until_they_are_reported() -> None:
    written = Written()
    written.streamed("a" * 400)
    written.streamed("中" * 40)
    assert (written.tokens, written.about) == (130, True)
    written.finished(Usage(output=150))
    assert (written.tokens, written.about) == (150, False)
    written.streamed("word")
    written.finished(None)
    assert (written.tokens, written.about) == (151, True)


def test_the_status_line_tells_of_the_index_in_place_of_the_notes() -> None:
    assert line(100, indexing="indexing 42%").split()[-3:] == ["indexing", "42%", "/help"]
    assert "indexing" not in line(66, indexing="indexing 42%")


def test_an_estimate_is_marked_and_an_unknown_window_has_no_bar() -> None:
    assert "~61%" in line(100, gauge=Gauge(122_000, 200_000, exact=False))
    assert "122k tokens" in line(100, gauge=Gauge(122_000, 0))


@pytest.mark.parametrize(("tokens", "level"), [(1000, "meter"), (177_000, "meter-warning"), (181_000, "meter-error")])
def test_the_meter_changes_colour_at_flush_and_compaction(tokens: int, level: str) -> None:
    status = RuntimeStatus(tokens=tokens)
    gauge = gauge_of(Settings(), status)
    assert (gauge.flush, gauge.compaction) == (176_000, 180_000)
    assert gauge.level == level


def test_numbers_are_short() -> None:
    assert [short(number) for number in (950, 1200, 122_000, 1_300_000)] == ["950", "1.2k", "122k", "1.3M"]
    assert [duration(seconds) for seconds in (4, 65)] == ["4 s", "1 min 05 s"]


@pytest.mark.parametrize(
    ("setting", "colours", "name"),
    [
        ("dark", "", DARK.name),
        ("light", "", LIGHT.name),
        ("auto", "0;15", LIGHT.name),
        ("auto", "15;0", DARK.name),
        ("auto", "", DARK.name),
        ("nord", "", "nord"),
        ("no such theme", "", DARK.name),
    ],
)
def test_the_theme_follows_setting_and_terminal(
    setting: str, colours: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", colours)
    assert theme_name(setting, ["nord"]) == name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/conext", "/context"),
        ("/rest", "/reset"),
        ("/qut", "/quit"),
        ("/renew", None),
        ("/rename", None),
        ("/foo", None),
        ("/compare", None),
    ],
)
def test_no_far_word_leads_to_a_command_that_ends_the_talk(typed: str, meant: str | None) -> None:
    assert nearest_command(typed, [info.name for info in COMMANDS if info.name != "/rename"]) == meant


async def test_a_chip_tells_what_went_along_and_the_content_is_not_shown(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, _):
        app.chat.order.submitted(
            TurnStarted(
                text="sum up @a.py", session_key="main", session_id="s", model="x", attached=("a.py · 12 lines",)
            )
        )
        app.chat.order.submitted(TurnEnded(status="done"))
        assert "@a.py · 12 lines" in page_text(app)


async def test_chips_are_there_after_a_resume(tmp_path: Path) -> None:
    content = [TextBlock("sum up @a.py"), TextBlock("Attached file a.py", attached="a.py · 12 lines")]
    history = [HistoryItem("u1", 1, UserMessage(content=[*content]))]
    async with chatting(FakeRuntime(tmp_path, history=history)) as (app, pilot):
        await until(pilot, lambda: "@a.py · 12 lines" in screen_text(app))
        assert "Attached file" not in page_text(app)


def test_chips_fill_the_width_and_a_long_name_is_cut_with_a_sign() -> None:
    item = ChipsItem(("one.md · 3 lines", "two.md · 3 lines", "a/" * 40))
    lines = [line.text for line in item.lines(Page(40, Lexers()))]
    assert [line.strip() for line in lines[:2]] == ["@one.md · 3 lines", "@two.md · 3 lines"]
    assert "…" in lines[2]
    assert all(len(line) <= 40 for line in lines)


HALF = Progress("text", 420, 1000, "files", 35.0, 12.4)


@pytest.mark.parametrize(
    ("progress", "text", "share"),
    [
        (HALF, "indexing 420 of 1,000 files, 12 s left", "indexing 42%"),
        (
            Progress("vectors", 5_000, 20_000, "pieces", 100.0, 150.0),
            "indexing the meaning of 5,000 of 20,000 pieces, 2 min 30 s left",
            "indexing 25%",
        ),
        (Progress("text", 1, 3, "files"), "indexing 1 of 3 files", "indexing 33%"),
        (Progress("text", 99, 100, "files", 50.0, 0.02), "indexing 99 of 100 files", "indexing 99%"),
        (Progress("scan", 0, 0, "files"), "looking for changed notes", "indexing"),
        (Progress("text", 0, 0, "files"), "looking for changed notes", "indexing"),
        (Progress("publish", 0, 1, "files"), "the new index is nearly ready", "indexing"),
    ],
)
def test_progress_in_words(progress: Progress, text: str, share: str) -> None:
    assert indexing_text(progress) == text
    assert indexing_share(progress) == share


async def test_the_status_line_says_that_the_memory_is_indexed(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        assert "memory 128 notes" in screen_text(app)
        runtime.index(HALF)
        await until(pilot, lambda: "indexing 42%" in screen_text(app))
        assert "128 notes" not in screen_text(app)
        runtime.index(None)
        await until(pilot, lambda: "memory 128 notes" in screen_text(app))


async def test_what_is_indexed_at_the_start_is_told(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.memory.progress = HALF
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "indexing 42%" in screen_text(app))


async def test_a_sync_that_is_soon_over_is_not_told(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    told: list[str] = []
    async with chatting(runtime) as (app, pilot):
        app.chat.watch(app.chat.status, "state", lambda state: told.append(state.indexing))
        phases: tuple[Literal["scan", "text"], ...] = ("scan", "text")
        for phase in phases:
            runtime.index(Progress(phase, 0, 1, "files"))
        runtime.index(None)
        runtime.index(HALF)
        await until(pilot, lambda: "indexing 42%" in screen_text(app))
        assert set(told) == {"", "indexing 42%"}
