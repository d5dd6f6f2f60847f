"""The review of proposals on the screen: what is shown, and what each key writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.history import history_of
from clawbot.plugins.dreaming.proposals import Proposal
from clawbot.plugins.dreaming.screen import LineEditor, ReviewScreen
from clawbot.text.interface import set_language
from clawbot.tui.render.lines import width_of
from clawbot.tui.screens.common import AskScreen
from clawbot.tui.screens.editor import EditorScreen
from tests.plugins.dreaming.stage import ADD, DATABASE, DROP, MEMORY, PORT, SUPERSEDE, Desk, proposal
from tests.tui.chat_host import Host, StepClock, seen, showing, until

MOVED = "- the staging proxy answers on 8443 (since 2026-10-02)"


@dataclass
class Reviewing:
    """A review that is open."""

    desk: Desk
    screen: ReviewScreen
    host: Host
    pilot: Pilot[None]

    async def press(self, key: str, done: Callable[[], bool]) -> None:
        await self.pilot.press(key)
        await until(self.pilot, done)

    async def sees(self, text: str) -> None:
        await until(self.pilot, lambda: text in seen(self.host))

    def shows(self, wanted: Proposal) -> bool:
        screen = self.screen
        return screen.shown is not None and screen.shown.proposal.id == wanted.id and not screen.is_loading

    @property
    def is_over(self) -> bool:
        return isinstance(self.host.result, str) or self.host.result is None


@asynccontextmanager
async def reviewing(
    folder: Path, *proposals: Proposal, size: tuple[int, int] = (100, 30), rest: bool = True, memory: str = MEMORY
) -> AsyncIterator[Reviewing]:
    desk, clock = Desk(folder, *proposals, memory=memory), StepClock()
    screen = ReviewScreen(desk.runtime(), clock=clock)
    async with showing(screen, size) as (host, pilot):
        await until(pilot, lambda: screen.shown is not None and not screen.is_loading)
        clock.seconds += rest
        yield Reviewing(desk, screen, host, pilot)


async def test_a_proposal_is_a_diff_with_its_reason_and_its_sources(tmp_path: Path) -> None:
    async with reviewing(tmp_path, SUPERSEDE, ADD) as review:
        for line in (
            "Review · 1 of 2",
            "replace in MEMORY.md, keep the old line",
            "It moved on 2 October.",
            f"- {PORT}",
            f"+ {MOVED}",
            f"+ {PORT} (until 2026-10-02)",
            f"  {DATABASE}",
            "memory/2026-10-02.md:3  - staging proxy moved to 8443; 8080 clashed with grafana",
            "memory/2026-09-18.md:7  (the line is there no more)",
        ):
            await review.sees(line)


@pytest.mark.parametrize(
    ("key", "states", "result"),
    [
        ("y", {"accepted"}, "1 proposal written · /undo takes the last one back"),
        ("n", {"declined"}, "1 declined"),
        ("x", {"never"}, "1 declined"),
        ("l", {"later"}, None),
    ],
)
async def test_each_key_is_a_decision_that_is_written_at_once(
    tmp_path: Path, key: str, states: set[str], result: str | None
) -> None:
    async with reviewing(tmp_path, SUPERSEDE, ADD) as review:
        await review.press(key, lambda: review.shows(ADD))
        kept = {state for each, state in review.desk.store._states().values() if each.id == SUPERSEDE.id}
        assert kept == states
        assert (MOVED in review.desk.memory) is (key == "y")
        await review.press("escape", lambda: review.is_over)
        assert review.host.result == result
    assert review.desk.pending == ([ADD.id, SUPERSEDE.id] if key == "l" else [ADD.id])


async def test_what_is_accepted_is_in_the_history_and_undo_takes_it_back(tmp_path: Path) -> None:
    async with reviewing(tmp_path, SUPERSEDE) as review:
        await review.press("y", lambda: review.is_over)
        assert review.desk.memory != MEMORY
        settings = Settings.model_validate({"agents": {"main": {"workspace": str(review.desk.workspace)}}})
        history = history_of(settings, Paths(review.desk.home), "main", StepClock())
        [change] = [change for change in history.changes() if change.author.by == "dream"]
        history.undo(change.id)
        assert review.desk.memory == MEMORY


async def test_the_text_can_be_edited_before_it_is_written(tmp_path: Path) -> None:
    async with reviewing(tmp_path, ADD, SUPERSEDE) as review:
        await review.press("e", lambda: bool(review.screen.query(LineEditor)))
        await review.pilot.press("left", "y", "n", "escape")
        await until(review.pilot, lambda: not review.screen.query(LineEditor))
        assert review.desk.memory == MEMORY
        await review.press("e", lambda: bool(review.screen.query(LineEditor)))
        await review.pilot.press("主", "库")
        await review.press("enter", lambda: review.shows(SUPERSEDE))
        assert "- 数据库端口是 5433主库\n" in review.desk.memory


async def test_what_is_dropped_has_no_text_to_edit_and_a_secret_is_not_written(tmp_path: Path) -> None:
    async with reviewing(tmp_path, DROP, ADD, memory=f"{MEMORY}{DATABASE} on db.stg\n") as review:
        await review.press("e", lambda: bool(review.host.notices))
        await review.press("right", lambda: review.shows(ADD))
        await review.press("e", lambda: bool(review.screen.query(LineEditor)))
        review.screen.query_one(LineEditor).text = "- the password is hunter22hunter22"
        await review.press("enter", lambda: len(review.host.notices) == 2)
        assert review.host.notices == [
            "This proposal has no text to edit.",
            "Secrets are not written into the memory.",
        ]
        assert "hunter" not in review.desk.memory


async def test_a_file_that_was_changed_since_is_shown_again_before_it_is_written(tmp_path: Path) -> None:
    async with reviewing(tmp_path, SUPERSEDE, ADD) as review:
        review.desk.write(f"# My own heading\n{MEMORY}")
        await review.press("y", lambda: "MEMORY.md was changed since: this is the diff now" in seen(review.host))
        assert MOVED not in review.desk.memory
        await review.press("y", lambda: review.shows(ADD))
        assert MOVED in review.desk.memory
        assert review.desk.memory.startswith("# My own heading\n")


async def test_a_line_that_is_gone_can_not_be_replaced(tmp_path: Path) -> None:
    async with reviewing(tmp_path, SUPERSEDE, ADD, memory="# Memory\n") as review:
        await review.sees("It can't be written: the line `the staging proxy answers on 8080` has been")
        await review.press("y", lambda: review.shows(ADD))
        assert review.desk.pending == [ADD.id]
        await review.press("escape", lambda: review.is_over)
        assert review.host.result == "1 no longer possible"


async def test_what_a_kill_left_undecided_is_found_written(tmp_path: Path) -> None:
    async with reviewing(tmp_path, ADD, SUPERSEDE, memory=f"{MEMORY}{ADD.text}\n") as review:
        await review.sees("The files hold this already")
        await review.press("y", lambda: review.shows(SUPERSEDE))
        assert review.desk.memory.count(ADD.text) == 1
        assert review.desk.pending == [SUPERSEDE.id]


async def test_all_that_is_left_is_accepted_after_a_question(tmp_path: Path) -> None:
    many = [proposal(text=f"- fact number {number}") for number in range(100)]
    async with reviewing(tmp_path, *many) as review:
        await review.press("n", lambda: review.shows(many[1]))
        await review.press("a", lambda: isinstance(review.host.screen, AskScreen))
        await review.sees("Write all 99 proposals?")
        await review.press("escape", lambda: review.host.screen is review.screen)
        assert "fact" not in review.desk.memory
        await review.press("a", lambda: isinstance(review.host.screen, AskScreen))
        await review.press("y", lambda: review.is_over)
        assert review.host.result == "99 proposals written, 1 declined · /undo takes the last one back"
    assert review.desk.memory.count("fact number") == 99
    assert review.desk.pending == []


async def test_keys_that_were_meant_for_the_prompt_decide_nothing(tmp_path: Path) -> None:
    async with reviewing(tmp_path, SUPERSEDE, ADD, rest=False) as review:
        await review.pilot.press("y", "n", "a", "x", "right")
        await until(review.pilot, lambda: review.shows(ADD))
        assert review.desk.pending == [SUPERSEDE.id, ADD.id]


async def test_enter_opens_the_source_at_its_line(tmp_path: Path) -> None:
    async with reviewing(tmp_path, SUPERSEDE, ADD) as review:
        await review.press("enter", lambda: isinstance(review.host.screen, EditorScreen))
        editor = review.host.screen
        assert isinstance(editor, EditorScreen)
        assert (editor.file, editor.line) == ("memory/2026-10-02.md", 3)
        await until(review.pilot, lambda: not editor.is_loading)
        review.desk.write(MEMORY.replace("Memory", "Notes"))
        await review.press("escape", lambda: review.host.screen is review.screen and review.shows(SUPERSEDE))
        await review.press("y", lambda: review.shows(ADD))
        assert "# Notes" in review.desk.memory


async def test_without_proposals_it_says_so(tmp_path: Path) -> None:
    screen = ReviewScreen(Desk(tmp_path).runtime(), clock=StepClock())
    async with showing(screen) as (host, pilot):
        await until(pilot, lambda: isinstance(host.result, str))
        assert host.result == "No proposal waits for a decision."


LONG = proposal(text="- " + "很长的一行，没有空格 🎉" * 30, reason="The reason is as long as it may be. " * 9)


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (140, 45)])
@pytest.mark.parametrize("language", ["en", "zh"])
async def test_long_lines_are_folded_at_every_width(tmp_path: Path, size: tuple[int, int], language: str) -> None:
    set_language("zh" if language == "zh" else "en")
    try:
        async with reviewing(tmp_path, LONG, ADD, size=size) as review:
            change = review.screen.query_one("#change")
            folded = str(change.render()).split("\n")
            # Every row is a row of the screen: nothing is folded once more.
            await until(review.pilot, lambda: change.region.height == len(folded))
            await review.sees("esc")
            assert max(map(width_of, folded)) <= change.region.width
            assert "".join(line[2:].rstrip() for line in folded).count("很长的一行") == 30
            await review.press("right", lambda: review.shows(ADD))
            assert review.screen.query_one("#sources", OptionList).option_count == 1
    finally:
        set_language("en")
