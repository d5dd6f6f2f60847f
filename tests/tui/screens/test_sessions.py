"""The list of earlier conversations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from textual.content import Content
from textual.widgets import Input, Static

from clawbot.errors import ClawbotError
from clawbot.messages import AssistantMessage, TextBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.text import Spoken
from clawbot.tui.screens.passages import SessionTarget
from clawbot.tui.screens.sessions import PREVIEW_CHARS, SessionsScreen, TitleScreen, last_words
from tests.tui.chat_host import PENDING, FixedClock, Host, Runtime, seen, showing, until
from tests.tui.fake_runtime import RuntimeStatus, conversation, found, summary, told

TITLES = ["the launch party 🎉", "which port did the proxy use?", "记住我喜欢制表符", "the README"]


def runtime(**values: Any) -> Runtime:
    found = [summary(hours, title) for hours, title in enumerate(TITLES, start=1)]
    values.setdefault("sessions", [found[2], found[0], found[3], found[1]])
    return Runtime(history=conversation(2), status=RuntimeStatus(session_id="here"), **values)


def screen(below: Runtime) -> SessionsScreen:
    return SessionsScreen(below, clock=FixedClock())


def chosen(host: Host) -> str:
    """The session that the screen gave back."""
    assert isinstance(host.result, SessionTarget)
    return host.result.session


async def test_newest_come_first_with_age_turns_tokens_and_end() -> None:
    async with showing(screen(runtime()), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        page = seen(host)
        places = [page.index(part) for part in ("launch party", "which port", "README")]
        assert places == sorted(places)
        assert "1 h · open · 4 turns · 2.4k tokens" in page


async def test_enter_gives_the_highlighted_session() -> None:
    async with showing(screen(runtime())) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("down", "enter")
        assert chosen(host) == f"{2:08x}"


async def test_typing_filters_and_x_is_only_a_letter() -> None:
    below = runtime()
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press(*"prox")
        assert "launch party" not in seen(host)
        assert below.exported == []
        await pilot.press("enter")
        assert chosen(host) == f"{2:08x}"


async def test_chinese_titles_are_found() -> None:
    async with showing(screen(runtime())) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        host.screen.query_one(Input).value = "喜欢"
        await pilot.press("enter")
        assert chosen(host) == f"{3:08x}"


async def test_nothing_found_says_so_and_enter_does_nothing() -> None:
    async with showing(screen(runtime())) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press(*"zzqq", "enter")
        assert "Nothing matches “zzqq”." in seen(host)
        assert host.result is PENDING


async def test_no_sessions_says_so() -> None:
    async with showing(screen(runtime(sessions=[]))) as (host, pilot):
        await until(pilot, lambda: "/new ends this one" in seen(host))


async def test_escape_gives_nothing() -> None:
    async with showing(screen(runtime())) as (host, pilot):
        await pilot.press("escape")
        assert host.result is None


async def test_the_open_session_is_marked_and_choosing_it_changes_nothing() -> None:
    below = runtime(sessions=[summary(1, "this very talk", locked=True)])
    below.status = RuntimeStatus(session_id=f"{1:08x}")
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "this conversation" in seen(host))
        assert "open elsewhere" not in seen(host)
        await pilot.press("enter")
        assert host.result is None


async def test_a_session_that_another_process_holds_is_marked() -> None:
    async with showing(screen(runtime(sessions=[summary(1, "busy", locked=True)]))) as (host, pilot):
        await until(pilot, lambda: "open elsewhere" in seen(host))


async def test_ctrl_x_exports_the_highlighted_session_while_the_filter_has_the_focus() -> None:
    below = runtime()
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press(*"READ", "ctrl+x")
        await until(pilot, lambda: bool(host.notices))
        assert below.exported == [f"{4:08x}"]
        assert host.notices == ["Exported: conversation.md"]


async def test_in_the_list_x_exports_and_other_letters_go_on_filtering() -> None:
    below = runtime()
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("tab", "x")
        await until(pilot, lambda: below.exported == [f"{1:08x}"])
        await pilot.press("p")
        assert host.screen.query_one(Input).value == "p"
        assert host.screen.query_one(Input).has_focus


async def test_an_export_that_fails_is_told() -> None:
    below = runtime()
    below.faults["export"] = OSError(28, "No space left on device", "/x.md")
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("ctrl+x")
        await until(pilot, lambda: bool(host.notices))
        assert "No space left on device" in host.notices[0]


async def test_only_the_session_where_the_list_rests_is_read() -> None:
    below = runtime()
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "question 1" in seen(host))
        assert below.previewed == [f"{1:08x}"]
        await pilot.press("down", "down")
        await until(pilot, lambda: f"{3:08x}" in below.previewed)
        await pilot.press("up", "up")
        await until(pilot, lambda: "question 1" in seen(host))
        assert below.previewed.count(f"{1:08x}") == 1


async def test_a_preview_that_fails_is_told_in_its_place() -> None:
    below = runtime()
    below.faults["preview"] = ClawbotError("The transcript is not readable.", hint="chmod u+r it.")
    async with showing(screen(below), (140, 30)) as (host, pilot):
        await until(pilot, lambda: "The transcript is not readable." in seen(host))


async def test_sessions_that_cannot_be_listed_are_told() -> None:
    below = runtime()
    below.faults["sessions"] = ClawbotError("The sessions folder is not readable.")
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "The sessions folder is not readable." in seen(host))
        await pilot.press("escape")
        assert host.result is None


async def test_narrow_terminals_have_the_list_alone() -> None:
    async with showing(screen(runtime()), (60, 20)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        assert not host.screen.query_one("#preview").display


async def test_a_title_with_escapes_is_shown_harmless() -> None:
    below = runtime(sessions=[summary(1, "\x1b]0;owned\x07\nsecond [b]line")])
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "second [b]line" in seen(host))
        assert "owned" not in seen(host)
        assert "\x1b" not in seen(host)


async def test_of_thousands_only_some_rows_are_laid_out() -> None:
    below = runtime(sessions=[summary(hours, f"talk {hours}") for hours in range(3_000)])
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "3,000" in seen(host))
        await pilot.press(*"2999", "enter")
        assert chosen(host) == f"{2999:08x}"


def test_a_preview_shows_who_spoke_and_leaves_tool_results_out() -> None:
    items: list[Any] = [
        HistoryItem("1", 0, UserMessage(content="hello")),
        HistoryItem("2", 0, ToolResultMessage(tool_call_id="c", tool_name="read", content=[TextBlock("raw")])),
        HistoryItem("3", 0, AssistantMessage(content=[TextBlock("x" * (PREVIEW_CHARS + 9))])),
        HistoryItem("4", 0, AssistantMessage(content=[])),
    ]
    assert last_words(items, 9_999).plain == f"You\nhello\n\nClawbot\n{'x' * PREVIEW_CHARS} …"
    assert last_words([]).plain == "Nothing said yet."


def test_a_preview_shows_markdown_as_the_page_does() -> None:
    reply = "**8443** in `proxy.toml`:\n\n- one\n- 二 *two*\n\n```sh\nls\n```"
    shown = last_words([HistoryItem("1", 0, AssistantMessage(content=[TextBlock(reply)]))], 40)
    assert "**" not in shown.plain
    assert "`" not in shown.plain
    assert "• one" in shown.plain
    assert any(span.style == "bold" and shown.plain[span.start : span.end] == "8443" for span in shown.spans)


async def test_what_was_said_finds_a_session_whose_title_does_not() -> None:
    below = runtime()
    below.memories["dog"] = found(
        told(f"{4:08x}", "User: my dog is called Bruno\nAssistant: Noted."),
        told(f"{1:08x}", "User: something of that kind"),
    )
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        host.screen.query_one(Input).value = "dog"
        await until(pilot, lambda: "dog is called Bruno" in seen(host))
        assert "README" in seen(host)
        # Near in meaning alone is no answer to a filter.
        assert "launch party" not in seen(host)
        await pilot.press("enter")
        assert host.result == SessionTarget(f"{4:08x}", "0000000a", "dog")


async def test_sessions_are_in_the_order_of_the_search_not_of_the_scores() -> None:
    below = runtime()
    below.memories["dog"] = found(
        told(f"{4:08x}", "User: the dog is 12 now", 0.4), told(f"{1:08x}", "User: the dog is 11", 0.6)
    )
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        host.screen.query_one(Input).value = "dog"
        await until(pilot, lambda: "the dog is 12 now" in seen(host))
        assert seen(host).index("the dog is 12 now") < seen(host).index("the dog is 11")


@pytest.mark.long
async def test_the_preview_shows_the_place_that_was_found_with_what_was_said_around_it() -> None:
    below = runtime()
    below.memories["dog"] = found(told(f"{4:08x}", "User: my dog is called Bruno"))
    around = [Spoken(number, f"b{number:07x}", "agent", number, f"line {number}") for number in range(1, 40)]
    around[30] = Spoken(31, "0000000a", "user", 31, "my dog is called Bruno")
    below.spoken[f"sessions/{4:08x}.jsonl"] = around
    async with showing(screen(below), (120, 20)) as (host, pilot):
        await until(pilot, lambda: "question 1" in seen(host))
        host.screen.query_one(Input).value = "dog"
        await until(pilot, lambda: "You: my dog is called Bruno" in seen(host))
        place = host.screen.query_one("#match", Static).content
        assert isinstance(place, Content)
        assert [place.plain[span.start : span.end] for span in place.spans if "accent" in f"{span.style}"] == ["dog"]
        assert "Clawbot: line 30" in seen(host)
        assert "Clawbot: line 1\n" not in seen(host)
        host.screen.query_one(Input).value = "README"
        await until(pilot, lambda: "question 1" in seen(host))
        assert "Bruno" not in seen(host)


async def test_words_of_a_title_are_found_whole_and_not_by_their_letters() -> None:
    below = runtime(sessions=[summary(1, "git diff --git a/x"), summary(2, "DOG food, 狗粮")])
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "diff" in seen(host))
        for typed in ("dog", "狗粮 food"):
            host.screen.query_one(Input).value = typed
            await until(pilot, lambda: "DOG food" in seen(host) and "diff" not in seen(host))


async def test_without_an_index_the_titles_have_to_do() -> None:
    below = runtime()
    below.faults["search"] = ClawbotError("The memory index is off.")
    async with showing(screen(below)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        host.screen.query_one(Input).value = "launch"
        await until(pilot, lambda: "README" not in seen(host))
        await until(pilot, lambda: not host.screen.workers)
        assert "launch party" in seen(host)
        assert host.notices == []


async def test_a_size_that_is_not_known_is_not_told() -> None:
    below = runtime()
    below.summaries = [structs.replace(each, tokens=0) for each in below.summaries[:1]]
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "Conversations · 1" in seen(host) and "turn" in seen(host))
        assert "tokens" not in seen(host)


async def test_a_session_gets_another_title() -> None:
    async with showing(screen(runtime()), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("down", "ctrl+t")
        await until(pilot, lambda: isinstance(host.screen, TitleScreen))
        assert host.screen.query_one(Input).value == "which port did the proxy use?"
        host.screen.query_one(Input).value = "端口 of the proxy"
        await pilot.press("enter")
        await until(pilot, lambda: "端口 of the proxy" in seen(host))


@pytest.mark.parametrize("keys", [("down", "ctrl+b"), ("down", "tab", "f")])
async def test_a_fork_of_a_session_is_gone_on_with(keys: tuple[str, ...]) -> None:
    below = runtime()
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host) and "ctrl+b fork" in seen(host))
        await pilot.press(*keys)
        await until(pilot, lambda: host.result == SessionTarget(f"fork-of-{2:08x}"))
        assert below.forked == [f"{2:08x}"]


async def test_the_open_session_is_not_forked_while_a_turn_runs() -> None:
    below = runtime()
    below.status = RuntimeStatus(session_id=f"{1:08x}", busy=True)
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("ctrl+b")
        await until(pilot, lambda: any("stop it first" in notice for notice in host.notices))
        assert below.forked == []


async def test_a_session_that_can_not_be_forked_stays_with_the_reason() -> None:
    below = runtime()
    below.faults["fork"] = ClawbotError("The disk is full.")
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("ctrl+b")
        await until(pilot, lambda: any("The disk is full." in notice for notice in host.notices))
        assert "README" in seen(host)


async def test_a_session_is_deleted_and_u_brings_it_back() -> None:
    below = runtime()
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("down", "ctrl+d")
        await until(pilot, lambda: "u brings it back" in seen(host) and "Conversations · 3" in seen(host))
        assert "which port" not in seen(host)
        await pilot.press("u")
        await until(pilot, lambda: "which port" in seen(host) and "Conversations · 4" in seen(host))


async def test_the_open_session_is_not_deleted() -> None:
    below = runtime()
    below.status = RuntimeStatus(session_id=f"{1:08x}")
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: any("is open" in notice for notice in host.notices))
        assert len(below.summaries) == 4


async def test_a_session_that_can_not_be_deleted_stays_with_the_reason() -> None:
    below = runtime()
    below.faults["delete"] = ClawbotError("Session main is open in another process.")
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "README" in seen(host))
        await pilot.press("ctrl+d")
        await until(pilot, lambda: host.notices == ["Not deleted: Session main is open in another process."])
        assert "launch party" in seen(host)


async def test_sessions_stand_under_their_days() -> None:
    below = Runtime(sessions=[summary(1, "one"), summary(25, "two"), summary(100, "three"), summary(2000, "four")])
    async with showing(screen(below), (120, 30)) as (host, pilot):
        await until(pilot, lambda: "four" in seen(host))
        parts = ("Today", "one", "Yesterday", "two", "Last 7 days", "three", "August 2026", "four")
        places = [seen(host).index(part) for part in parts]
        assert places == sorted(places)
        await pilot.press("down", "down", "enter")
        assert chosen(host) == f"{100:08x}"
