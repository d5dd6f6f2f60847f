"""Keys in $CLAWBOT_HOME/.env."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.config.env import load_env, read_env, save_key
from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return Paths(tmp_path / "home")


def test_no_file_is_no_error(paths: Paths) -> None:
    assert load_env(paths) == ({}, ())


def test_variables_are_set_where_the_environment_has_none(paths: Paths) -> None:
    paths.home.mkdir()
    paths.env_file.write_text("# keys\nexport FIRST_KEY='one'\nSECOND_KEY=two # a word\nEMPTY\nTHIRD=$FIRST_KEY\n")
    os.environ["SECOND_KEY"] = "already"
    assert list(load_env(paths).values) == ["FIRST_KEY", "THIRD"]
    assert (os.environ["FIRST_KEY"], os.environ["SECOND_KEY"], os.environ["THIRD"]) == ("one", "already", "$FIRST_KEY")


# Lines that are no variables, as editors, shells and people leave them.
BAD_LINES = (
    b"sk-secret is my key",
    b"sk-secret",
    b"KEY 'sk-secret'",
    b'KEY="sk-secret',
    b"set KEY = 'sk-secret",
    b"KEY: sk-secret",
    "\u5bc6\u94a5\uff1ask-secret".encode(),
    b"KEY=sk-secret\xff",
    b"KEY=sk-\x00secret",
    b'$env:KEY="sk-secret"',
    b"$KEY=sk-secret",
    b"- KEY=sk-secret",
    b"{KEY=sk-secret}",
    b"KEY\x00=sk-secret",
)


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_line_that_is_no_variable_costs_that_line_and_is_named_without_its_text(paths: Paths, line: bytes) -> None:
    paths.home.mkdir()
    paths.env_file.write_bytes(b"A_KEY=1\n" + line + b"\nB_KEY=2\n")
    found = load_env(paths)
    assert (found.values, found.lines) == ({"A_KEY": "1", "B_KEY": "2"}, (2,))
    assert found.notices(paths.env_file) == [f"{paths.env_file}: line 2 is left out: expected NAME=value"]


# Whole files, and the lines that are left out.
FILES: dict[str, tuple[str, list[int]]] = {
    "blank lines above": ("A=1\n\n\nno value here\n\n \nB=2\nnor here\n", [4, 8]),
    "comments above": ("# a\n\n# b\n\n  nothing\n# c\nA=1\n", [5]),
    "a file of another program": ("[section]\nA = 1\nkey: value\n- item\n", [1, 3, 4]),
    "prose": ("Dear diary\n" * 20, [*range(1, 21)]),
    "shell": ("if [ -f x ]; then\nexport A=1\nfi\nexport A\nsource other.env\n", [1, 3, 5]),
    "PowerShell": ('$env:A = "1"\r\n\r\n$env:B = "2"\r\nC=3\r\n', [1, 3]),
    "nothing wrong": ("A=1\n\nexport B=2\n# c\n", []),
}


@pytest.mark.parametrize("name", FILES)
def test_lines_that_are_left_out_are_one_notice_with_their_numbers(paths: Paths, name: str) -> None:
    text, lines = FILES[name]
    paths.home.mkdir()
    paths.env_file.write_text(text, newline="")
    found = read_env(paths)
    assert list(found.lines) == lines
    shown = ", ".join(map(str, lines[:12])) + (", …" if len(lines) > 12 else "")
    are = "line {} is" if len(lines) == 1 else "lines {} are"
    said = f"{paths.env_file}: {are.format(shown)} left out: expected NAME=value"
    assert found.notices(paths.env_file) == ([said] if lines else [])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_file_that_windows_wrote_is_read_and_keeps_its_lines(paths: Paths, encoding: str) -> None:
    paths.home.mkdir()
    paths.env_file.write_bytes("A_KEY=1\r\nB_KEY=密\r\n".encode(encoding))
    assert load_env(paths) == ({"A_KEY": "1", "B_KEY": "密"}, ())
    save_key(paths, "C_KEY", "3")
    assert list(read_env(paths).values) == ["A_KEY", "B_KEY", "C_KEY"]


def test_a_file_that_cannot_be_read_is_a_clear_error(paths: Paths) -> None:
    paths.env_file.mkdir(parents=True)
    with pytest.raises(ConfigError, match="is a folder"):
        load_env(paths)
    with pytest.raises(ConfigError, match="is a folder"):
        save_key(paths, "A_KEY", "value")


def test_a_saved_key_is_private_and_works_at_once(paths: Paths) -> None:
    save_key(paths, "A_KEY", " value\n")
    assert paths.env_file.stat().st_mode & 0o777 == 0o600
    assert paths.home.stat().st_mode & 0o777 == 0o700
    assert os.environ.pop("A_KEY") == "value"
    assert list(load_env(paths).values) == ["A_KEY"]


def test_a_file_that_others_may_read_becomes_private(paths: Paths) -> None:
    paths.home.mkdir()
    paths.env_file.write_text("B=1\n")
    paths.env_file.chmod(0o644)
    save_key(paths, "A_KEY", "value")
    assert paths.env_file.stat().st_mode & 0o777 == 0o600


def test_what_else_is_in_the_file_stays(paths: Paths) -> None:
    paths.home.mkdir()
    paths.env_file.write_text("# mine\nA_KEY=old\n\nB='x\ny' # why\nnot a line\nexport A_KEY=older\nC=3")
    save_key(paths, "A_KEY", "new")
    save_key(paths, "D_KEY", "4")
    assert paths.env_file.read_text() == "# mine\nA_KEY='new'\n\nB='x\ny' # why\nnot a line\nC=3\nD_KEY='4'\n"


@pytest.mark.parametrize("name", ["", "A B", "A=B", "1A", "A\nB", "Ä", "A-B"])
def test_a_name_that_is_none_is_refused(paths: Paths, name: str) -> None:
    with pytest.raises(ConfigError, match="the name of a key"):
        save_key(paths, name, "value")
    assert not paths.env_file.exists()


@pytest.mark.parametrize("value", ["", "  \n", "topsecret\0", "topsecret\ud800"])
def test_a_value_that_cannot_be_kept_is_refused_and_not_repeated(paths: Paths, value: str) -> None:
    with pytest.raises(ConfigError, match="is empty or not text") as caught:
        save_key(paths, "A_KEY", value)
    assert "topsecret" not in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(alphabet="a'\"\\#\n\r $={}`é😀", min_size=1).filter(lambda text: text.strip() != ""))
def test_any_value_comes_back_as_it_was(paths: Paths, value: str) -> None:
    save_key(paths, "BEFORE", "1")
    save_key(paths, "A_KEY", value)
    save_key(paths, "AFTER", "2")
    for name in ("A_KEY", "BEFORE", "AFTER"):
        del os.environ[name]
    load_env(paths)
    assert (os.environ["A_KEY"], os.environ["BEFORE"], os.environ["AFTER"]) == (value.strip(), "1", "2")
