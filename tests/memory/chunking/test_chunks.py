"""The chunks of the profile `lines`: what becomes one, that none gets lost, and that no text takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.chunking.chunks import CODE_CHARS, LONG_CHARS, Chunk, chunk, chunk_lines, document_lines
from clawbot.memory.chunking.markdown import HEADING_CHARS
from tests.tables import load_table


def texts(text: str) -> list[str]:
    return [chunk.text for chunk in chunk_lines(text)]


def kinds(text: str) -> list[tuple[str, str]]:
    return [(chunk.kind, chunk.text) for chunk in chunk_lines(text)]


def ranges(text: str) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunk_lines(text)]


def covered(chunks: list[Chunk]) -> list[int]:
    return [line for chunk in chunks for line in range(chunk.start_line, chunk.end_line + 1)]


def test_a_daily_note() -> None:
    note = "# 2026-03-02\n\n## 09:40\n\n- uses REST\n- code name 「青鸟」\n\nProxy moved to 8443.\n"
    assert chunk_lines(note) == [
        Chunk(1, 2, "# 2026-03-02", "heading", ()),
        Chunk(3, 4, "## 09:40", "heading", ("2026-03-02",)),
        Chunk(5, 5, "- uses REST", "item", ("2026-03-02", "09:40")),
        Chunk(6, 7, "- code name 「青鸟」", "item", ("2026-03-02", "09:40")),
        Chunk(8, 8, "Proxy moved to 8443.", "prose", ("2026-03-02", "09:40")),
    ]


@pytest.mark.parametrize("text", ["", "\n", "\n\n \t\n", "\u3000\n", "\r\n\r\n"])
def test_a_blank_file_has_no_chunks(text: str) -> None:
    assert chunk_lines(text) == []


def test_blank_lines_belong_to_the_chunk_before_and_at_the_top_to_the_first() -> None:
    assert ranges("\n\nfirst\n\n\nsecond\n\n") == [(1, 5), (6, 7)]


def test_a_final_line_break_begins_no_line() -> None:
    assert document_lines("a\nb\n") == ["a", "b"] == document_lines("a\nb")
    assert ranges("- a\n- b\n") == [(1, 1), (2, 2)] == ranges("- a\n- b")


def test_other_line_breaks_than_lf_are_no_line_breaks() -> None:
    assert ranges("- a\r\n- b\u2028c\x0bd\re\n- f") == [(1, 1), (2, 2), (3, 3)]


def test_an_item_keeps_what_is_indented_below_it_and_nested_ones_are_their_own() -> None:
    text = "- deploy like this\n  every time:\n\n  ```sh\n  make ship\n  ```\n  - at noon\n  - 晚上不行\n- eat\nwell\n"
    assert kinds(text) == [
        ("item", "- deploy like this\n  every time:\n\n  ```sh\n  make ship\n  ```"),
        ("item", "- at noon"),
        ("item", "- 晚上不行"),
        ("item", "- eat\nwell"),
    ]


def test_who_speaks_after_a_list_is_not_part_of_its_last_item() -> None:
    talk = "assistant: You could:\n- dim it\n- start with ten\nuser: Start with ten.\nassistant: Good, but\n  tonight?"
    assert kinds(talk) == [
        ("dialogue", "assistant: You could:"),
        ("item", "- dim it"),
        ("item", "- start with ten"),
        ("dialogue", "user: Start with ten."),
        ("dialogue", "assistant: Good, but\n  tonight?"),
    ]
    assert kinds("1. 换窗户\n2. 只刷漆\n客户：选第二个。")[1:] == [
        ("item", "2. 只刷漆"),
        ("dialogue", "客户：选第二个。"),
    ]
    assert texts("- one\n  Anna: indented\nand wrapped") == ["- one\n  Anna: indented\nand wrapped"]


def test_the_lines_of_a_log_stand_alone() -> None:
    assert texts("09:12 first alert\n09:40 found it\n  the pool\n[10:05] errors gone") == [
        "09:12 first alert",
        "09:40 found it\n  the pool",
        "[10:05] errors gone",
    ]
    assert texts("We met at\n09:40 in the hall") == ["We met at\n09:40 in the hall"]


def test_an_item_that_goes_on_behind_nested_ones() -> None:
    assert texts("- a\n  - b\n\n  more of a\n- c") == ["- a", "- b", "more of a", "- c"]


@pytest.mark.parametrize(
    ("kind", "chunks"),
    load_table(__file__, "what_is_one_chunk"),
)
def test_what_is_one_chunk(kind: str, chunks: list[str]) -> None:
    assert kinds("\n".join(chunks)) == [(kind, text) for text in chunks]


def test_an_item_with_long_code_gives_the_code_away() -> None:
    code = "\n".join(f"  line {number} of the code that is too long" for number in range(30))
    found = kinds(f"- run\n  ```\n{code}\n  ```\n- next")
    assert [kind for kind, _ in found] == ["item", "code", "item"]


def test_lines_too_long_to_be_wrapped_ones_stand_alone() -> None:
    long = "one thought that was written on one line and goes on for longer than anybody would ever wrap a text " * 2
    assert len(chunk_lines(f"{long}\nshort\n{long}")) == 3
    assert len(chunk_lines("部署脚本第一次跑失败报错原因是代理没关" * 4 + "\n短句")) == 2


@pytest.mark.parametrize(
    "line", ["https://example.org: down", "12:30 lunch", "see a, b: c", "the reason why it is so: x"]
)
def test_what_looks_like_something_said_but_is_not(line: str) -> None:
    assert kinds(f"some words that go before and\n{line}\nand go on") == [
        ("prose", f"some words that go before and\n{line}\nand go on")
    ]


def test_a_long_wrapped_paragraph_is_split_between_lines() -> None:
    lines = [f"line {number:03} of a text that has no end and goes on" for number in range(60)]
    found = chunk_lines("\n".join(lines))
    assert len(found) > 2
    assert all(len(chunk.text) <= LONG_CHARS for chunk in found)
    assert "\n".join(chunk.text for chunk in found) == "\n".join(lines)


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("We chose Redis for the cache, as ever. " * 60, "."),
        ("我们在上海开会。" * 300, "。"),
        ("word " * 5_000, "word"),
        ("x" * 5_000, "x"),
        ("- an item that goes on and on. " * 60, "."),
    ],
)
def test_a_line_too_long_for_a_chunk_becomes_several_with_its_number(line: str, ends: str) -> None:
    found = chunk_lines(f"# Top\nbefore\n\n{line}\n\nafter")[2:-1]
    assert len(found) > 1
    assert {(chunk.start_line, chunk.end_line, chunk.headings) for chunk in found} == {(4, 5, ("Top",))}
    assert all(LONG_CHARS // 2 <= len(chunk.text) <= LONG_CHARS for chunk in found[:-1])
    assert all(chunk.text.endswith(ends) for chunk in found)
    assert "".join("".join(chunk.text for chunk in found).split()) == "".join(line.split())


def test_long_lines_of_code_and_of_tables_are_split_too() -> None:
    code = chunk_lines(f"```\n{'x = 1; ' * 1_000}\n```")
    assert [chunk.kind for chunk in code] == ["code"] * len(code)
    assert max(len(chunk.text) for chunk in code) <= CODE_CHARS
    table = chunk_lines(f"| host |\n|---|\n| a |\n| {'port ' * 500}|")
    assert max(len(chunk.text) for chunk in table) <= LONG_CHARS
    assert {chunk.headings for chunk in table[1:]} == {("host",)}
    assert len(chunk_lines(f"# {'x ' * 3_000}\ntext")) == 2


def test_code_stays_whole_until_it_is_long() -> None:
    code = "```python\ndef f():\n\n    # not a heading\n    return 1\n```"
    assert kinds(f"before\n{code}\nafter") == [("prose", "before"), ("code", code), ("prose", "after")]
    long = "```\n" + "x = 1  # and so on\n" * 400 + "```"
    assert all(chunk.kind == "code" and len(chunk.text) <= CODE_CHARS for chunk in chunk_lines(long))


def test_a_fence_that_never_ends_takes_the_rest() -> None:
    assert len(chunk_lines("```\n# a\n- b\n\nc")) == 1


def test_a_small_table_is_whole_and_a_large_one_has_rows() -> None:
    head = "| host | port |\n|---|---|\n"
    assert kinds(head + "| a | 1 |\n| b | 2 |\n") == [("table", head + "| a | 1 |\n| b | 2 |")]
    rows = [f"| machine number {number} | {number} |" for number in range(60)]
    found = chunk_lines("# Ports\n" + head + "\n".join(rows))
    assert [chunk.text for chunk in found[2:]] == rows
    assert {chunk.headings for chunk in found[2:]} == {("Ports", "host | port")}


def test_headings_nest_and_end() -> None:
    text = "# A\n### A.1\nx\n## B\ny\nC\n===\nz\n"
    assert [(chunk.text, chunk.headings) for chunk in chunk_lines(text) if chunk.kind == "prose"] == [
        ("x", ("A", "A.1")),
        ("y\nC\n===\nz", ("A", "B")),
    ]
    assert chunk_lines("C\n===\nz\n")[1].headings == ("C",)


def test_a_line_drawn_under_text_makes_no_heading_of_it() -> None:
    found = chunk_lines("We met at the station.\n---\nAnna: hi\nBob: ho\n---\nnext")
    assert [(chunk.text, chunk.headings) for chunk in found] == [
        ("We met at the station.", ()),
        ("Anna: hi", ()),
        ("Bob: ho", ()),
        ("next", ()),
    ]


def test_headings_inside_of_quotes_and_items_stand_above_nothing() -> None:
    assert chunk_lines("> # quoted\n\n- # item\n\ntext")[-1].headings == ()


def test_a_heading_is_bounded() -> None:
    assert chunk_lines(f"# {'x' * 5_000}\ntext")[1].headings == ("x" * HEADING_CHARS,)


def test_front_matter_is_one_chunk_of_code() -> None:
    assert kinds("---\ntitle: 会议\ntags:\n  - a\n\n---\n# Top\n")[0] == (
        "code",
        "---\ntitle: 会议\ntags:\n  - a\n\n---",
    )
    assert kinds("---\nno yaml\n\n---\ntext")[0] == ("prose", "no yaml")


def test_thematic_breaks_are_no_chunks_but_their_lines_are_covered() -> None:
    assert ranges("a\n\n***\n\nb") == [(1, 4), (5, 5)]
    assert chunk_lines("***\n") == [Chunk(1, 1, "***", "prose")]


def test_lists_that_interrupt_a_paragraph_with_any_number() -> None:
    assert kinds("Steps:\n2. then\n3. last") == [("prose", "Steps:"), ("item", "2. then"), ("item", "3. last")]


def test_html_and_link_definitions_are_text() -> None:
    assert texts("<div>\nnote\n</div>\n\n[a]: http://x.org") == ["<div>\nnote\n</div>", "[a]: http://x.org"]


def test_an_appended_line_leaves_the_other_chunks_as_they_are() -> None:
    before = "# Day\n\n- a\n- b\n\nAnna: hi\nBob: ho\n"
    for more in ("- c\n", "Anna: more\n", "\n## Later\n\ntext\n", "\n```\ncode\n"):
        assert texts(before + more)[:4] == texts(before)[:4]


LINES = st.sampled_from(
    [
        *["", " ", "text", "Anna: hi", "张三：好", "- a", "  - b", "1. x", "2) y", "> q"],
        *["> - r", "# H", "## H2", "===", "---", "```", "~~~~", "    code", "\tcode", "| a | b |"],
        *["|---|---|", "<div>", "<!--", "-->", "[a]: b", "***", "- ", "-", ">", "- ```"],
        *["* * *", "> > > deep", "      - far", "x\r", "\u2028", "\x00", "\ufeff", "+ + + a", "1.", "- - - b"],
        *["\\"],
    ]
)


@given(
    st.one_of(
        st.lists(LINES, max_size=40).map("\n".join),
        st.text(),
        st.binary().map(lambda raw: raw.decode("utf-8", "replace")),
    )
)
@example("---\na: b\n---")
@example("- " * 100 + "\n\ntail\n")
@example(">" * 100 + "\n- tail")
@settings(max_examples=400, deadline=None)
def test_the_chunks_are_a_partition_of_the_lines(text: str) -> None:
    chunks = chunk_lines(text)
    lines = document_lines(text)
    assert covered(chunks) == (list(range(1, len(lines) + 1)) if text.strip() else [])
    for each in chunks:
        assert each.text
        assert each.text == each.text.strip()
        assert each.text in text
    said = "".join("".join(chunk.text.split()) for chunk in chunks)
    kept = "".join("".join(line.split()) for line in lines if set(line) - set("*-_ \t\r"))
    # Only lines of dashes, stars and underscores are in no chunk's text.
    assert [char for char in said if char not in "*-_"] == [char for char in kept if char not in "*-_"]


HOSTILE: dict[str, Callable[[int], str]] = {
    "nested lists": lambda size: "\n".join("  " * min(number, 300) + "- x" for number in range(size // 100)),
    "items on one line": lambda size: "* " * size,
    "quotes on one line": lambda size: ">" * size,
    "deep quotes": lambda size: (">" * 40 + " a\n") * (size // 42),
    "lazy lines below quotes": lambda size: "> > > > > > a\n" + "b\n" * (size // 2),
    "brackets": lambda size: "[" * size,
    "backticks": lambda size: "`" * size,
    "open fences": lambda size: "- ```\n" * (size // 6),
    "underlines": lambda size: "a\n=b\n" * (size // 5),
    "dashes": lambda size: "-\n" * (size // 2),
    "comments": lambda size: "<!--\n" * (size // 5),
    "pipes": lambda size: "|" * (size // 2) + "\n" + "|-" * (size // 4) + "|\n",
    "blank lines in an item": lambda size: "- a\n" + "\n" * size + "  b\n",
    "names": lambda size: ("A" * 39 + "\n") * (size // 40),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_time_in_proportion(name: str) -> None:
    def cost(size: int) -> float:
        text = HOSTILE[name](size)
        before = time.process_time()
        chunk_lines(text)
        return time.process_time() - before

    chunk_lines("warm")
    # Four times the text: four times the work when all is well, sixteen times when it is not. On a busy machine one
    # measurement says little, so a single good one is enough; work that is squared has none.
    assert any(cost(80_000) < 10 * cost(20_000) + 0.05 for _ in range(8))


def test_a_file_of_a_megabyte_that_is_one_line() -> None:
    assert set(ranges("[" * 1_000_000)) == {(1, 1)}


def test_the_parser_is_not_imported_with_the_module(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, clawbot.memory.chunking.chunks; print('markdown_it' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False False\n"


def test_the_settings_say_how_long_chunks_may_be() -> None:
    text = "wrapped words that go on\n" * 8 + "\n```\n" + "code\n" * 20 + "```\n"
    usual = chunk(text, MemorySearchSettings())
    assert [chunk.kind for chunk in usual] == ["prose", "code"]
    small = chunk(text, MemorySearchSettings.model_validate({"chunking": {"piece_chars": 60, "code_chars": 50}}))
    assert max(len(chunk.text) for chunk in small if chunk.kind == "prose") <= 60
    assert max(len(chunk.text) for chunk in small if chunk.kind == "code") <= 50
    assert [line for chunk in small for line in range(chunk.start_line, chunk.end_line + 1)] == list(range(1, 32))
