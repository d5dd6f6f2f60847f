"""A question of a tool in rows: complete or said to go on, never without its keys, and read back character by
character at every size."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clawbot.agent.events import ApprovalRequested
from clawbot.text.sanitize import without_isolates
from clawbot.text.visible import reveal
from clawbot.tui.render.lines import StyledLine, width_of
from clawbot.tui.render.question import MIN_WIDTH, WELL, Seen, View, rows_of, view_of
from tests.tables import load_table

ESCAPES = load_table(__file__, "ESCAPES")
WORDS = ["git status", "echo ", "; touch X", "# ", "|", "&&", "'", "⟦U+001B⟧", "好的，", "שלום עולם", "$ ", "1 ", "⋯ "]
BLANKS = [" ", "  ", " " * 8, " " * 400, "\t", "\n", "\n" * 40, "\r", "\u00a0", "\u3000"]
MIXED = st.lists(
    st.sampled_from(ESCAPES + WORDS + BLANKS)
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
    | st.text(st.sampled_from("abc/-"), min_size=30, max_size=90),
    max_size=30,
).map("".join)
SIZES = st.tuples(st.integers(28, 140), st.integers(3, 45))


def asked(command: str, **values: Any) -> ApprovalRequested:
    usual: dict[str, Any] = {
        "tool": "shell",
        "folder": "/home/ada/w",
        "pattern": "make *",
        "reach": "It runs as you and can read and change whatever you can on this machine.",
        "risks": ("deletes files", "uses the network"),
    }
    return ApprovalRequested(request_id="r1", call_id="c1", command=command, **{**usual, **values})


def test_the_folder_is_told_from_the_home_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    for folder, text in (("/home/ada/w", "in ~/w ·"), ("/home/ada", "in ~ ·"), ("/home/adam/w", "in /home/adam/w ·")):
        assert text in text_of(next(iter(pages(asked("make", folder=folder), 100, 30))))


def text_of(view: View) -> str:
    return "\n".join(line.text for line in view.lines)


def pages(question: ApprovalRequested, width: int, height: int) -> list[View]:
    """What somebody sees who reads on to the end."""
    views = [view_of(question, width, height, Seen())]
    while views[-1].below:
        views.append(view_of(question, width, height, Seen(views[-1].top + views[-1].room)))
    return views


def read_back(views: list[View], goes_on: str = "") -> str:
    """The command that the rows of the well say, as somebody would write them down: by what is seen. `goes_on` stands
    left of a row that goes on with the line above."""
    rows: list[StyledLine] = []
    for view in views:
        shown = [line for line in view.lines if line.fill == WELL]
        rows += shown[len(rows) - view.top :]
    lines: list[str] = []
    for gutter, *spans in (row.spans for row in rows):
        text = without_isolates("".join(span.text for span in spans)).rstrip(" ")
        if gutter.text.strip() == goes_on and lines:
            lines[-1] += text
        else:
            lines.append(text)
    return reveal("\n".join(lines))


@settings(max_examples=300, deadline=None)
@given(MIXED, SIZES)
@example("echo a #" + "x" * 61 + "\nrm -rf /", (70, 10))
@example("rm -rf /" + "a" * 50 + " home", (64, 10))
@example("$ ls" + " " * 7 + "\n" * 3, (30, 5))
def test_what_is_on_the_screen_is_the_command(command: str, size: tuple[int, int]) -> None:
    views = pages(asked(command), *size)
    assert read_back(views) == command
    for view in views:
        assert len(view.lines) <= size[1]
        assert all(width_of(line.text) <= size[0] for line in view.lines)
        assert "n no" in view.lines[-1].text or "n no" in text_of(view)


@settings(max_examples=100, deadline=None)
@given(MIXED, SIZES)
def test_a_change_of_a_file_is_shown_whole_as_well(text: str, size: tuple[int, int]) -> None:
    diff = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1 +1 @@\n+" + text.replace("\n", "\n+")
    assert read_back(pages(asked("AGENTS.md", tool="write", diff=diff), *size), "⋯") == diff


@settings(max_examples=30, deadline=None)
@given(MIXED, SIZES)
def test_nothing_in_the_rows_steers_a_terminal(command: str, size: tuple[int, int]) -> None:
    question = asked(command, risks=(command,), reach=command, folder=command, pattern=command + "x", tool=command)
    for view in pages(question, *size):
        for line in view.lines:
            shown = without_isolates(line.text)
            assert not any(unicodedata.category(character)[0] == "C" for character in shown), line.text


def test_a_long_command_says_what_is_below_and_can_only_be_refused_until_it_is_read() -> None:
    first, *_, last = pages(asked("echo start" + "\n" * 40 + "touch PWNED"), 74, 16)
    assert first.lines[0].text.endswith("41 lines, 33 below")
    assert first.lines[0].spans[-1].style == "urgent"
    assert first.lines[-1].text == "y reads on, 33 below   n no"
    assert "touch PWNED" not in text_of(first)
    assert "touch PWNED" in text_of(last)
    assert "above" in last.lines[0].text
    assert last.lines[-1].text == "y once   a yes, “make *” without asking until I quit   n no   e edit first"
    again = view_of(asked("x\n" * 40), 74, 16, Seen(0, all_seen=True))
    assert again.lines[-1].text.startswith("y once")
    assert again.lines[0].spans[-1].style == "quiet"


def test_rows_that_a_line_takes_are_counted() -> None:
    view = view_of(asked("# " + "x" * 5000 + "\ntouch PWNED"), 74, 16, Seen())
    assert view.lines[0].text.endswith(f"2 lines in {view.total} rows, {view.below} below")
    assert view.total > 5000 // 70
    assert view.total == view.room + view.below


@pytest.mark.parametrize("width", [28, 60, 80])
@pytest.mark.parametrize("height", range(3, 17))
def test_the_keys_are_always_there(width: int, height: int) -> None:
    for command in ("rm -rf memory", "x\n" * 90):
        for pattern in ("make *", command, "find . -name '*.py' -newer pyproject.toml -print"):
            for seen in (Seen(), Seen(all_seen=True)):
                view = view_of(asked(command, pattern=pattern), width, height, seen)
                assert len(view.lines) <= height
                assert "n no" in text_of(view)
                assert view.room >= 1


@pytest.mark.parametrize(("width", "height"), [(25, 24), (14, 10), (80, 2), (80, 1), (4, 3), (1, 1)])
def test_where_the_question_has_no_room_nothing_of_it_counts_as_seen(width: int, height: int) -> None:
    for seen in (Seen(), Seen(all_seen=True)):
        view = view_of(asked("touch PWNED"), width, height, seen)
        assert (view.room, view.below) == (0, 1)
        assert 1 <= len(view.lines) <= height
        assert all(width_of(line.text) <= width for line in view.lines)
        assert "y" not in text_of(view)[:4]


@pytest.mark.parametrize("lines", [1, 20_000])
def test_no_sign_is_cut_in_the_narrowest_question(lines: int) -> None:
    command = "\n" * (lines - 1) + "\U0010ffff" * 20_000
    rows = rows_of(asked(command), MIN_WIDTH)
    assert rows[-1].text.endswith("⟦20000×U+10FFFF⟧")
    assert all(width_of(row.text) <= MIN_WIDTH for row in rows)


def test_what_a_question_says_in_the_room_that_there_is() -> None:
    roomy, tight = (view_of(asked("rm -rf memory"), 74, height, Seen(), "y") for height in (16, 7))
    assert len(tight.lines) == 6
    tight = view_of(asked("rm -rf memory\nls"), 74, 6, Seen())
    assert [line.text for line in roomy.lines] == [
        "Run this command?",
        "",
        " $ rm -rf memory",
        "",
        "hint: deletes files, uses the network",
        "in /home/ada/w · It runs as you and can read and change whatever you can",
        "on this machine.",
        "",
        "❯ y once",
        "  a yes, “make *” without asking until I quit",
        "  n no",
        "  e edit first",
    ]
    assert [line.text for line in tight.lines] == [
        "Run this command?",
        " 1 rm -rf memory",
        " 2 ls",
        "hint: deletes files, uses the network",
        "in /home/ada/w · It runs as you and can read and change whatever you can …",
        "y once   a yes, “make *” without asking until I quit   n no   e edit first",
    ]


MANY_RISKS = (
    "deletes files",
    "changes what the shell does later",
    "uses the network",
    "may be incomplete",
    "asks for root",
)


@pytest.mark.few(12)
@pytest.mark.parametrize(
    "risks", [MANY_RISKS, ("删除文件", "更改服务或计划任务", "使用网络", "此列表可能不完整", "以管理员身份运行")]
)
@pytest.mark.parametrize("command", ["make x", "x\n" * 90], ids=["short", "long"])
@pytest.mark.parametrize("width", [28, 40, 80, 200])
@pytest.mark.parametrize("height", [3, 4, 5, 7, 10, 16, 40])
def test_no_risk_is_cut_before_something_can_be_allowed(
    risks: tuple[str, ...], command: str, width: int, height: int
) -> None:
    views = pages(asked(command, risks=risks), width, height)
    rows = [line for view in views for line in view.lines[1:]]  # the first says who asks
    between = dict.fromkeys(row.text for row in rows if "key" not in {span.style for span in row.spans})
    assert "".join(", ".join(risks).split()) in "".join("".join(between).split())
    assert all(width_of(line.text) <= width for view in views for line in view.lines)


def test_on_a_low_screen_the_hint_stays_beside_a_long_command() -> None:
    view = view_of(asked("x\n" * 90), 74, 7, Seen())
    assert [line.text for line in view.lines[-2:]] == [
        "hint: deletes files, uses the network",
        "y reads on, 87 below   n no",
    ]


def test_a_rule_that_is_the_command_is_not_written_twice() -> None:
    view = view_of(asked("a | b " + "c" * 500, pattern="a | b " + "c" * 500), 74, 20, Seen())
    assert "  a yes, and this without asking until I quit" in text_of(view).split("\n")


def test_a_change_has_no_editor_and_a_rule_only_where_there_is_one() -> None:
    diff = "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1 +1 @@\n-ask\n+never ask  "
    view = view_of(asked("write AGENTS.md", tool="write", diff=diff, pattern="", risks=()), 74, 20, Seen(), "y")
    assert view.lines[0].text == "the model asks to write AGENTS.md"
    assert [line.text for line in view.lines[-2:]] == ["❯ y once", "  n no"]
    styles = {span.text: span.style for line in view.lines if line.fill for span in line.spans}
    assert styles["-ask"] == "removed"
    assert styles["+never ask"] == "added"
    assert styles["⟦2×space⟧"] == "added sign-blank"
    assert styles["--- a/AGENTS.md"] == "quiet"


def test_a_question_that_runs_nothing_is_asked_in_words_and_can_not_be_edited() -> None:
    question = asked("llama.cpp at http://127.0.0.1:8080/v1", asks="Let a server answer?", folder="", pattern="it")
    shown = text_of(view_of(question, 100, 30, Seen()))
    assert "Let a server answer?" in shown
    assert "Run this command?" not in shown
    assert "edit" not in shown
    assert "$ llama" not in shown
    assert "y until you quit" in shown


def test_the_cursor_is_on_one_choice_of_the_list_or_of_the_row() -> None:
    for chosen in "yane":
        rows = [line.text for line in view_of(asked("make x"), 74, 20, Seen(), chosen).lines]
        assert [row[2] for row in rows if row.startswith("❯")] == [chosen]
        row = view_of(asked("make x"), 74, 10, Seen(), chosen).lines[-1]
        assert [span.text for span in row.spans if span.style == "key chosen"] == [chosen]


@pytest.mark.parametrize("network", [True, False])
def test_no_key_is_cut_in_a_small_pane(network: bool) -> None:
    for width, height in ((35, 9), (35, 5), (75, 7), (75, 4)):
        shown = text_of(view_of(asked("make x", network=network), width, height, Seen(), "y"))
        assert all(key in shown for key in ("y once", "n no", "e edit"))
        assert "a always" in shown or "a yes" in shown
        assert ("w net" in shown or "w once" in shown) == network


def test_a_grave_danger_has_a_colour_of_its_own() -> None:
    for risks, style in ((("deletes files",), "danger"), (("installs software",), "hint")):
        view = view_of(asked("x", risks=risks), 74, 20, Seen(), "n")
        assert next(line.spans[0].style for line in view.lines if line.text.startswith("hint:")) == style
