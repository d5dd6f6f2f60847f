"""Which note is a session's, among thousands."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawbot.agent.notes import MAX_SLUG, NoteError, NoteRequest, find_note, keep_note, rename_note, safe_slug
from clawbot.sessions.entries import MemoryWrite
from clawbot.text.secrets import MARK
from tests.said_secrets import LOOK_ALIKES, SECRETS, SaidSecret

SESSION = "0a1b2c3d-你好"
BEGAN = datetime(2026, 3, 7, 5, 0, tzinfo=UTC).timestamp()


def note(folder: Path, name: str, session: str = SESSION) -> Path:
    path = folder / "memory" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# Session\n\n- **Session ID**: {session}\n", "utf-8")
    return path


@pytest.mark.parametrize("day", ["2026-03-06", "2026-03-07", "2027-01-01"])
def test_a_note_is_found_by_the_id_in_it_whatever_its_name_and_zone(tmp_path: Path, day: str) -> None:
    note(tmp_path, f"{day}-a.md", "another")
    wanted = note(tmp_path, f"{day}-端口-2.md")
    note(tmp_path, f"{day}-z.md", "another")
    assert find_note(tmp_path, SESSION, BEGAN) == f"memory/{wanted.name}"
    assert find_note(tmp_path, "unknown", BEGAN) == ""


def test_notes_of_days_before_the_session_are_not_looked_into(tmp_path: Path) -> None:
    old = note(tmp_path, "2026-03-05-port.md")
    assert find_note(tmp_path, SESSION, BEGAN) == ""
    assert find_note(tmp_path, SESSION, 0.0) == f"memory/{old.name}"


def test_a_note_in_which_another_session_is_spoken_of_is_not_the_note_of_that_one(tmp_path: Path) -> None:
    other = note(tmp_path, "2026-03-07-a.md", "another")
    said = f"## Conversation Summary\n\nuser: what was in {SESSION}?\n"
    other.write_text(f"{other.read_text('utf-8')}\n{said}", "utf-8")
    assert find_note(tmp_path, SESSION, BEGAN) == ""
    wanted = keep_note(tmp_path / "workspace", request_of(f"# Session\n\n{said}"), lambda _write: None)
    assert find_note(tmp_path / "workspace", SESSION, BEGAN) == wanted.path


@pytest.mark.parametrize("since", [-1e17, 1e17])
def test_a_beginning_that_cannot_be_right_breaks_nothing(tmp_path: Path, since: float) -> None:
    note(tmp_path, "2026-03-05-port.md", "another")
    assert find_note(tmp_path, SESSION, since) == ""


AT = datetime(2026, 11, 20, 16, 12, tzinfo=UTC)


def request_of(text: str, slug: str = "api-plan", session: str = SESSION) -> NoteRequest:
    return NoteRequest(session_id=session, since=AT.timestamp() - 60, text=text, slug=slug, at=AT, now=AT.timestamp())


def kept(workspace: Path, text: str = "api", slug: str = "api-plan", session: str = SESSION) -> str:
    return keep_note(workspace, request_of(text, slug, session), lambda _write: None).path


@pytest.mark.parametrize(
    ("slug", "safe"),
    [
        ("API Plan", "api-plan"),
        ("数据备份", "数据备份"),
        ("हिन्दी", "हिन्दी"),
        ("../../etc/passwd", "etc-passwd"),
        ("a/b\\c\0d\n", "a-b-c-d"),
        (".hidden", "hidden"),
        ("\u202egnp.exe", "gnp-exe"),
        ("🌊", ""),
        ("--", ""),
        ("x" * 300, "x" * MAX_SLUG),
        ("字" * 300, "字" * 66),
    ],
)
def test_a_slug_becomes_a_part_of_a_file_name(slug: str, safe: str) -> None:
    assert safe_slug(slug) == safe


def test_without_a_usable_slug_the_note_is_called_by_the_time(tmp_path: Path) -> None:
    assert kept(tmp_path, slug="🌊") == "memory/2026-11-20-1612.md"


def test_a_name_that_is_taken_gets_a_number_also_when_a_note_is_renamed(tmp_path: Path) -> None:
    paths = [kept(tmp_path, session=f"session-{number}-of-three") for number in range(3)]
    assert paths == [f"memory/2026-11-20-api-plan{end}.md" for end in ("", "-2", "-3")]
    other = kept(tmp_path, slug="tea", session="a-fourth-one")
    assert rename_note(tmp_path, other, "API plan") == "memory/2026-11-20-api-plan-4.md"
    assert not (tmp_path / other).exists()
    assert rename_note(tmp_path, paths[0], "api-plan") == paths[0]


@pytest.mark.parametrize(
    "path", ["MEMORY.md", "memory/2026-11-20.md", "memory/../2026-11-20-a.md", "/etc/2026-11-20-a.md"]
)
def test_nothing_but_a_note_of_a_session_is_renamed(tmp_path: Path, path: str) -> None:
    (tmp_path / "memory").mkdir()
    with pytest.raises(NoteError, match="no note of a session"):
        rename_note(tmp_path, path, "other")


def test_a_folder_that_leads_elsewhere_takes_no_note(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "memory").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoteError, match=r"memory is a link or a file, not a folder\. Make it a folder"):
        kept(workspace)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_a_kill_left_of_a_note_is_removed_once_it_is_old(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    old, young = memory / ".2026-11-19-tea.md.x1.tmp", memory / ".2026-11-20-tea.md.x2.tmp"
    own = memory / ".draft.tmp"
    for path, age in ((old, 7_200), (young, 60), (own, 7_200)):
        path.write_text("half a note")
        os.utime(path, (AT.timestamp() - age,) * 2)
    kept(tmp_path)
    assert not old.exists()
    assert young.exists()
    assert own.exists()


def test_a_note_that_has_grown_out_of_all_bounds_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / kept(tmp_path)
    os.truncate(path, 10 * 1024**3)
    with pytest.raises(NoteError, match="is larger than 20 MiB") as caught:
        kept(tmp_path, "something else")
    assert "transcript keeps" in str(caught.value.hint)


def test_a_pipe_with_the_name_of_a_note_is_nobody_s(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    os.mkfifo(tmp_path / "memory" / "2026-11-20-api-plan.md")
    assert kept(tmp_path) == "memory/2026-11-20-api-plan-2.md"


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: secret.secret[:24])
def test_no_note_holds_a_secret_and_each_is_counted(tmp_path: Path, secret: SaidSecret) -> None:
    writes: list[MemoryWrite] = []
    kept = keep_note(tmp_path, request_of(f"# Session\n\nuser: {secret.text}\n"), writes.append)
    note = (tmp_path / kept.path).read_text("utf-8")
    assert secret.secret not in note
    assert MARK in note
    assert [write.secrets for write in writes] == [note.count(MARK)]


def test_what_only_looks_like_a_secret_is_kept_in_a_note(tmp_path: Path) -> None:
    said = "\n".join(f"user: {text}" for text in LOOK_ALIKES)
    assert said in (tmp_path / kept(tmp_path, said)).read_text("utf-8")


def test_a_name_holds_no_secret(tmp_path: Path) -> None:
    path = kept(tmp_path, slug="my password is sunflower42")
    assert path == kept(tmp_path, slug="")
    assert rename_note(tmp_path, path, "the password is sunflower43") == path
    assert rename_note(tmp_path, path, "wifi-sunflower44", {"sunflower44"}) == path
    assert "wifi-router" in rename_note(tmp_path, path, "wifi-router", {"sunflower44"})
