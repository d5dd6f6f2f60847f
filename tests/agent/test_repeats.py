"""Which calls of a turn only repeat themselves, as a table: each round's calls with what they would come to."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from clawbot.agent.tool_calls import WAITED_MS, Repeats
from clawbot.messages import ToolCallBlock
from clawbot.tools.protocol import ToolOutcome

READS = {"read", "list", "status"}


class Call(NamedTuple):
    """A call and what it comes to if it runs: `text`, after `took` milliseconds."""

    name: str
    arguments: dict[str, Any]
    text: str = "done"
    took: int = 1
    is_error: bool = False


def play(rounds: list[list[Call]], sent: list[int] | None = None) -> tuple[str, str]:
    """A letter for each call: `.` ran, `R` ran and was refused, `r` was refused before, `=` is there already; and the
    tool at which the turn ended, if so.
    `sent` has the number of messages of each request."""
    repeats, marks = Repeats(), []
    for number, calls in enumerate(rounds):
        repeats.begin_round(sent[number] if sent else number)
        for each in calls:
            call = ToolCallBlock("1", each.name, each.arguments)
            changes = each.name not in READS
            refusal = repeats.refusal(call, changes=changes)
            if refusal is None:
                outcome = ToolOutcome(each.text, is_error=each.is_error)
                is_given = repeats.record(call, outcome, each.took, changes=changes) is outcome
                marks.append("." if is_given else "R")
            else:
                marks.append("r" if refusal.is_error else "=")
        if repeats.stuck:
            break
    return "".join(marks), repeats.stuck


def rounds(*calls: Call) -> list[list[Call]]:
    return [[call] for call in calls]


def append(content: str, path: str = "memory/junk.md", **more: Any) -> Call:
    return Call("append", {"path": path, "content": content}, f"Appended to {path} (+1 lines).", **more)


A = Call("read", {"path": "AGENTS.md", "from": 1}, "text")
B = Call("list", {"path": "."}, "files")
C = Call("read", {"path": "C.md"}, "other")
TEST = Call("shell", {"command": "make test"}, "1 failed")
AGAIN = append("- again")


@pytest.mark.parametrize(
    ("calls", "marks", "stuck"),
    [
        pytest.param(rounds(*[A] * 9), "..RR", "read", id="the same"),
        pytest.param(rounds(*[TEST] * 9), "..rr", "shell", id="a command"),
        pytest.param(rounds(*[A, B] * 9), "....RRR", "read", id="two in turn"),
        pytest.param(rounds(*[A, TEST, C] * 9), ".......rRRr", "shell", id="three in turn"),
        pytest.param(rounds(A, B, A, C, A), "....R", "", id="reading other files changes nothing"),
        pytest.param([[A] * 100], "..R" + "r" * 97, "", id="in one answer"),
        pytest.param([[TEST] * 100], ".." + "r" * 98, "", id="a command in one answer"),
        pytest.param([[A, B] * 3, [C]], "....RR.", "", id="mixed in one answer"),
        pytest.param([[A] * 3, [A] * 3, [A]], "..RRrr", "read", id="in two answers"),
        pytest.param(rounds(A, A, A, C, C), "..R..", "", id="it does something else"),
        pytest.param(
            rounds(A, A._replace(arguments={"from": 1, "path": "AGENTS.md"}), A), "..R", "", id="another order of keys"
        ),
        pytest.param(
            rounds(*(Call("read", {"path": f"{n}.md"}, "text") for n in range(9))), "." * 9, "", id="other arguments"
        ),
        pytest.param(
            rounds(*(Call("read", {"path": "x"}, "no such file", is_error=True) for _ in range(4))),
            "..RR",
            "read",
            id="a failure",
        ),
        pytest.param(rounds(*(Call("status", {}, f"{n // 2} %") for n in range(20))), "." * 20, "", id="a slow poll"),
        pytest.param(
            rounds(*(Call("status", {}, text) for text in ("red", "green") * 9)), "." * 18, "", id="a poll to and fro"
        ),
        pytest.param(
            rounds(*[Call("shell", {"command": "sleep 30; status"}, "pending", took=WAITED_MS)] * 20),
            "." * 20,
            "",
            id="a poll that waits",
        ),
        pytest.param(
            rounds(
                *(each for n in range(9) for each in (TEST, Call("edit", {"path": "a.py", "new": str(n)}, "+1 -1")))
            ),
            "." * 18,
            "",
            id="a test after each edit",
        ),
        pytest.param(
            rounds(*[TEST, Call("edit", {"path": "a.py", "new": "x"}, "+1 -1")] * 9),
            ".....rrr",
            "edit",
            id="the same edit each time",
        ),
        pytest.param(rounds(*[AGAIN] * 40), ".==", "append", id="appended again"),
        pytest.param([[AGAIN] * 100], "." + "=" * 99, "", id="appended again in one answer"),
        pytest.param(rounds(*[AGAIN, append("- other")] * 9), "..===", "append", id="two appended in turn"),
        pytest.param(
            rounds(*(each for n in range(4) for each in (AGAIN, Call("shell", {"command": f"ls {n}"}, str(n))))),
            "..=.=.=.",
            "",
            id="appended again behind other commands",
        ),
        pytest.param(
            rounds(AGAIN, append("- again\n", "./memory//junk.md"), append("- again", "memory/other.md")),
            ".=.",
            "",
            id="appended in another spelling",
        ),
        pytest.param(
            rounds(append("- x", is_error=True), append("- x"), append("- x")), "..=", "", id="appended at last"
        ),
    ],
)
def test_repetitions(calls: list[list[Call]], marks: str, stuck: str) -> None:
    assert play(calls) == (marks, stuck)


@pytest.mark.parametrize(("call", "marks"), [(A, "......"), (TEST, "......"), (AGAIN, ".==")])
def test_what_left_the_context_may_be_read_again_but_not_written(call: Call, marks: str) -> None:
    assert play(rounds(*[call] * 6), sent=[5, 7, 3, 5, 3, 5])[0] == marks


def test_the_refusal_names_the_number_and_the_way_out() -> None:
    repeats, call = Repeats(), ToolCallBlock("1", "read", {"path": "a"})
    for _ in range(3):
        assert repeats.refusal(call, changes=False) is None
        refusal = repeats.record(call, ToolOutcome("text"), 1, changes=False)
    assert "3 times with the same result" in refusal.text
    assert "something else" in refusal.text
