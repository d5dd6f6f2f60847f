"""The file of what was not sent: whatever is kept, dropped, torn or damaged in it, and in whatever order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.messages import UserMessage
from clawbot.sessions.entries import MessageEntry
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.rotation import transcripts_in
from clawbot.sessions.unsent import Unsent, UnsentFile, stored_ids

MAIN = "agent:main:main"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("keep"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("replace"), TEXTS, st.integers(0, 5)),
        st.tuples(st.just("drop"), st.just(""), st.integers(0, 5)),
        st.tuples(st.just("tear"), st.just(""), st.integers(1, 40)),
        st.tuples(st.just("garbage"), TEXTS, st.just(0)),
    ),
    max_size=20,
)


@settings(deadline=None)  # the disk may be busy
@given(STEPS)
def test_what_is_kept_and_not_dropped_stands_there_in_its_order(steps: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        expected: list[Unsent] = []
        for number, (step, text, pick) in enumerate(steps):
            file = UnsentFile(Path(folder), MAIN)  # as a new process has it
            chosen = expected[pick].id if pick < len(expected) else "nobody"
            unsent = Unsent(f"id{number}", text, at=number, draft=number % 3 == 0)
            match step:
                case "keep":
                    file.keep([unsent])
                    expected.append(unsent)
                case "replace":
                    file.keep([unsent], [chosen])
                    expected = [*(each for each in expected if each.id != chosen), unsent]
                case "drop":
                    file.drop([chosen])
                    expected = [each for each in expected if each.id != chosen]
                case "tear" if file.path.exists():
                    # What a crash leaves of a line that was about to be written.
                    torn = b'{"id":"torn","text":"never told of","at":123456789}'
                    file.path.write_bytes(file.path.read_bytes() + torn[: min(pick, len(torn) - 1)])
                case "garbage" if file.path.exists():
                    data = b"\n\xff\xfe" + text.replace("\n", " ").encode() + b"\n"
                    file.path.write_bytes(file.path.read_bytes() + data)
            assert file.read() == expected
            if step == "drop":
                assert file.path.exists() == bool(expected)


def test_it_is_the_users_alone_and_no_transcript(tmp_path: Path) -> None:
    file = UnsentFile(tmp_path, MAIN)
    file.keep([Unsent("a", "密码是 geheim")])
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.name == "main.unsent"
    assert not transcripts_in(tmp_path)


@pytest.mark.parametrize(
    "key", ["agent:main:../../../etc/x", "agent:main:" + "long" * 100, "agent:a:b:c%2f", "agent:main:…"]
)
def test_every_key_has_a_file_of_its_own_in_the_folder(key: str, tmp_path: Path) -> None:
    paths = {UnsentFile(tmp_path, each).path for each in (key, MAIN, key + "x")}
    assert len(paths) == 3
    UnsentFile(tmp_path, key).keep([Unsent("a", "hello")])
    assert [path.parent for path in paths] == [tmp_path] * 3
    assert UnsentFile(tmp_path, key).read() == [Unsent("a", "hello")]


def test_a_disk_that_takes_no_more_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    file = UnsentFile(tmp_path, MAIN)
    file.keep([Unsent("a", "hello")])
    before = file.path.read_bytes()
    write = os.write

    def full(handle: int, data: bytes) -> int:
        if len(data) > 3:
            return write(handle, data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SessionStoreError, match="No space left"):
        file.keep([Unsent("b", "more")])
    monkeypatch.undo()
    assert file.path.read_bytes() == before


def test_what_a_transcript_holds_is_known_by_its_id() -> None:
    texts = [Unsent("a", "same words"), Unsent("b", "same words"), Unsent("c", "others")]
    entries = [MessageEntry(message=UserMessage("same words", unsent_id=ident)) for ident in ("b", "z")]
    assert stored_ids(texts, [*entries, MessageEntry(message=UserMessage("others"))]) == {"b"}
