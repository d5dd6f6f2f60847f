"""The first page, as long as nothing was said: examples or the last sessions, and where its lines lead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from clawbot.agent.events import Notice, SessionChanged
from clawbot.importing.ledger import dismiss
from clawbot.llm.protocol import DetectedServer, ModelInfo
from clawbot.text.sanitize import tilde
from clawbot.tui.app import ClawbotApp
from clawbot.tui.render.items import Page
from clawbot.tui.render.lines import short_model, width_of
from clawbot.tui.render.markdown_blocks import Lexers
from clawbot.tui.screens.passages import SessionTarget
from clawbot.tui.screens.welcome import RecentSession, StartItem, answering, has_messages
from tests.tables import load_table
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, conversation, reply, summary

OFFLINE = ModelInfo(ref="offline", reason="no key and no local server was found")
GPT = ModelInfo(ref="openai/gpt-5", reason="OPENAI_API_KEY is set")
LOCAL = [ModelInfo(ref=f"ollama/m{number}") for number in range(5)]


LONG_NAME = ModelInfo(
    ref="some-provider/a-model-with-a-name-that-fills-more-than-one-line", reason="it was chosen here"
)
WAITS = ModelInfo(ref="offline", reason="no key", found=DetectedServer("ollama/m0", "Ollama", "http://localhost:11434"))
RECENT = [RecentSession(f"{n}", "which port did the staging proxy use?", "2 h · 3 turns") for n in range(3)]


def text(
    model: ModelInfo, found: list[ModelInfo], width: int = 90, rows: int = 40, sessions: Sequence[RecentSession] = ()
) -> str:
    item = StartItem(rows, answering(model, found, "f3"), "~/.clawbot/workspace", sessions)
    return "\n".join(line.text.rstrip() for line in item.lines(Page(width, Lexers())))


def test_without_a_model_it_says_so_and_how_to_get_one() -> None:
    assert text(OFFLINE, [OFFLINE]) == snapshot("""\

   ╱╱╱ clawbot  an agent that does not forget

   ❯ remember that I prefer tabs
   ❯ what do I prefer?
   ❯ show USER.md

   No language model yet. I remember, find and quote your notes.
   /model, ctrl+k: enter an API key · f3: a model on this machine, no key needed

   notes     ~/.clawbot/workspace, plain Markdown
   /help     keys and commands
""")


def test_a_small_pane_gets_all_of_it_in_eight_lines() -> None:
    shown = text(OFFLINE, [OFFLINE], width=39, rows=8)
    assert shown == snapshot("""\
   ╱╱╱ clawbot
   ❯ remember that I prefer tabs
   ❯ what do I prefer?
   ❯ show USER.md
   No language model yet.
   /model, ctrl+k: enter an API key
   f3: a model on this machine, no key
   needed\
""")
    assert max(map(width_of, shown.split("\n"))) <= 39


def test_last_sessions_take_the_place_of_the_examples() -> None:
    assert text(OFFLINE, [OFFLINE], sessions=RECENT) == snapshot("""\

   ╱╱╱ clawbot  an agent that does not forget

   ❯ which port did the staging proxy use?                                   2 h · 3 turns
   ❯ which port did the staging proxy use?                                   2 h · 3 turns
   ❯ which port did the staging proxy use?                                   2 h · 3 turns

   No language model yet. I remember, find and quote your notes.
   /model, ctrl+k: enter an API key · f3: a model on this machine, no key needed

   notes     ~/.clawbot/workspace, plain Markdown
   /help     keys and commands
""")


# The sentences of a page, which may be broken but never cut.
SENTENCES: list[tuple[ModelInfo, list[ModelInfo], list[str]]] = [
    (
        OFFLINE,
        [OFFLINE],
        ["No language model yet.", "/model, ctrl+k: enter an API key", "f3: a model on this machine"],
    ),
    (WAITS, [OFFLINE], ["Ollama runs on this machine: you are asked before it answers", "enter an API key"]),
    (OFFLINE, [*LOCAL, OFFLINE], ["enter an API key", "found here: ollama/m0, ollama/m1, ollama/m2 and 2 more"]),
    (GPT, [], ["openai/gpt-5: OPENAI_API_KEY is set", "/model chooses another"]),
    (LONG_NAME, [], [f"{LONG_NAME.ref}: it was chosen here", "/model chooses another"]),
    (ModelInfo(ref="openai/x", reason="your choice"), [], ["openai/x, your choice", "/model chooses another"]),
]


@pytest.mark.parametrize(("model", "found", "sentences"), SENTENCES)
@pytest.mark.parametrize(("width", "rows"), [(39, 8), (60, 12), (80, 20), (120, 28), (120, 46)])
def test_no_sentence_is_cut(
    model: ModelInfo, found: list[ModelInfo], sentences: list[str], width: int, rows: int
) -> None:
    shown = text(model, found, width, rows)
    assert max(map(width_of, shown.split("\n"))) <= width
    whole = "".join(shown.split())
    assert [each for each in sentences if "".join(each.split()) not in whole] == []
    assert "…" not in shown


def test_a_model_that_lies_here_is_one_key_away() -> None:
    here = ModelInfo(ref="local/qwen3-4b")
    assert "f3: a model" in text(OFFLINE, [here, OFFLINE])
    assert "f3: a model" not in text(OFFLINE, [here, *LOCAL, OFFLINE])
    assert "f3" not in text(GPT, [GPT, OFFLINE])


def test_odd_signs_in_names_are_made_visible() -> None:
    assert "\x1b" not in tilde(Path("/data/odd\x1b[0m"), Path("/home/ada"))


@pytest.mark.parametrize(
    ("ref", "shown"),
    load_table(__file__, "a_model_out_of_a_file_goes_by_the_name_of_the_file"),
)
def test_a_model_out_of_a_file_goes_by_the_name_of_the_file(ref: str, shown: str) -> None:
    assert short_model(ref) == shown


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 50)])
async def test_the_first_page_fits_and_an_example_runs_at_a_click(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(FakeRuntime(tmp_path, turns=[reply("four spaces")]), size) as (app, pilot):
        await until(pilot, lambda: "╱╱╱ clawbot" in screen_text(app) and "/model" in screen_text(app))
        assert "Context" not in screen_text(app)
        rows = screen_text(app).splitlines()
        row = next(number for number, line in enumerate(rows) if "what do I prefer?" in line)
        await pilot.click(offset=(rows[row].index("what") + 2, row))
        await until(pilot, lambda: not app.chat.turns.busy and "four spaces" in page_text(app))
        assert app.focused is app.chat.composer.prompt
        assert ("Context" in screen_text(app)) is (size[0] >= 150)


async def test_an_example_runs_by_keys_and_what_is_typed_stays(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, turns=[reply("about you")])) as (app, pilot):
        await until(pilot, lambda: "/model chooses" in screen_text(app))
        await pilot.press(*"half")
        await pilot.press("f6", "up", "enter")
        await until(pilot, lambda: not app.chat.turns.busy and "about you" in page_text(app))
        assert "▌ show USER.md" in page_text(app)
        assert app.chat.composer.prompt.text == "half"


async def test_the_line_of_the_model_opens_the_choice(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        await until(pilot, lambda: "/model chooses" in screen_text(app))
        await pilot.press("f6", "enter")
        await until(pilot, lambda: "add a key" in screen_text(app))


async def test_notices_do_not_keep_the_first_page_away(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, notices=[Notice(level="warning", text="a key of the settings is unknown")])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "╱╱╱ clawbot" in screen_text(app))
        assert "unknown" in screen_text(app)


async def test_a_later_start_offers_the_last_sessions(tmp_path: Path) -> None:
    sessions = [summary(number, title, turns=3) for number, title in enumerate(("one", "茶的笔记", "three", "four"), 1)]
    runtime = FakeRuntime(tmp_path, sessions=[summary(0, "empty", turns=0), *sessions])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "❯ 茶的笔记" in screen_text(app))
        assert "four" not in screen_text(app)
        assert "empty" not in screen_text(app)
        await pilot.press("f6", "up", "up", "enter")
        await until(pilot, lambda: runtime.resumed == ["00000002"])


async def test_a_page_with_a_conversation_begins_with_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(1), sessions=[summary(1, "one", turns=3)])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "question 0" in screen_text(app))
        assert "╱╱╱" not in page_text(app)


def test_a_session_without_room_is_cut_with_a_sign() -> None:
    item = StartItem(40, answering(GPT, [], ""), "", [RecentSession("1", "我们为什么要换端口？" * 9, "2 h · 3 turns")])
    lines = [line.text for line in item.lines(Page(40, Lexers()))]
    assert all(width_of(line) <= 40 for line in lines)
    assert any("…" in line and "3 turns" in line for line in lines)


def shows_welcome(app: ClawbotApp) -> bool:
    return page_text(app).count("╱╱╱ clawbot") == 1 and not has_messages(app.chat.page.stack.items)


@pytest.mark.parametrize("model", ["offline", "anthropic/claude-sonnet-4-5"])
async def test_the_first_page_follows_the_model(tmp_path: Path, model: str) -> None:
    runtime = FakeRuntime(tmp_path)
    first = "offline" if model != "offline" else "openai/gpt-5"
    await runtime.agent.set_model(first)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: shows_welcome(app))
        await app.take_model(runtime, model)
        said = "No language model yet." if model == "offline" else f"{model}: "
        await until(pilot, lambda: said in page_text(app))
        assert shows_welcome(app)
        assert "from here on" not in page_text(app)
        await send(app, pilot, "hello")
        await until(pilot, lambda: not app.chat.turns.busy and "You said: hello" in page_text(app))
        await app.take_model(runtime, first)
        await until(pilot, lambda: f"{first} answers from here on" in page_text(app))


async def test_an_empty_conversation_that_is_opened_shows_the_first_page(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(2), sessions=[summary(1, "empty", turns=0)])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "question 1" in page_text(app))
        runtime.items.clear()
        await app.go_to(SessionTarget("00000001"))
        await until(pilot, lambda: shows_welcome(app))


@pytest.mark.parametrize("size", [(40, 12), (80, 24)])
async def test_a_new_conversation_before_anything_was_said_shows_the_first_page_alone(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    runtime = FakeRuntime(tmp_path, notices=[Notice(level="warning", text="a key of the settings is unknown")])
    async with chatting(runtime, size) as (app, pilot):
        await until(pilot, lambda: shows_welcome(app))
        await send(app, pilot, "/status")
        await until(pilot, lambda: not app.chat.turns.busy and "Output of" in page_text(app))
        runtime.tell(SessionChanged(session_key="main", session_id="5f0c1d2f", reason="/new"))
        await until(pilot, lambda: shows_welcome(app) and "Output of" not in page_text(app))
        assert "is unknown" in page_text(app)


async def test_what_was_said_stays_on_the_page_when_another_conversation_begins(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "hello")
        await until(pilot, lambda: not app.chat.turns.busy and "You said: hello" in page_text(app))
        runtime.tell(SessionChanged(session_key="main", session_id="5f0c1d2f", reason="/new"))
        await until(pilot, lambda: "new conversation" in page_text(app))
        assert "You said: hello" in page_text(app)


@pytest.mark.parametrize(("width", "rows", "lines"), [(90, 40, 2), (39, 8, 2)])
def test_what_could_be_imported_is_offered_with_the_command(width: int, rows: int, lines: int) -> None:
    offer = "107 conversations of OpenClaw found: clawbot import ~/.openclaw"
    item = StartItem(rows, answering(GPT, [], ""), "~/.clawbot/workspace", [], [offer])
    shown = [line.text.strip() for line in item.lines(Page(width, Lexers())) if line.text.strip()]
    found = shown[-lines:] if rows > 8 else [line for line in shown if "OpenClaw" in line or "import" in line]
    assert " ".join(found).startswith(offer)
    assert ("clawbot import dismiss hides this" in found) is (rows > 8)


@pytest.mark.parametrize(
    ("files", "home", "shown"),
    load_table(__file__, "what_another_program_would_read_is_one_line_of_the_first_page"),
)
async def test_what_another_program_would_read_is_one_line_of_the_first_page(
    tmp_path: Path, files: dict[str, str], home: str, shown: str
) -> None:
    runtime = FakeRuntime(tmp_path)
    workspace = runtime.settings.agent("main").workspace
    for name, text in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text, encoding="utf-8")
    if home == "codex":
        session = Path.home() / ".codex/sessions/2026/01/02/rollout-1.jsonl"
        session.parent.mkdir(parents=True)
        session.write_text("{}")
    elif home:
        dismiss(runtime.paths)
    async with chatting(runtime, (120, 40)) as (app, pilot):
        await until(pilot, lambda: shows_welcome(app))
        text = page_text(app)
        assert shown in text
        assert (("clawbot doctor" if not home else "clawbot import") in text) == bool(shown)
