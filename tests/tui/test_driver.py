"""What a terminal sends: pastes are text, answers are dropped, keys are keys, wherever the bytes are cut in two."""

from __future__ import annotations

import time
from codecs import getincrementaldecoder
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events, messages
from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers import web_driver
from textual.message import Message

from clawbot.tui import driver
from clawbot.tui.driver import PATIENCE, KeyParser, driver_after
from clawbot.tui.terminal import SavedTerminal
from tests.tui.terminal_input import ANSWERS, BEGIN, END, KEYS, OTHER_STRINGS, PASTES

REPORTS = {"CursorPosition", "TerminalSupportsSynchronizedOutput"}  # events that type nothing


class Typist:
    """A parser with a clock of its own, and what came out of it, in words."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
        self.now = 100.0
        if monkeypatch is not None:
            monkeypatch.setattr(driver, "monotonic", lambda: self.now)
        self._parser, self._decoder = KeyParser(), getincrementaldecoder("utf-8")(driver.BYTES)
        self.seen: list[str] = []

    def types(self, *reads: str | bytes) -> list[str]:
        for read in reads:
            self._take(self._parser.feed(self._decoder.decode(read.encode() if isinstance(read, str) else read)))
        return self.seen

    def waits(self, seconds: float) -> list[str]:
        """As the driver does, in steps."""
        for _ in range(10):
            self.now += seconds / 10
            self._take(self._parser.feed(""))
            self._take(self._parser.tick())
        return self.seen

    def _take(self, came: Iterable[Message]) -> None:
        self.seen += [told(message) for message in came]


def told(message: Message) -> str:
    match message:
        case events.Key(key=key):
            return key
        case events.Paste(text=text):
            return f"paste {text!r}"
        case events.MouseEvent(x=x, y=y):
            return f"{type(message).__name__} {x:.0f},{y:.0f}"
    return type(message).__name__


def whole(data: str | bytes) -> list[str]:
    """What comes of `data` in one read, and of a silence behind it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        typist = Typist(monkeypatch)
        typist.types(data)
        return typist.waits(PATIENCE)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize(("pasted", "text"), PASTES)
def test_a_paste_is_text(pasted: str, text: str) -> None:
    assert whole(f"a{BEGIN}{pasted}{END}b") == ["a", f"paste {text!r}", "b"]


@pytest.mark.parametrize(("pasted", "text"), PASTES)
def test_a_paste_is_text_when_each_byte_is_a_read(pasted: str, text: str) -> None:
    typist = Typist()
    reads = [bytes([byte]) for byte in f"a{BEGIN}{pasted}{END}b".encode()]
    assert typist.types(*reads) == ["a", f"paste {text!r}", "b"]


def typed_by(*reads: str | bytes, pause: float = 0.0) -> list[str]:
    """What comes of `reads` with a `pause` behind each."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        typist = Typist(monkeypatch)
        for read in reads:
            typist.types(read)
            typist.waits(pause)
        return [word for word in typist.waits(PATIENCE) if word not in REPORTS]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_no_key(answer: str) -> None:
    assert typed_by(f"a{answer}b") == ["a", "b"]
    assert typed_by("a", *answer, "b") == ["a", "b"]
    assert typed_by(f"{answer}{answer}a{answer}b{answer}") == ["a", "b"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_comes_in_two_parts_is_no_key(answer: str) -> None:
    for place in range(1, min(len(answer), 300)):
        # After two characters at most, silence means a key.
        key = whole(answer[:place]) if place < 3 else []
        assert typed_by("a", answer[:place], f"{answer[place:]}b", pause=ESCAPE_DELAY * 2) == ["a", *key, "b"], place


@pytest.mark.parametrize("string", OTHER_STRINGS)
def test_a_string_of_any_kind_is_no_key_if_its_end_comes_at_once(string: str) -> None:
    assert typed_by(f"a{string}b") == ["a", "b"]
    assert typed_by("a", *string, "b") == ["a", "b"]
    assert typed_by("a", string[:2], "b")[-1] == "b"  # Alt with a key, and a letter


def test_a_byte_that_is_no_character_begins_an_answer_where_it_can() -> None:
    assert typed_by(b"a\x9b?62;22cb\x9d11;rgb:1e/1e/1e\x9cc") == ["a", "b", "c"]
    assert typed_by(b"a\xffb\xe4") == ["a", "replacement_character", "b"]


@pytest.mark.parametrize(("typed", "keys"), KEYS)
def test_a_key_is_a_key(typed: str, keys: list[str]) -> None:
    assert whole(f"a{typed}b") == ["a", *keys, "b"]
    assert whole(typed) == keys
    typist = Typist()
    typist.types(*typed, "\x1b[I")
    assert typist.seen == [*keys, "AppFocus"]


INPUTS = st.lists(
    st.one_of(
        st.sampled_from([pasted for pasted, _ in PASTES]),
        st.sampled_from(ANSWERS),
        st.sampled_from([typed for typed, _ in KEYS]),
        st.sampled_from(["\x1b", BEGIN, END, "\x1b[", "\x1bO", "\x1b]", "\x1bP", "\x1b_", "\x07", "\x1b\\", "\r", "3"]),
        st.text(st.characters(codec="utf-8"), max_size=5),
        st.binary(max_size=4).map(lambda data: data.decode("latin-1")),
    ),
    max_size=12,
).map("".join)


@given(INPUTS, st.lists(st.integers(0, 10_000), max_size=8))
def test_reads_may_end_anywhere(data: str, places: list[int]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        typist = Typist(monkeypatch)
        typist.types(*cut(data.encode(), places))
        assert typist.waits(PATIENCE) == whole(data)


@given(st.lists(st.binary(max_size=30), max_size=5), st.text(st.characters(codec="utf-8")))
def test_no_bytes_break_the_parser(noise: list[bytes], pasted: str) -> None:
    typist = Typist()
    typist.types(*noise)
    shown = "".join(letter for letter in pasted if letter.isprintable())
    assert typist.types(END.encode(), f"{BEGIN}{shown}{END}")[-1] == f"paste {shown!r}"
    assert not {"\x1b", "\r", "\0"} & set("".join(typist.seen))


@given(INPUTS)
def test_nothing_of_a_paste_is_a_key(pasted: str) -> None:
    (only,) = whole(f"{BEGIN}{pasted.replace(END, '')}{END}")
    assert only.startswith("paste ")


def test_a_paste_of_many_reads_takes_time_in_proportion() -> None:
    def seconds(lines: int) -> float:
        data = (BEGIN + "\x1b[32mok\x1b[0m 中文 and forty characters of a log\r" * lines + END).encode()
        typist, begun = Typist(), time.process_time()
        typist.types(*(data[at : at + 4096] for at in range(0, len(data), 4096)))
        assert len(typist.seen) == 1
        return time.process_time() - begun

    small, large = min(seconds(2_000) for _ in range(3)), seconds(40_000)
    assert large < small * 20 * 4


def test_a_paste_whose_end_is_lost_gives_the_keyboard_back(monkeypatch: pytest.MonkeyPatch) -> None:
    typist = Typist(monkeypatch)
    assert typist.types(BEGIN, "one\r", "two") == []
    assert typist.waits(PATIENCE / 2) == []
    assert typist.waits(PATIENCE) == ["paste 'one\\ntwo'"]
    assert typist.waits(PATIENCE) == ["paste 'one\\ntwo'"]
    assert typist.types("\x03")[1:] == ["ctrl+c"]
    assert typist.types("x", "\r")[2:] == ["x", "enter"]


@pytest.mark.parametrize("key", ["x", "\r", "\x03", "\x1b[A", "\x1b[99;5u", "中"])
def test_any_single_key_ends_a_paste_that_stalls(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typist = Typist(monkeypatch)
    typist.types(BEGIN, "text\x1b[2")
    typist.waits(PATIENCE)
    assert typist.types(key) == ["paste 'text'", *whole(key)]


def test_a_paste_that_stalls_and_goes_on_is_still_text(monkeypatch: pytest.MonkeyPatch) -> None:
    typist = Typist(monkeypatch)
    typist.types(BEGIN, "one")
    typist.waits(PATIENCE * 5)
    assert typist.types("two\rthree", f"four{END}", "\r") == ["paste 'one'", "paste 'two\\nthreefour'", "enter"]


def test_what_never_ends_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MAX_PASTE", 10_000)
    parser, pasted = KeyParser(), ""
    assert list(parser.feed(BEGIN)) == []
    for _ in range(50):
        for message in parser.feed("x" * 3_000):
            assert isinstance(message, events.Paste)
            pasted += message.text
        assert parser._pasted.tell() < 10_000
    assert pasted == "x" * 48 * 3_000
    parser = KeyParser()
    for data in ["\x1b]52;c;", *["QUJD" * 1000] * 50]:
        assert list(parser.feed(data)) == []
        assert len(parser._held) < 1000
    assert [told(message) for message in parser.feed("\x1b\\x")] == ["x"]


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    typist = Typist(monkeypatch)
    assert typist.types("\x1b]11;rgb:1e1e", "/1e") == []
    assert typist.waits(PATIENCE) == []
    assert typist.types("x", "\r") == ["x", "enter"]
    assert typist.types("\x1b]11;rgb:1e", "\x03", "y") == ["x", "enter", "ctrl+c", "y"]


def test_the_screen_in_a_browser_reads_by_the_same_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(web_driver), "XTermParser", XTermParser)
    assert driver_after(SavedTerminal()) is None
    assert vars(web_driver)["XTermParser"] is KeyParser


def test_the_reports_that_textual_asks_for_arrive() -> None:
    (sync,) = KeyParser().feed("\x1b[?2026;2$y")
    assert isinstance(sync, messages.TerminalSupportsSynchronizedOutput)
    (resized,) = KeyParser().feed("\x1b[48;24;80;480;800t")
    assert isinstance(resized, events.Resize)
