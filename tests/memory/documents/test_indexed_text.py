"""Which lines of a document are knowledge, and that all others keep their numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.config.paths import shipped
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.languages.tables import table
from clawbot.memory.chunking.document_chunks import chunks_of
from clawbot.memory.documents.indexed_text import count_notes, indexed_text, indexing_rule
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.store.records import Profile
from clawbot.memory.values import Source
from clawbot.text.statements import is_refusal
from tests.tables import load_table

TEMPLATE = (shipped("workspace_template") / "MEMORY.md").read_text()
LINES = MemorySearchSettings()

OLD_NOTE = """# Session: 2026-11-22 09:00

- **Session Key**: agent:main:main
- **Session ID**: 0b5ce1de-0000
- **Reason**: daily

## Conversation Summary

user: the launch is on 5 May

assistant: Noted, 5 May it is.
> - a plan
>
> > the draft: dear Anna

user: what is my dog's name?

assistant: Your notes say:
>
> > my dog is called Bruno
> >
> > — `memory/2026-11-20.md:4`

assistant: I run offline, without a language model, so I can't answer that, and your notes hold nothing on it (I looked
"""
NEW_NOTE = """# Session: 2026-11-20 23:10 – 2026-11-21 00:40 (Europe/Berlin)

- **Session Key**: agent:main:main
- **Session ID**: 0b5ce1de-1111
- **Source**: /new

## Conversation Summary

23:10 user: the cat is called Mia

2026-11-21 00:12 assistant: I found nothing on that. I looked in MEMORY.md for: cat.

00:20 assistant: [quoted: memory/2026-11-20.md:4]

00:40 assistant: I don't have any notes about the cat.

00:41 assistant: Noted in `memory/2026-11-20.md`:
>
> [quoted: memory/2026-11-20.md]
"""


def document(text: str, path: str = "memory/a.md", source: Source = "memory") -> Document:
    return Document(FileState(path, source, len(text), 1), text, b"", None)


def said(text: str, path: str = "memory/a.md", source: Source = "memory") -> list[str]:
    shown = indexed_text(document(text, path, source))
    assert shown.count("\n") == text.count("\n")
    return [line for line in shown.split("\n") if line]


def places(text: str, path: str = "memory/a.md") -> list[tuple[int, str]]:
    return [(chunk.start_line, chunk.text) for chunk in chunks_of(document(text, path), LINES)]


@pytest.mark.parametrize("path", ["MEMORY.md", "memory.md"])
def test_a_template_that_nobody_edited_says_nothing(path: str) -> None:
    assert said(TEMPLATE, path) == []
    assert places(TEMPLATE, path) == []
    assert said(TEMPLATE.replace("\n", "\n\n"), path) == []


def test_what_is_written_into_a_template_counts_under_its_heading() -> None:
    text = TEMPLATE.replace("## Preferences\n", "## Preferences\n\n- tabs over spaces\n")
    assert places(text, "MEMORY.md") == [(6, "## Preferences"), (8, "- tabs over spaces")]


def test_an_edited_line_of_a_template_counts() -> None:
    text = TEMPLATE.replace("Replace what has changed.", "Replace what has changed, Anna said.")
    assert said(text, "MEMORY.md") == [text.split("\n")[0], "Replace what has changed, Anna said."]


def test_the_same_words_in_another_file_are_the_users() -> None:
    assert said(TEMPLATE, "memory/2026-11-20.md") == [line for line in TEMPLATE.split("\n") if line]
    assert said(TEMPLATE, "sub/MEMORY.md") == said(TEMPLATE)


def test_empty_quotes_are_blank() -> None:
    assert said("> a\n>\n> >\n  > > >  \n> b\n>c\n") == ["> a", "> b", ">c"]


# What outliners keep beside a line, and what people write.
BESIDE = load_table(__file__, "BESIDE")
SAID = load_table(__file__, "SAID")


@pytest.mark.parametrize("line", BESIDE)
def test_what_outliners_keep_beside_a_line_is_blank(line: str) -> None:
    text = f"- Watered the roses\n{line}\n  today :END: x::\n"
    assert indexed_text(document(text)) == "- Watered the roses\n\n  today :END: x::\n"


@pytest.mark.parametrize("line", SAID)
def test_what_looks_like_it_stays(line: str) -> None:
    text = f"{line}\n  id:: 1\n"
    assert indexed_text(document(text)) == f"{line}\n\n"


def test_the_head_of_a_note_is_its_first_line() -> None:
    assert said(NEW_NOTE) == [
        "# Session: 2026-11-20 23:10 – 2026-11-21 00:40 (Europe/Berlin)",
        "23:10 user: the cat is called Mia",
    ]


def test_refusals_and_quotes_of_notes_are_left_out_of_a_note_and_nothing_else() -> None:
    assert places(OLD_NOTE) == [
        (1, "# Session: 2026-11-22 09:00"),
        (9, "user: the launch is on 5 May"),
        (11, "assistant: Noted, 5 May it is."),
        (12, "> - a plan"),
        (14, "> > the draft: dear Anna"),
        (16, "user: what is my dog's name?"),
    ]


def test_a_note_with_a_mark_in_place_of_facts_is_one() -> None:
    text = "<!-- session 0b5c -->\n\n# Talk\n\nuser: hello otter\n\nassistant: I can't find that in your notes.\n"
    assert said(text) == ["# Talk", "user: hello otter"]


def test_a_note_that_was_continued_has_a_second_head() -> None:
    assert said(f"{OLD_NOTE}\n{NEW_NOTE}")[-2:] == said(NEW_NOTE)


@pytest.mark.parametrize("source", ["memory", "sessions"])
def test_only_in_notes_of_sessions_are_such_lines_left_out(source: Source) -> None:
    text = "- **Source**: the radio\n\n## Conversation Summary\n\nassistant: I found nothing on that.\n"
    assert said(text, source=source) == [line for line in text.split("\n") if line]


@pytest.mark.parametrize("profile", ["lines", "classic"])
def test_both_profiles_know_the_same(profile: Profile) -> None:
    found = chunks_of(document(OLD_NOTE), MemorySearchSettings(profile=profile))
    text = "\n".join(chunk.text for chunk in found)
    assert "Session ID" not in text
    assert "Bruno" not in text
    assert "the launch is on 5 May" in text


def test_what_the_offline_model_can_not_answer_is_known_as_such() -> None:
    keys = """
    not_found refused unclear no_alarm blamed chat missing forget_here
    no_tool tool_failed search_failed told_nothing forget
    fact_too_long statement secret remember_what help hello thanks praise agreed bye
    """
    replies = [table(language, "replies") for language in ("en", "zh")]
    told = [each[key].format_map(_Anything()) for key in keys.split() for each in replies]
    assert [text for text in told if not is_refusal(text)] == []


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "a_short_text_that_only_refuses_is_a_refusal"),
)
def test_a_short_text_that_only_refuses_is_a_refusal(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "an_answer_is_none"),
)
def test_an_answer_is_none(text: str) -> None:
    assert not is_refusal(text)


def test_the_rule_is_one_text_that_fits_into_an_identity() -> None:
    assert indexing_rule() == indexing_rule()
    assert " " not in indexing_rule()


@settings(deadline=None)
@given(st.text(alphabet="#>-*: \nauserit`[]", max_size=200), st.sampled_from(["MEMORY.md", "memory/a.md"]))
def test_no_text_changes_its_lines(text: str, path: str) -> None:
    for head in ("", "- **Session ID**: x\n\n"):
        whole = head + text
        shown = indexed_text(document(whole, path)).split("\n")
        lines = whole.split("\n")
        assert len(shown) == len(lines)
        assert all(after in ("", before) for before, after in zip(lines, shown, strict=True))
        for chunk in chunks_of(document(whole, path), LINES):
            assert lines[chunk.start_line - 1].strip()
            assert chunk.text.split("\n")[0] == lines[chunk.start_line - 1].strip() or chunk.text in whole


class _Anything(dict[str, object]):
    def __missing__(self, key: str) -> object:
        return 7 if key in ("size", "limit", "count") else "x"


def write(path: Path, text: str = "- text\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_is_no_note_and_neither_is_a_template(tmp_path: Path) -> None:
    assert count_notes(tmp_path / "nowhere") == 0
    write(tmp_path / "MEMORY.md", TEMPLATE)
    assert count_notes(tmp_path) == 0


@pytest.mark.parametrize("name", ["MEMORY.md", "memory.md"])
def test_what_stays_true_is_one_note_once_something_stands_there(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, TEMPLATE.replace("## Facts\n", "## Facts\n\n- otter\n"))
    assert count_notes(tmp_path) == 1


def test_what_is_hidden_or_no_markdown_does_not_count(tmp_path: Path) -> None:
    for name in ("a.md", "sub/b.MD", "c.markdown", ".trash/d.md", ".e.md", "node_modules/f.md", "g.txt", "h.md/i.md"):
        write(tmp_path / "memory" / name)
    assert count_notes(tmp_path) == 4
