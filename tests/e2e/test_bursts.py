"""Keys that arrive together on a real terminal, while an answer streams: each takes effect before the next one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal
from tests.tables import load_table
from tests.tui.terminal_input import BEGIN, END

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

STREAM = ", ".join(f'{{text: "and on {number}.\\n\\n", after: 0.3}}' for number in range(1000))
SCRIPT = f"turns:\n  - repeat: forever\n    reply: {{text: [{STREAM}]}}\n"
ESC = "\x1b[27u"  # as kitty sends it: no letter behind it makes it Alt
LEFT, RIGHT, UP, DOWN, HOME, DELETE = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[3~"
BACK, TAB, ENTER, RECALL, ALL, FIND = "\x7f", "\t", "\r", "\x1b[1;3A", "\x1b[18~", "\x1bOS"


def ctrl(letter: str) -> str:
    return chr(ord(letter) & 0x1F)


# Of each: what is typed (a text is a key a letter), and what the prompt holds then; `go on` was sent before.
BURSTS: list[tuple[Sequence[str], str]] = [
    ((*"abc", BACK, "d"), "abd"),
    ((*"worls", BACK, *"d ab", BACK, "c"), "world ac"),
    ((*"abc", LEFT, "X"), "abXc"),
    ((*"bc", ctrl("a"), "a"), "abc"),
    ((*"abc", ctrl("u"), "x"), "x"),
    ((*"abc def", ctrl("w"), "x"), "abc x"),
    ((*"abc def", "\x1b\x7f", "x"), "abc x"),
    ((*"two", "\x1b[13;2u", *"three"), "two\nthree"),
    ((*"two", "\x1b[27;2;13~", *"three"), "two\nthree"),
    ((*"two", "\x1b\r", *"three"), "two\nthree"),
    ((*"two", ctrl("j"), *"three"), "two\nthree"),
    ((*"abc", HOME, "X"), "Xabc"),
    ((*"abc", HOME, DELETE, "d"), "dbc"),
    ((*"abc", HOME, RIGHT, BACK, "X"), "Xbc"),
    ((*"abc", HOME, RIGHT, RIGHT, "X"), "abXc"),
    ((*"abc", ctrl("z"), "x"), "x"),
    ((*"abc", ctrl("z"), ctrl("y"), "d"), "abcd"),
    ((*"abc def", "\x1bb", "X"), "abc Xdef"),
    ((*"abc def", ctrl("w"), "x", ctrl("y")), "abc xdef"),
    ((*"abc", LEFT, LEFT, ctrl("k"), "x"), "ax"),
    ((*"abc", ctrl("a"), ctrl("k"), "d"), "d"),
    ((*"abc", ctrl("a"), ctrl("e"), "d"), "abcd"),
    ((*"abc", LEFT, ctrl("d"), "X"), "abX"),
    ((*"abc", "\x1b[1;2D", "\x1b[1;2D", "X"), "aX"),
    ((*"abc", "\x1b[1;2H", "X"), "X"),
    ((*"abc", ALL, "x"), "x"),
    ((*"a b c", "\x1b[1;5D", "\x1b[1;5D", "X"), "a Xb c"),
    ((*"abc def", HOME, "\x1b[1;5C", "X"), "abcX def"),
    ((*"abc def", HOME, "\x1b[3;3~", "X"), "X def"),
    ((*"中文字", BACK, "x"), "中文x"),
    ((*"ab", ctrl("j"), "c", UP, "X"), "aXb\nc"),
    ((*"ab", ctrl("j"), *"cd", HOME, BACK, "X"), "abXcd"),
    ((*"ab", ctrl("j"), *"cd", ctrl("u"), "x"), "ab\nx"),
    ((*"ab", ctrl("j"), "c", UP, HOME, "X", DOWN, "Y"), "Xab\ncY"),
    (("a", f"{BEGIN}bc{END}", "d", BACK), "abc"),
    (("a", f"{BEGIN}bc{END}", BACK, "X"), "abX"),
    (("a", f"{BEGIN}b\rc{END}", LEFT, "X"), "ab\nXc"),
    ((*"abc", ALL, f"{BEGIN}x{END}", "y"), "xy"),
    ((*"abc", ALL, ctrl("j"), "x"), "\nx"),
    ((UP, ctrl("u"), "x"), "x"),
    (("b", UP, DOWN, "c"), "bc"),
    ((*"ab", UP, ctrl("n"), "c"), "abc"),
    ((*"one", ENTER, *"two"), "two"),
    ((*"onx", BACK, "e", ENTER, *"tvo", BACK, BACK, *"wo"), "two"),
    ((*"ab", RECALL, BACK, "c"), "ac"),
    ((*"abc", ctrl("s"), *"xyz"), "xyz"),
    ((*"abc", ctrl("c"), "y"), "y"),
    ((*"ab", ctrl("o"), BACK, "c"), "ac"),
    ((*"ab", "\x1b[Z", BACK, "c"), "ac"),
    ((*"!ls", HOME, DELETE, "x"), "xls"),
    ((*"/exp", TAB, "x"), "/export x"),
    ((*"/expqq", BACK, BACK, TAB, "x"), "/export x"),
    ((*"/re", ESC, "x"), "/rex"),
    ((*"/re", BACK, DOWN, UP, TAB, BACK, "x"), "/resetx"),
    ((*"ab", FIND, *"zz", ESC, BACK, "c"), "ac"),
    ((FIND, *"zz", BACK, LEFT, ESC, "a"), "a"),
    ((*"ab", ctrl("l"), *"xyz", BACK, ESC, BACK, "c"), "ac"),
    ((*"ab", ctrl("r"), *"xyz", ctrl("u"), ESC, "c"), "abc"),
    ((ctrl("p"), *"xyz", LEFT, BACK, ESC, "a"), "a"),
    ((*"ab", ctrl("f"), *"xyz", ESC, BACK, "c"), "ac"),
    ((*"ab", "\x1bOP", ESC, BACK, "c"), "ac"),
    ((*"/model", ENTER, *"xyz", BACK, ESC, *"ab", BACK, "c"), "ac"),
]
VI_KEYS = {"␛": "\x1b", "↵": "\x1b[13;2u", "®": ctrl("r")}
# In vi mode, a character a key (↵ breaks the line): what vim makes of it, and what the prompt has beside it.
IN_VI = load_table(__file__, "IN_VI")
# Of each: what is typed, and what a line of the screen is then; Esc goes back.
IN_FIELDS: list[tuple[Sequence[str], str]] = [
    ((ctrl("l"), *"abc", BACK, "d"), "❯ abd"),
    ((ctrl("r"), *"abc", LEFT, "X"), "❯ abXc"),
    ((ctrl("f"), *"bc", HOME, "a"), "❯ abc"),
    ((ctrl("p"), *"abc def", ctrl("w"), "x"), "❯ abc x"),
    ((FIND, *"abc", LEFT, DELETE, "d"), "/ abd"),
    ((FIND, *"abc", BACK, "d"), "/ abd"),
    ((FIND, *"bc", HOME, "a"), "/ abc"),
    ((FIND, *"abc def", ctrl("w"), "x"), "/ abc x"),
    ((FIND, *"abc", ctrl("u"), "x"), "/ x"),
    ((ctrl("l"), *"abc", ctrl("u"), "x"), "❯ x"),
    ((ctrl("r"), *"a", f"{BEGIN}b\rc{END}", LEFT, "X"), "❯ ab Xc"),
    ((ctrl("f"), *"abc", HOME, RIGHT, BACK, "X"), "❯ Xbc"),
    ((ctrl("p"), *"中文字", BACK, "x"), "❯ 中文x"),
    # In a screen that the one before opens.
    ((ctrl("r"), ctrl("t"), *"abc", BACK, "d"), "abd"),
    ((ctrl("r"), ctrl("t"), *"bc", HOME, "a"), "abc"),
    ((ctrl("r"), ctrl("t"), *"abc", LEFT, "X"), "abXc"),
    ((ctrl("r"), ctrl("t"), *"abc def", ctrl("w"), "x"), "abc x"),
    ((ctrl("r"), ctrl("t"), *"abc", ctrl("u"), "x"), "x"),
    ((ctrl("l"), ctrl("k"), *"deep", ENTER, *"abc", BACK, *"def"), "  •••••\n"),
    ((ctrl("l"), ctrl("k"), *"deep", ENTER, *"abc", ctrl("u"), *"de"), "  ••\n"),
    ((ctrl("l"), ctrl("k"), *"deep", ENTER, f"{BEGIN}ab{END}", *"cd"), "  ••••\n"),
    ((ctrl("l"), ctrl("k"), *"deep", ENTER, *"abc", HOME, DELETE, "d"), "  •••\n"),
    ((ctrl("l"), ctrl("k"), *"dee", BACK, *"ep", ENTER, *"ab", BACK), "  •\n"),
    ((*"/edit new.md", ENTER, *"abc", BACK, "d"), "1  abd"),
    ((*"/edit new.md", ENTER, *"bc", HOME, "a"), "1  abc"),
    ((*"/edit new.md", ENTER, *"abc", LEFT, "X"), "1  abXc"),
    ((*"/edit new.md", ENTER, *"abc def", ctrl("w"), "x"), "1  abc x"),
    ((*"/edit", ENTER, *"new.md", ENTER, *"a", TAB, "b", BACK, "c"), "1  a   c"),
]
STATUS = re.compile(r" (?:INSERT |NORMAL |VISUAL |V-LINE )?main ·|   queued:")  # the line below the prompt
PAIRS = -1.0
TIMINGS = (0.0, PAIRS, 0.002, 0.010)  # seconds between two keys; 0: one write; PAIRS: two keys a packet


def type_keys(chat: Terminal, keys: Sequence[str], timing: float) -> None:
    """Write `keys` with the gaps of `timing`."""
    if not timing:
        chat.send("".join(keys).encode())
        return
    step = 2 if timing == PAIRS else 1
    for at in range(0, len(keys), step):
        chat.send("".join(keys[at : at + step]).encode())
        time.sleep(abs(timing) if timing != PAIRS else 0.02)


def prompt_of(screen: str) -> str:
    """What the prompt holds."""
    rows = screen[screen.rfind("❯") + 1 :].splitlines()
    end = next((at for at, row in enumerate(rows) if STATUS.match(row)), 0)
    text = "\n".join(row.strip() for row in rows[:end] if not row.startswith("▀"))
    return "" if text.startswith("Ask, or /") else text


def shows(text: str) -> Callable[[str], bool]:
    """Return whether the prompt of a screen holds `text`."""
    return lambda screen: prompt_of(screen) == text


def play(chat: Terminal, keys: Sequence[str], expected: str, timing: float, *, seconds: float = 10) -> str:
    """Type `keys` into an empty prompt, empty it again; return what was wrong with it."""
    type_keys(chat, keys, timing)
    wrong = ""
    try:
        chat.wait_for(shows(expected), seconds=seconds)
    except AssertionError:
        wrong = f"{keys} at {timing}: {prompt_of(chat.text)!r}, not {expected!r}"
    chat.send(ALL, BACK)
    if ENTER in keys and keys[0] == "o":
        chat.wait_for("queued: one")
        chat.send(RECALL)
        chat.wait_for(lambda screen: prompt_of(screen) == "one")
        chat.send(ALL, BACK)
    chat.wait_for(lambda screen: prompt_of(screen) == "" and "queued:" not in screen)
    return wrong


def begin(machine: Machine, script: Callable[[str], Path], settings: str = "") -> Terminal:
    """A chat whose model streams."""
    machine.serve(script(SCRIPT))
    with (machine.state / "config.yaml").open("a", encoding="utf-8") as file:
        file.write(settings)
    machine.env["EDITOR"] = "sed -i s/abc/edited/"
    chat = machine.open(columns=80, rows=16)
    chat.wait_for("openai/scripted")
    chat.send("go on", "enter")
    chat.wait_for("and on 1.")
    return chat


def test_keys_of_a_burst_are_commands_of_vi(machine: Machine, script: Callable[[str], Path]) -> None:
    chat = begin(machine, script, "tui: {vi: true}\n")
    wrong = []
    for timing in TIMINGS:
        for signs, expected in IN_VI:
            type_keys(chat, [VI_KEYS.get(sign, sign) for sign in signs], timing)
            try:
                chat.wait_for(shows(expected), seconds=10)
            except AssertionError:
                wrong.append(f"{signs} at {timing}: {prompt_of(chat.text)!r}, not {expected!r}")
            chat.send("ctrl+c")
            chat.wait_for(lambda screen: prompt_of(screen) == "" and "INSERT" in screen)
    assert wrong == []
    assert "enter queues" in chat.text


def test_keys_of_a_burst_take_effect_in_their_order(machine: Machine, script: Callable[[str], Path]) -> None:
    chat = begin(machine, script)
    wrong = [play(chat, *burst, timing) for timing in TIMINGS for burst in BURSTS]
    assert list(filter(None, wrong)) == []
    assert play(chat, (*"abc", ctrl("g"), *"xyz"), "editedxyz", 0.0) == ""
    for timing in TIMINGS:
        for keys, line in IN_FIELDS:
            type_keys(chat, keys, timing)
            chat.wait_for(line)
            leave(chat)
    for timing in TIMINGS:
        assert play(chat, (*"/edit", ENTER, ESC, *"ab", BACK, "c"), "ac", timing) == ""
        assert play(chat, (*"abc", ctrl("s"), "d", BACK, ctrl("s"), "x"), "abcx", timing) == ""


def leave(chat: Terminal) -> None:
    """Go back to the prompt, without what was written."""
    for _ in range(4):
        chat.send(ESC)
        chat.feed_until("Ask, or /", seconds=1)
        if "Ask, or /" in chat.text and not set("│╭") & set(chat.text):
            return
        if "d discard" in chat.text:
            chat.send("d")
            chat.wait_for("Ask, or /")
            return
    raise AssertionError(chat.text)
