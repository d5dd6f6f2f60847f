"""No text of the interface is outside of the catalogues: with a catalogue that changes every letter, what is left in
plain letters are values, such as names, keys and what was said."""

from __future__ import annotations

import gettext
import re
from pathlib import Path

import pytest
from textual.theme import BUILTIN_THEMES

from clawbot.agent.events import ApprovalRequested, Event, MemoryWritten, NoteKept, ToolFinished, ToolStarted
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.unsent import Unsent
from clawbot.text.interface import use
from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold, reply, summary

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
OTHER = "áƀćďéƒǵĥíĵķĺḿńóṕɋŕśťúṽẃẋýźÁɃĆĎÉƑǴĤÍĴĶĹḾŃÓṔɊŔŚŤÚṼẂẊÝŹ"
LETTERS = str.maketrans(PLAIN, OTHER)
STAMP = int(NOW.timestamp() * 1000)
WORD = re.compile(r"[A-Za-z]{2,}")


class Accented(gettext.NullTranslations):
    """Every text with other letters, its places as they are."""

    def gettext(self, message: str) -> str:
        return "".join(
            part if part.startswith("{") else part.translate(LETTERS) for part in re.split(r"(\{[^}]*\})", message)
        )

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


def themes() -> set[str]:
    """The words in the names of themes."""
    return set(WORD.findall(" ".join(BUILTIN_THEMES)))


@pytest.fixture(autouse=True)
def accented() -> None:
    use(Accented(), "en")


# Values that any screen may show: keys, commands, files and addresses, figures with units, dates.
VALUES = re.compile(
    r"(?:(?:ctrl|shift|alt)\+(?:\w+|.))|\b(?:enter|esc|tab|pgup|pgdn|f\d+|space)\b|/[a-z]+\b|[\w./~-]*[./][\w./-]+|"
    r"\b\d[\d.,]*[kM]?\b|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b|"
    r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w*\b"
)
# The names of this test: of the program, the agents, the session, the model and its provider, the modes.
NAMES = {
    "clawbot",
    "Clawbot",
    "main",
    "work",
    "openai",
    "gpt",
    "plan",
    "ask",
    "edits",
    "offline",
    "auto",
    "light",
    "dark",
}


def left(text: str) -> list[str]:
    """The words of `text` in plain letters that are no values."""
    return sorted(set(WORD.findall(VALUES.sub(" ", text))) - NAMES)


def a_runtime(home: Path, *turns: list[Event | Hold]) -> FakeRuntime:
    """A runtime with notes and sessions in Chinese: their texts are none of the interface."""
    said: list[UserMessage | AssistantMessage] = [
        UserMessage("我们为什么要换端口？", timestamp=STAMP),
        AssistantMessage([TextBlock("因为冲突。")], timestamp=STAMP),
    ]
    return FakeRuntime(
        home,
        history=[HistoryItem(f"{number}", STAMP, message) for number, message in enumerate(said)],
        sessions=[summary(1, "端口", turns=3), summary(2, "茶", turns=1)],
        files={"AGENTS.md": "# 规则\n", "memory/2026-10-02.md": "# 笔记\n"},
        turns=turns,
    )


async def app_models(app: ClawbotApp) -> list[ModelInfo]:
    """The models that the runtime of `app` knows, which say themselves why they can be used."""
    assert app.runtime is not None
    return await app.runtime.models()


def is_settled(app: ClawbotApp) -> bool:
    """Whether a screen is above the conversation, and has read what it shows."""
    return app.screen is not app.chat and all(work.is_finished for work in app.workers if work.node is app.screen)


# The keys and commands that open a screen, and the values on it.
SCREENS: dict[str, set[str]] = {
    "f1": set(),
    "f2": set(),
    "ctrl+r": set(),
    "ctrl+l": set(),
    "ctrl+f": set(),
    "/context": {"AGENTS", "USER", "MEMORY", "SOUL"},
    "/hooks": set(),
    "/agent": set(),
    "/edit": set(),
    "/rewind": set(),
    "/theme": {*themes()},
}


@pytest.mark.long
@pytest.mark.parametrize("opened", SCREENS)
async def test_a_screen_speaks_the_language(tmp_path: Path, opened: str) -> None:
    async with chatting(a_runtime(tmp_path), (120, 60)) as (app, pilot):
        if opened.startswith("/"):
            await send(app, pilot, opened)
        else:
            await pilot.press(opened)
        await until(pilot, lambda: is_settled(app))
        models = WORD.findall(" ".join(f"{model.ref} {model.reason}" for model in await app_models(app)))
        assert set(left(screen_text(app))) - SCREENS[opened] - set(models) == set()


SHELL = ToolStarted(call_id="c1", name="shell", title="shell ls", arguments={"command": "ls"})
ASKS = ApprovalRequested(
    request_id="r1",
    call_id="c1",
    tool="shell",
    command="ls",
    folder="~/工作",
    pattern="ls -a",
    network=True,
    risks=("deletes files",),
)


@pytest.mark.long
@pytest.mark.parametrize("size", [(120, 40), (170, 42)])
async def test_the_conversation_speaks_the_language(tmp_path: Path, size: tuple[int, int]) -> None:
    done: list[Event | Hold] = [
        ToolFinished(call_id="c1", name="shell", output="", summary="exit 0", duration_ms=2_500),
        MemoryWritten(path="memory/2026-10-02.md", line=3, end_line=4, bytes=9),
        NoteKept(session_id="1", path="memory/2026-10-01-tea.md"),
        *reply("好的"),
    ]
    async with chatting(a_runtime(tmp_path, [SHELL, ASKS, *done]), size) as (app, pilot):
        assert left(screen_text(app)) == []
        await send(app, pilot, "列出文件")
        await until(pilot, lambda: app.chat.approval.request is not None)
        assert set(left(screen_text(app))) == {"ls"}
        runtime = app.runtime
        assert runtime is not None
        runtime.agent.answer("r1", "once")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert set(left(screen_text(app))) <= {"ls", "shell"}
        assert set(left(page_text(app))) <= {"ls", "shell"}


async def test_the_first_page_speaks_the_language(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime, (120, 40)) as (app, pilot):
        await until(pilot, lambda: "╱╱╱" in screen_text(app))
        reasons = set(WORD.findall(f"{runtime.status.model.reason}"))
        assert set(left(screen_text(app))) - reasons == set()


async def test_what_was_not_sent_is_asked_about_in_the_language(tmp_path: Path) -> None:
    runtime = a_runtime(tmp_path)
    runtime.unsent = [Unsent("1", "喝茶", STAMP), Unsent("2", "换端口", STAMP)]
    async with chatting(runtime, (120, 40)) as (app, pilot):
        await until(pilot, lambda: "喝茶" in screen_text(app))
        assert left(screen_text(app)) == []


@pytest.mark.long
@pytest.mark.parametrize("keys", ["/", "!", "ctrl+underscore", "shift+tab", "ctrl+c", "escape", "ctrl+s"])
async def test_what_a_key_shows_on_the_conversation_speaks_the_language(tmp_path: Path, keys: str) -> None:
    async with chatting(a_runtime(tmp_path), (120, 40)) as (app, pilot):
        before = screen_text(app)
        await pilot.press(keys)
        await until(pilot, lambda: screen_text(app) != before)
        assert left(screen_text(app)) == []
