"""What the screens share: frames, keys, passages; and the page of keys and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.fuzzy import FuzzySearch

from clawbot.clock import age
from clawbot.config.keys import ACTIONS, KeyMap
from clawbot.config.schema import Settings
from clawbot.tui.screens.chat import ChatScreen
from clawbot.tui.screens.choices import KeyScreen, ModelsScreen
from clawbot.tui.screens.common import HelpScreen, OverScreen, fitting, help_lines, turns
from clawbot.tui.screens.palette import PaletteScreen
from clawbot.tui.screens.passages import END, LINE_CHARS, LINES_AROUND, MAX_LINES, Passage, passage, snippet_start
from clawbot.tui.screens.picker import MAX_WAYS, match
from clawbot.tui.screens.sessions import TitleScreen
from clawbot.tui.widgets.prompt import Prompt
from tests.tables import load_table
from tests.tui.chat_host import Runtime, chatting, screen_text, seen, showing, until
from tests.tui.fake_runtime import PROVIDERS, FakeRuntime
from tests.tui.screens.test_snapshots import context, hooks_screen, memory, sessions


@pytest.mark.long
async def test_the_keys_stand_above_the_commands_each_on_a_line() -> None:
    async with showing(HelpScreen(Runtime()), (140, 90)) as (host, pilot):
        await until(pilot, lambda: "/quit" in seen(host))
        page = seen(host)
        assert page.index("Keys") < page.index("send") < page.index("Commands") < page.index("/new")
        for name, meaning in help_lines(KeyMap()):
            assert name.partition(",")[0] in page
            assert meaning in page


@pytest.mark.long
async def test_narrow_terminals_scroll_down_to_the_commands() -> None:
    async with showing(HelpScreen(Runtime()), (80, 24)) as (host, pilot):
        await until(pilot, lambda: "shift+enter" in seen(host))
        assert "/quit" not in seen(host)
        await pilot.press("end")
        await until(pilot, lambda: "/quit" in seen(host))


@pytest.mark.few(1)
@pytest.mark.parametrize("key", ["escape", "q", "enter"])
async def test_it_is_left_by_any_usual_key(key: str) -> None:
    async with showing(HelpScreen(Runtime())) as (host, pilot):
        await until(pilot, lambda: "shift+enter" in seen(host))
        await pilot.press(key)
        assert host.result is None


def bound(bindings: Iterable[BindingType]) -> dict[str, tuple[str, ...]]:
    return {each.id: tuple(each.key.split(",")) for each in bindings if isinstance(each, Binding) and each.id}


def test_every_action_of_the_table_is_bound_to_the_keys_that_it_names_and_no_other_key_is() -> None:
    assert bound((*ChatScreen.BINDINGS, *Prompt.BINDINGS)) == {action.name: action.keys for action in ACTIONS}
    without_name = [
        each.key for each in (*ChatScreen.BINDINGS, *Prompt.BINDINGS) if isinstance(each, Binding) and not each.id
    ]
    assert without_name == ["ctrl+c"]


async def test_the_page_shows_the_keys_that_were_set() -> None:
    runtime = Runtime()
    runtime.settings = Settings.model_validate({"tui": {"keys": {"unfold": "ctrl+b", "recall": "none"}}})
    async with showing(HelpScreen(runtime), (140, 90)) as (host, pilot):
        await until(pilot, lambda: "/quit" in seen(host))
        lines = [line.strip("│ ") for line in seen(host).splitlines()]
        assert next(line for line in lines if "unfold tool calls" in line).startswith("ctrl+b")
        assert next(line for line in lines if "take back what is queued" in line).startswith("none")
        assert "ctrl+o" not in seen(host)


SCREENS: dict[str, Callable[[], OverScreen[Any]]] = {
    "memory": memory,
    "context": context,
    "help": lambda: HelpScreen(Runtime()),
    "title": lambda: TitleScreen("the staging proxy"),
    "sessions": sessions,
    "hooks": hooks_screen,
    "models": lambda: ModelsScreen(Runtime()),
    "key": lambda: KeyScreen(PROVIDERS[0], "~/.clawbot/.env"),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("size", [(160, 45), (110, 32), (80, 24)])
@pytest.mark.parametrize("name", SCREENS)
async def test_the_frame_is_in_the_middle_of_the_dim_conversation(name: str, size: tuple[int, int]) -> None:
    async with showing(SCREENS[name](), size) as (host, pilot):
        frame = host.screen.query_one("#frame")
        await until(pilot, lambda: frame.region.width > 0 and frame.styles.border_top[0] == "round")
        assert frame.region.width <= min(110, size[0] - 4)
        left, right = frame.region.x, size[0] - frame.region.right
        above, below = frame.region.y, size[1] - frame.region.bottom
        assert min(left, right, above, below) >= 1
        assert max(abs(left - right), abs(above - below)) <= 1
        assert frame.border_title
        assert host.screen.styles.background.a < 1


@pytest.mark.few(6)
@pytest.mark.parametrize("size", [(79, 24), (120, 17), (40, 12)])
@pytest.mark.parametrize("name", SCREENS)
async def test_a_small_screen_is_filled(name: str, size: tuple[int, int]) -> None:
    async with showing(SCREENS[name](), size) as (host, pilot):
        frame = host.screen.query_one("#frame")
        await until(pilot, lambda: frame.region.width == size[0])
        assert (frame.region.x, frame.region.y) == (0, 0)
        assert frame.styles.border_top[0] == ""
        assert host.screen.styles.background.a == 1
        keys = host.screen.query_one("KeyLine").region
        assert 0 < keys.bottom <= size[1]


@pytest.mark.long
async def test_the_palette_stays_where_it_is_while_it_is_filtered(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path), (120, 40)) as (app, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen) and "/theme" in screen_text(app))
        before = app.screen.query_one("#frame").region
        await pilot.press(*"sessions")
        await until(pilot, lambda: "/theme" not in screen_text(app))
        assert app.screen.query_one("#frame").region == before
        assert "clawbot · main" in screen_text(app)


NOW = datetime(2026, 11, 20, 10, 41, tzinfo=timezone(timedelta(hours=8)))


def test_one_is_singular() -> None:
    assert [turns(number) for number in (0, 1, 2, 1_234)] == ["0 turns", "1 turn", "2 turns", "1,234 turns"]


@pytest.mark.parametrize(
    ("back", "expected"),
    [
        (timedelta(seconds=-5), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=5), "5 min"),
        (timedelta(hours=3), "3 h"),
        (timedelta(hours=20), "yesterday"),
        (timedelta(days=2), "2 days"),
        (timedelta(days=7), "13 Nov"),
        (timedelta(days=365), "20 Nov 2025"),
    ],
)
def test_ages_are_told_in_the_zone_of_the_user(back: timedelta, expected: str) -> None:
    assert age((NOW - back).astimezone(UTC), NOW) == expected


def test_shortly_after_midnight_the_evening_is_hours_ago() -> None:
    midnight = NOW.replace(hour=0, minute=30)
    assert age(midnight - timedelta(hours=2), midnight) == "2 h"


@pytest.mark.parametrize(
    ("query", "text", "found"),
    load_table(__file__, "words_are_found_in_any_order_and_letters_in_theirs"),
)
def test_words_are_found_in_any_order_and_letters_in_theirs(query: str, text: str, found: bool) -> None:
    assert (match(FuzzySearch(), query, text) is not None) is found


def test_found_letters_are_named() -> None:
    hit = match(FuzzySearch(), "stag pr", "the staging proxy")
    assert hit is not None
    assert [*hit[1]] == [4, 5, 6, 7, 12, 13]


def test_a_text_with_too_many_ways_to_match_is_left_out_at_once() -> None:
    text = "ab" * 60
    assert MAX_WAYS < 60**8
    assert match(FuzzySearch(), "aabbaabb", text) is None
    assert match(FuzzySearch(), "abababab", text) is not None


def test_the_way_back_stays_in_a_line_of_keys_that_is_too_long() -> None:
    parts = [Content(text) for text in ("enter resume", "ctrl+t title", "esc back", "shift+↑ read")]

    def shown(width: int) -> str:
        return Content(" · ").join(fitting(parts, 2, width)).plain

    assert shown(60) == "enter resume · ctrl+t title · esc back · shift+↑ read"
    assert shown(52) == "enter resume · ctrl+t title · esc back · …"
    assert shown(38) == "enter resume · … · esc back"
    assert shown(20) == "… · esc back"
    assert shown(8) == "esc back"


FACTS = "".join(f"- fact {number}\n" for number in range(1, 201))


def test_a_passage_is_cut_out_of_a_long_text() -> None:
    part = passage(FACTS, 100, 101)
    assert part.match == "- fact 100\n- fact 101"
    assert part.before.count("\n") == LINES_AROUND - 1
    assert part.before.endswith("- fact 99")
    assert part.after.startswith("- fact 102\n")


@pytest.mark.parametrize(("first", "last", "place"), [(1, 1, "one"), (0, 0, ""), (9, 9, "two"), (2, 1, "two")])
def test_a_place_that_does_not_exist_any_more_is_the_nearest(first: int, last: int, place: str) -> None:
    part = passage("one\ntwo", first, last)
    assert part.match == place
    assert "one" in part.before + part.match + part.after


def test_a_snippet_begins_shortly_before_the_words_that_were_meant() -> None:
    text = "- a long way to go until the proxy comes"
    assert snippet_start(text, "proxy") == "… go until the proxy comes"
    assert snippet_start(text, "long") == "a long way to go until the proxy comes"
    assert snippet_start("今天我们把很多东西都整理了一下，数据库端口改了", "端口") == "… 理了一下，数据库端口改了"
    assert snippet_start("> quoted\n> more", "x") == "quoted > more"


def test_lines_are_counted_as_the_index_does() -> None:
    assert passage("a\r\nb\x0c\u2028still b\r\n\tc\x1b[31m\r\n", 3, 3) == Passage("a\nb\n\nstill b", "    c", "")


def test_of_a_huge_text_little_is_shown() -> None:
    part = passage("\n".join(["x" * 10_000] * 1_000), 1, END)
    assert len(part.match) == MAX_LINES * (LINE_CHARS + 1) - 1
    assert len(snippet_start("y " * 100_000, "z")) < LINE_CHARS
