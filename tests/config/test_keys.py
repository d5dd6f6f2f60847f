"""Keys as people write them, and which of them reach the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.config.keys import ACTIONS, KeyMap, UnusableKeyError, is_rare, parse_key, shown_key
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from tests.tables import load_table


@pytest.mark.parametrize(
    ("written", "key", "shown"),
    load_table(__file__, "a_key_is_read_as_people_write_it"),
)
def test_a_key_is_read_as_people_write_it(written: str, key: str, shown: str) -> None:
    assert parse_key(written) == key
    assert shown_key(key) == shown


@pytest.mark.parametrize("written", ["", "+", "ctrl+", "crtl+o", "f25", "ctrl+ctl", "a", "shift+a", "5", "/", "space"])
def test_what_is_no_key_of_an_action_is_refused(written: str) -> None:
    with pytest.raises(UnusableKeyError):
        parse_key(written)


def test_the_default_keys_are_keys_that_can_be_set_and_no_two_actions_share_one() -> None:
    for action in ACTIONS:
        assert tuple(map(parse_key, action.keys)) == action.keys
        assert not all(map(is_rare, action.keys))
    assert list(KeyMap().clashes()) == []


@pytest.mark.parametrize(
    ("key", "rare"),
    [
        *[(key, False) for key in ("ctrl+o", "alt+x", "alt+shift+x", "f5", "ctrl+f5", "ctrl+shift+up", "ctrl+slash")],
        *[(key, True) for key in ("ctrl+shift+o", "ctrl+5", "shift+f5", "super+k", "ctrl+full_stop", "shift+enter")],
    ],
)
def test_keys_that_few_terminals_send_are_known(key: str, rare: bool) -> None:
    assert is_rare(key) is rare


def test_a_key_that_another_action_gave_up_can_be_taken() -> None:
    assert list(KeyMap({"models": ["ctrl+r"], "sessions": ["ctrl+l"]}).clashes()) == []
    assert list(KeyMap({"reasoning": [], "unfold": ["ctrl+t"]}).clashes()) == []
    assert list(KeyMap({"models": ["ctrl+r"]}).clashes()) == [("models", "sessions", "ctrl+r")]


def test_the_two_names_of_one_key_are_one_key() -> None:
    keys = KeyMap({"find": [], "unfold": ["ctrl+slash"], "memory": ["ctrl+underscore"]})
    assert list(keys.clashes()) == [("memory", "unfold", "ctrl+/")]
    assert (keys.for_textual()["unfold"], keys.for_textual()["memory"]) == ("ctrl+underscore,ctrl+slash",) * 2


@pytest.mark.parametrize("nothing", ["none", "null", "[]", ""])
def test_an_action_can_do_without_a_key(nothing: str, tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.config_file.write_text(f"tui: {{keys: {{recall: {nothing}}}}}", encoding="utf-8")
    keys = KeyMap(load_settings(paths).settings.tui.keys)
    assert (keys.keys("recall"), keys.first("recall")) == ([], "")


def test_a_key_that_only_few_terminals_send_is_told_with_its_line(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.config_file.write_text("tui:\n  keys:\n    unfold: ctrl+shift+o\n    memory: [ctrl+shift+f, f7]\n", "utf-8")
    loaded = load_settings(paths)
    assert loaded.notices == (
        f"{paths.config_file}:3: tui.keys.unfold: only terminals with the keyboard protocol of Kitty send "
        "ctrl+shift+o; in others nothing does this",
    )
