"""The switches of hooks: over the user's file, private, whole after a kill, and clear when they are damaged."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.config.switches import Switches, adopt, read_switches, switch, trust


@pytest.fixture
def file() -> Path:
    return Paths(find_home()).switches_file


def test_what_was_switched_counts_over_the_users_file_and_says_where_it_comes_from(file: Path) -> None:
    switch(file, "session-memory", on=False)
    switch(file, "a.b c", on=True)
    config = file.parent / "config.yaml"
    config.write_text("hooks: {entries: {session-memory: {enabled: true, messages: 3}}}\n")
    loaded = load_settings(Paths(file.parent))
    entry = loaded.settings.hooks.entry("session-memory")
    assert (entry.enabled, loaded.settings.hooks.entry("a.b c").enabled) == (False, True)
    assert loaded.settings.hooks.entries.session_memory.messages == 3
    origins = loaded.origins
    assert origins["hooks.entries.session-memory.enabled"] == "clawbot hooks enable/disable"
    assert origins["hooks.entries.session-memory.messages"] == f"{config}:1"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_command_line_counts_over_it(file: Path) -> None:
    switch(file, "session-memory", on=False)
    over = {"hooks": {"entries": {"session-memory": {"enabled": True}}}}
    assert load_settings(Paths(file.parent), overrides=over).settings.hooks.entry("session-memory").enabled is True


@pytest.mark.parametrize("text", ["", "{", "[]", '{"enabled": {"x": "yes"}}', "\x00", '{"enabled": ["x"]}'])
def test_a_damaged_file_is_named_and_stays(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"hooks\.json: is damaged") as caught:
        load_settings(Paths(file.parent))
    assert "delete it" in caught.value.hint
    with pytest.raises(ConfigError, match="is damaged"):
        switch(file, "x", on=True)
    assert file.read_text() == text


def test_a_folder_in_its_place_is_told(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"hooks\.json: cannot be read"):
        load_settings(Paths(file.parent))


def test_a_folder_that_takes_no_file_is_told(file: Path) -> None:
    file.parent.write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        switch(file, "x", on=True)


def test_switches_at_the_same_time_are_all_kept(file: Path) -> None:
    threads = [threading.Thread(target=switch, args=(file, f"h{n}"), kwargs={"on": True}) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_switches(file).enabled == {f"h{n}": True for n in range(12)}


def test_what_is_trusted_and_what_is_switched_by_name_stand_side_by_side(file: Path) -> None:
    switch(file, "greet", on=True)
    trust(file, "/home/ada/hooks/lint", "1" * 64)
    trust(file, "/home/ada/hooks/spy", "2" * 64)
    trust(file, "/home/ada/hooks/lint", "3" * 64)
    trust(file, "/home/ada/hooks/spy", None)
    assert read_switches(file) == Switches({"greet": True}, {"/home/ada/hooks/lint": "3" * 64})


def test_only_a_file_in_which_names_alone_decided_adopts(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text('{"enabled": {"lint": true}}')
    assert read_switches(file).trusted is None
    adopt(file, {"/home/ada/hooks/lint": "1" * 64})
    adopt(file, {"/other/hooks/lint": "2" * 64})
    assert read_switches(file) == Switches({"lint": True}, {"/home/ada/hooks/lint": "1" * 64})
