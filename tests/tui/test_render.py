"""From text to lines: cleaning, wrapping, Markdown whole and streamed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.text.interface import InterfaceLanguage, set_language
from clawbot.text.sanitize import BINARY_MARK, StreamCleaner, clean, clean_line, isolate, without_isolates
from clawbot.tui.render.call_titles import CardState, readable, title_words
from clawbot.tui.render.cards import OUTPUT_LINES, NoteHit, ToolItem, take_details
from clawbot.tui.render.items import USER_BAR, MarkdownItem, Page, UserItem
from clawbot.tui.render.lines import StyledSpan, ellipsis, middle, note_link, plain_spans, width_of, wrap
from clawbot.tui.render.markdown import markdown_blocks
from clawbot.tui.render.markdown_blocks import Code, Lexers, MarkdownBlock, MarkdownTable
from clawbot.tui.render.stream import LONG_BLOCK, MarkdownStream
from tests.tables import load_table

SAMPLE = """# Title

Some **bold** text with `code`, memory/2026-10-02.md:14 and https://example.org/a.

- one
- two
  - nested 你好，世界。
- three

3. x
4. y

   more of y

```python
def f(x):
    return "a"
```

| a | b |
|---|--:|
| 中文 | 1 |

> quote
> more

***
end [link](http://a.b)
"""


def shown(blocks: list[MarkdownBlock], width: int = 50) -> list[str]:
    lexers = Lexers()
    lines = []
    for block in blocks:
        lines += [""] if block.gap else []
        lines += [line.text.rstrip() for line in block.lines(width, lexers)]
    return lines


def streamed(text: str, size: int) -> list[MarkdownBlock]:
    stream = MarkdownStream()
    blocks: list[MarkdownBlock] = []
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
        done, _ = stream.flush()
        blocks += done
    return [*blocks, *stream.finish()]


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b]0;title\x07x\x1b]8;;http://evil\x1b\\y", "xy"),
        ("\x1b]52;c;aGk=\x07copied", "copied"),
        ("a\x1bPpayload\x1b\\b\x9b2Jc", "abc"),
        ("bell\x07 null\x00 del\x7f", "bell null del"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("safe\u202eevil\u2066x", "safeevilx"),
        ("\x1b]never closed", "never closed"),
        ("tab\tstays 👩\u200d👧", "tab\tstays 👩\u200d👧"),
        ("ok\n" + "\ufffd" * 12, f"ok\n{BINARY_MARK}"),
        ("few " + "\ufffd" * 11, "few " + "\ufffd" * 11),
    ],
)
def test_what_could_steer_the_terminal_is_taken_out(raw: str, safe: str) -> None:
    assert clean(raw) == safe


@given(st.text(alphabet="ab\x1b[]31m;0\x07\\\r\n\u202e"))
def test_cleaned_text_holds_no_control_character(text: str) -> None:
    assert not set(clean(text)) & set("\x1b\x07\r\u202e")


@given(st.lists(st.sampled_from(["\x1b", "[3", "1m", "x", "\x1b[31m", "]0;t", "\x07", "\n"])))
def test_an_escape_sequence_may_be_cut_anywhere(parts: list[str]) -> None:
    cleaner = StreamCleaner()
    assert "\x1b" not in "".join(cleaner.feed(part) for part in parts)


def test_a_cut_sequence_is_as_clean_as_a_whole_one() -> None:
    cleaner = StreamCleaner()
    assert [cleaner.feed(part) for part in ["a\x1b", "[3", "1mb", "\x1b[0m"]] == ["a", "", "b", ""]


def test_right_to_left_runs_are_isolated_and_copied_without_the_marks() -> None:
    marked = isolate("see שלום עולם here")
    assert marked == "see \u2068שלום עולם\u2069 here"
    assert width_of(marked) == width_of("see שלום עולם here")
    assert without_isolates(marked) == "see שלום עולם here"


def test_one_line_stays_one_line() -> None:
    assert clean_line("a\n\x1b[2J b\t c ") == "a b c"


@pytest.mark.parametrize("width", [8, 13, 40])
@given(text=st.text(alphabet="ab 你好，。（）👩\u200d👧🎉é\n-", max_size=80))
def test_no_line_is_wider_than_the_page_and_nothing_is_lost(width: int, text: str) -> None:
    lines = ["".join(span.text for span in line) for line in wrap([StyledSpan(text)], width)]
    # A mark glued to a wide character may hang over by itself.
    assert all(width_of(line.rstrip()) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_chinese_breaks_between_characters_and_not_before_punctuation() -> None:
    lines = [line[0].text for line in wrap([StyledSpan("我们把端口改了，因为冲突。")], 14)]
    assert lines == ["我们把端口改", "了，因为冲突。"]


def test_words_stay_whole_and_long_ones_are_cut() -> None:
    lines = [line[0].text for line in wrap([StyledSpan("a word abcdefghijklmnop end")], 10)]
    assert lines == ["a word", "abcdefghij", "klmnop end"]


def test_ellipsis_counts_cells() -> None:
    assert ellipsis("你好世界", 6) == "你好…"
    assert ellipsis("short", 6) == "short"


@pytest.mark.parametrize("size", [1, 3, 7, 50, 10_000])
def test_a_streamed_text_looks_like_the_whole_one(size: int) -> None:
    assert shown(streamed(SAMPLE, size)) == shown(markdown_blocks(SAMPLE))


def test_markdown_becomes_lines() -> None:
    assert shown(markdown_blocks("1. a\n2. b\n   - c\n\n> q\n\n| x | n |\n|---|--:|\n| 中 | 1 |")) == [
        "", "1. a", "2. b", "   ◦ c", "", "▎ q", "", "x   n", "──  ─", "中  1",
    ]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "text",
    [
        "```python\n" + "x = 1\n" * 2000 + "```\n\nafter",
        "- item\n" * 1500 + "\nafter",
        "word " * 2000,
        "你好，世界。" * 1500,
        "1. one\n" * 900,
        "\n\n| a | b |\n|---|---|\n" + "| cell one | **two** |\n" * 500 + f"| y | {'x' * 5000} |" + "\nafter",
    ],
    ids=["code", "list", "words", "chinese", "numbers", "table"],
)
def test_a_long_block_is_committed_in_parts_and_loses_nothing(text: str) -> None:
    stream = MarkdownStream()
    blocks: list[MarkdownBlock] = []
    longest = 0
    for at in range(0, len(text), 100):
        stream.feed(text[at : at + 100])
        done, tail = stream.flush()
        blocks += done
        longest = max(longest, sum(len("\n".join(shown([block], 100))) for block in tail))
    blocks += stream.finish()
    # The rule under the head of a table may be longer: it knows all rows.
    words, whole = (
        "".join("".join(shown(part, 100)).replace("─", "").split()) for part in (blocks, markdown_blocks(text))
    )
    assert words == whole
    assert longest < 3 * LONG_BLOCK


def test_the_bar_of_a_quote_goes_through() -> None:
    items = [MarkdownItem(block) for block in markdown_blocks("a\n\n> one\n>\n> two\n\nb")]
    lines = [line.text.strip() for item in items for line in item.lines(Page(40, Lexers()))]
    assert lines == ["", "a", "", "▎ one", "▎", "▎ two", "", "b"]


def test_html_and_rich_markup_stay_visible() -> None:
    assert shown(markdown_blocks("<script>x</script> [bold]no[/bold]")) == ["", "<script>x</script> [bold]no[/bold]"]


def test_links_lead_somewhere_and_only_to_safe_places() -> None:
    spans = [span for span in plain_spans("see memory/2026-10-02.md:14, MEMORY.md#L3 or https://a.b/c.") if span.link]
    assert [span.link for span in spans] == ["note:memory/2026-10-02.md:14", "note:MEMORY.md:3", "https://a.b/c"]
    (block,) = markdown_blocks("[x](javascript:alert) [y](https://ok.example)")
    assert [span.link for span in block.lines(40, Lexers())[0].spans if span.link] == ["https://ok.example"]


WIDE = "| " + " | ".join(f"column {n}" for n in range(9)) + " |\n" + "|---" * 9 + "|\n"
WIDE += 2 * ("| " + " | ".join(f"value {n}" for n in range(9)) + " |\n")
# Markdown, the width, and how its table looks.
TABLES: list[tuple[str, int, list[str]]] = [
    (
        "| name | what |\n|---|---|\n| proxy | passes requests on to the staging servers |\n| b | c |",
        24,
        [
            "name   what",
            "─────  ─────────────────",
            "proxy  passes requests",
            "       on to the staging",
            "       servers",
            "─────  ─────────────────",
            "b      c",
        ],
    ),
    (
        "| a | extraordinary |\n|---|---|\n| a few words of it | x |",
        24,
        ["a          extraordinary", "─────────  ─────────────", "a few      x", "words of", "it"],
    ),
    (
        WIDE,
        40,
        [*(f"column {n}  value {n}" for n in range(9)), "─" * 40, *(f"column {n}  value {n}" for n in range(9))],
    ),
    ("| 名称 | 说明 |\n|---|---|\n| 代理 | 转发请求 |", 12, ["名称  说明", "────  ──────", "代理  转发请", "      求"]),
]


@pytest.mark.parametrize(("text", "width", "lines"), TABLES)
def test_a_table_keeps_its_words_whole(text: str, width: int, lines: list[str]) -> None:
    (table,) = markdown_blocks(text)
    assert [line.text.rstrip() for line in table.lines(width, Lexers())] == lines


def test_a_table_fits_the_page() -> None:
    (table,) = markdown_blocks("| a | b |\n|---|---|\n| " + "long words " * 20 + " | x |")
    assert isinstance(table, MarkdownTable)
    assert all(width_of(line.text) <= 40 for line in table.lines(40, Lexers()))


def test_code_gets_its_colours_when_the_language_is_loaded() -> None:
    lexers = Lexers()
    code = Code("x = 1  # why", "python")
    assert {span.style for span in code.lines(40, lexers)[1].spans} == {"code"}
    assert lexers.wanted == {"python"}
    assert lexers.load()
    assert "code code-comment" in {span.style for span in code.lines(40, lexers)[1].spans}


def test_code_is_shown_in_five_colours_below_a_heading_and_a_table_head_in_the_second_one() -> None:
    lexers = Lexers()
    text = (
        "# H\n\n| a |\n|---|\n| b |\n\n```python\n# c\n@d\ndef f(x: int) -> str:\n    return 'a' if x else None\n```\n"
    )
    markdown_blocks(text)[-1].lines(40, lexers)
    lexers.load()
    styles = {span.style for block in markdown_blocks(text) for line in block.lines(40, lexers) for span in line.spans}
    colours = {"comment", "name", "keyword", "string", "number"}
    assert {f"code code-{colour}" for colour in colours} | {"heading-1", "table-head"} <= styles


@pytest.mark.parametrize("lines", [1, 90, 400])
def test_the_ground_of_code_is_padded_once_above_and_below(lines: int) -> None:
    text = "```\n" + "x = 1\n" * lines + "```\n\nend\n"
    stream, streamed = MarkdownStream(), []
    for at in range(0, len(text), 700):
        stream.feed(text[at : at + 700])
        streamed += stream.flush()[0]
    for blocks in (markdown_blocks(text), [*streamed, *stream.finish()]):
        grounds = [line.text.strip() for block in blocks for line in block.lines(40, Lexers()) if line.fill]
        assert grounds == ["", *["x = 1"] * lines, ""]


def test_an_unknown_language_stays_plain() -> None:
    lexers = Lexers()
    lexers.spans("x", "no-such-language")
    assert not lexers.load()
    assert lexers.spans("x", "no-such-language") == [StyledSpan("x", "code")]


def test_an_unfolded_call_shows_arguments_and_a_capped_output() -> None:
    item = ToolItem("shell", "shell ls", {"command": "ls\x1b[2J"}, "line\n" * 500, state="done", unfolded=True)
    lines = [line.text.strip() for line in item.lines(Page(80, Lexers()))]
    assert "command: ls⟦U+001B⟧[2J" in lines
    assert lines[-1] == "… 302 more lines"
    assert len(lines) == OUTPUT_LINES + 3


def test_an_unfolded_search_shows_its_hits_whole_and_no_json() -> None:
    hits = (
        NoteHit("memory/2026-10-02.md", 3, "# Proxy\n\nstaging proxy moved\x1b[2J to 8443"),
        NoteHit("MEMORY.md", 4, "很长的一行" * 20),
        NoteHit("MEMORY.md", 9, "- short"),
    )
    item = ToolItem("memory_search", "memory_search proxy", {"query": "proxy"}, '{"results":[]}', "3 hits", hits=hits)
    folded = [line.text.strip() for line in item.lines(Page(60, Lexers()))]
    assert [line.split("   ")[0] for line in folded[2:]] == ["memory/2026-10-02.md:3", "MEMORY.md:4", "MEMORY.md:9"]
    assert folded[3].endswith("…")
    item.unfolded = True
    lines = [line.text.strip() for line in item.lines(Page(60, Lexers()))]
    assert lines[2:6] == ["memory/2026-10-02.md:3", "# Proxy", "", "staging proxy moved to 8443"]
    assert "".join(lines[7:-2]) == "很长的一行" * 20
    assert lines[-2:] == ["MEMORY.md:9   short", "query: proxy"]
    assert all(width_of(line.text) <= 60 for line in item.lines(Page(60, Lexers())))


def test_lines_of_a_note_unfold_with_their_numbers_and_no_json() -> None:
    excerpt = NoteHit("memory/2026-10-02.md", 9, "- staging\x1b[2J proxy\n" + "很长的一行" * 12 + "\n- 三")
    item = ToolItem("memory_get", "memory_get memory/2026-10-02.md", {"from": 9}, '{"text":""}', "3 lines")
    item.excerpt, item.notes = excerpt, ("Up to line 11 of 40.",)
    assert len(item.lines(Page(40, Lexers()))) == 2
    item.unfolded = True
    lines = [line.text.strip() for line in item.lines(Page(40, Lexers()))]
    assert lines[2:6] == ["from: 9", "─" * 8, "memory/2026-10-02.md:9", "9  - staging proxy"]
    assert "".join(lines[6:-2]) == "10  " + "很长的一行" * 12
    assert lines[-2:] == ["11  - 三", "Up to line 11 of 40."]
    assert all(width_of(line.text) <= 40 for line in item.lines(Page(40, Lexers())))
    spans = [span for line in item.lines(Page(40, Lexers())) for span in line.spans]
    assert note_link("memory/2026-10-02.md", 9) in [span.link for span in spans]


def test_a_search_without_hits_unfolds_to_what_it_says() -> None:
    item = ToolItem("memory_search", "memory_search x", {"query": "x"}, '{"results":[]}', "no hits", unfolded=True)
    item.notes = ("No hits.", "openai was not used: no key")
    lines = [line.text.strip() for line in item.lines(Page(60, Lexers()))]
    assert lines[2:] == ["query: x", "─" * 8, "No hits.", "openai was not used: no key"]


def test_of_a_long_message_both_ends_are_shown_until_it_is_unfolded() -> None:
    item = UserItem("what is this?\n" + "row\n" * 300 + "x" * 9_000 + " and why?")
    lines = [line.text for line in item.lines(Page(80, Lexers()))]
    assert all(line.startswith(USER_BAR) for line in lines)
    assert len(lines) == 9
    assert lines[1].endswith("what is this?")
    assert lines[4].endswith("▸ … 302 lines, 10,223 characters")
    assert lines[-2].endswith("and why?")
    item.unfolded = True
    assert item.lines(Page(80, Lexers()))[-2].text.endswith("… 2,223 more characters were sent")


def test_a_message_that_fits_does_not_fold() -> None:
    item = UserItem("row\n" * 20)
    assert not item.can_unfold
    assert len(item.lines(Page(80, Lexers()))) == 23


@pytest.mark.parametrize(("width", "texts"), [(40, ["hello"]), (80, ["", "hello", ""])])
def test_the_words_of_the_user_are_on_a_ground_of_their_own(width: int, texts: list[str]) -> None:
    lines = UserItem("hello").lines(Page(width, Lexers()))
    assert [line.text.removeprefix(USER_BAR) for line in lines] == texts
    assert {line.fill for line in lines} == {"user"}
    assert all("user" in span.style.split() for line in lines for span in line.spans)


def test_words_of_a_pattern_stand_for_it_on_a_card() -> None:
    made = r"the[\W_]*flight[\W_]*TP1234|(?:^|[^A-Za-z])(?:dog|cat)|宠物"
    call = ToolItem("grep", f"grep {made}", {"pattern": made, "glob": "*.md"}, "x", "2 matches", "done")
    assert call.lines(Page(100, Lexers()))[1].text.startswith("   ✓ Searched notes: the flight TP1234, dog, cat, 宠物 ")
    assert readable(r"def \w+_test\(") == r"def \w+_test\("


@pytest.mark.parametrize(
    ("state", "summary", "language", "line"),
    load_table(__file__, "a_card_tells_its_state_in_the_language_of_the_interface"),
)
def test_a_card_tells_its_state_in_the_language_of_the_interface(
    state: CardState, summary: str, language: InterfaceLanguage, line: str
) -> None:
    set_language(language)
    item = ToolItem("edit", "edit a.md", {}, None, summary, state, 3_400)
    assert re.sub("(?<=\\S) +", " ", item.lines(Page(60, Lexers()))[1].text + " ") == line


def test_a_hit_in_a_conversation_is_named_by_who_said_it_and_when() -> None:
    said = {"who": "user", "at": "2026-11-25T22:02+00:00", "entry": "e"}
    found = {"path": "sessions/7e383cf3.jsonl", "startLine": 2, "snippet": "User: the port", "said": said}
    item = ToolItem("memory_search", "memory_search port", {}, "{}", "1 hit", "done")
    take_details(item, {"results": [found, {"path": "memory/a.md", "startLine": 3, "snippet": "b"}]})
    rows = [line.text.strip() for line in item.lines(Page(80, Lexers()))[2:]]
    assert rows == ["You, Wed 25 Nov 22:02   User: the port", "memory/a.md:3   b"]


@pytest.mark.parametrize(
    ("name", "output", "summary", "shown"),
    [
        ("read", "missing.md does not exist.\nTry list.", "failed", ["missing.md does not exist."]),
        ("shell", "Unknown argument `cwd`.\x1b[2J", "failed", ["Unknown argument cwd."]),
        ("shell", "\n1 passed\nKeyError: 'x'\n\n[exit 1]", "exit 1", ["KeyError: 'x'"]),
        ("shell", "[no output; exit 2]", "exit 2", []),
        ("mcp__x", "", "failed", []),
        ("read", "word " * 100, "failed", [("word " * 11).strip()] * 2),
    ],
)
def test_a_failed_card_shows_why(name: str, output: str, summary: str, shown: list[str]) -> None:
    item = ToolItem(name, name, {}, output, summary, "failed", 3)
    rows = [line.text.strip() for line in item.lines(Page(60, Lexers()))[2:]]
    assert [row[: len(shown[0])] for row in rows] == shown if shown else rows == []


@pytest.mark.parametrize(
    ("title", "language", "words"),
    [
        ("list", "en", "Listed the workspace"),
        ("list .", "zh", "列出了 工作区"),
        ("list src", "en", "Listed src"),
    ],
)
def test_a_list_of_no_named_folder_is_that_of_the_workspace(
    title: str, language: InterfaceLanguage, words: str
) -> None:
    set_language(language)
    assert title_words("list", title, {}, "done") == words


def test_a_list_by_a_pattern_names_that() -> None:
    assert title_words("list", "list", {"pattern": "memory/*.md"}, "done") == "Listed memory/*.md"


def test_the_conversation_before_this_one_is_named_in_words() -> None:
    assert title_words("sessions_read", "sessions_read last", {}, "running") == "Reading the last conversation"
    set_language("zh")
    assert title_words("sessions_read", "sessions_read last", {}, "done") == "读取 上次的会话"


def test_a_change_stands_unfolded_with_the_numbers_of_its_lines() -> None:
    diff = "--- a\n+++ a\n@@ -9,3 +9,3 @@\n same\n-old\n+new\n@@ -80,0 +81 @@\n+" + "x" * 60
    item = ToolItem("edit", "edit a", {}, "Edited.", "+2 -1", "done", diff=diff)
    lines = item.lines(Page(40, Lexers()))
    assert [line.text[5:13].rstrip() for line in lines[2:]] == [
        " 9   sam", "10 - old", "10 + new", " ⋮", "81 + xxx", "   + xxx",
    ]  # fmt: skip
    assert [line.fill for line in lines[2:]] == ["", "diff-removed", "diff-added", "", "diff-added", "diff-added"]
    long = ToolItem("write", "write a", {}, "", "", "done", diff="@@ -0,0 +1,90 @@\n" + "+row\n" * 90)
    assert long.lines(Page(40, Lexers()))[-1].text.strip() == "… 78 more lines"
    long.unfolded = True
    assert len(long.lines(Page(40, Lexers()))) == 92


def test_a_running_command_shows_the_end_of_what_it_has_printed() -> None:
    item = ToolItem("shell", "shell make", {"command": "make"})
    item.printed("".join(f"row {number}\x1b[2J\n" for number in range(30)))
    item.printed("half")
    assert [line.text.strip() for line in item.lines(Page(60, Lexers()))[2:]] == [
        *(f"row {n}" for n in range(26, 30)),
        "half",
    ]
    item.state = "done"
    assert len(item.lines(Page(60, Lexers()))) == 2


def test_a_task_is_ticked_a_source_ends_its_quote_and_code_names_its_language() -> None:
    text = "- [x] done\n- [ ] open\n\n> a fact\n>\n> — `a.md:4`\n\n```bash\n    " + "word " * 12 + "\n```"
    assert shown(markdown_blocks(text), 40) == [
        "", "☑ done", "☐ open", "", "▎ a fact", "▎ — a.md:4", "", " " * 35 + "bash",
        "     word word word word word word word", "       word word word word word", "",
    ]  # fmt: skip


def test_western_punctuation_does_not_begin_a_line_of_chinese() -> None:
    lines = ["".join(span.text for span in line) for line in wrap([StyledSpan("我能记住,也能处理文件;好")], 8)]
    assert not any(line.startswith((",", ";")) for line in lines)


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    load_table(__file__, "a_path_is_cut_in_its_middle"),
)
def test_a_path_is_cut_in_its_middle(text: str, width: int, cut: str) -> None:
    assert middle(text, width) == cut
    assert width_of(middle(text, width)) <= max(0, width)


@pytest.mark.parametrize("width", [30, 40, 58])
def test_a_card_cuts_a_path_in_its_middle_and_keeps_its_line(width: int) -> None:
    path = "memory/2026-11-22-dog-summarize-conversation-run-again.md"
    hits = (NoteHit(path, 1033, "- the dog is called Bruno"), NoteHit(path, 7, "- twice\n- as long"))
    search = ToolItem("memory_search", "memory_search dog", {"query": "dog"}, "", "2 notes", "done", hits=hits)
    got = ToolItem("memory_get", f"memory_get {path}", {"path": path}, "", "", "done", excerpt=hits[0], notes=())
    noted = ToolItem("append", f"append {path}", {"path": path}, "", "+1", "done", location=hits[0])
    read = ToolItem("read", f"read {path}", {"path": path}, "", "3 lines", "done")
    for item, ends in ((search, [":1033", ":7"]), (got, [":1033"]), (noted, [":1033"]), (read, [".md"])):
        item.unfolded = item is got
        places = [
            span.text
            for line in item.lines(Page(width, Lexers()))
            for span in line.spans
            if "…" in span.text and ".md" in span.text
        ]
        assert all(width_of(line.text) <= width for line in item.lines(Page(width, Lexers()))[:3])
        assert [end for end in ends if any(place.endswith(end) for place in places)] == ends
