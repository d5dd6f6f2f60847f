"""Setting one key in the user's file: every other character stays, or nothing is written at all."""

from __future__ import annotations

import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.config.edit import set_value, with_value
from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home, shipped
from clawbot.config.source import parse_layer
from clawbot.errors import ClawbotError

KEYS = ("hooks", "entries", "note-it", "enabled")
NESTED = "hooks:\n  entries:\n    note-it:\n      enabled: true\n"


def put(text: str, keys: tuple[str, ...] = KEYS, value: Any = True, *, name: str = "config.yaml") -> str:
    """The text of the file with the key."""
    return with_value(text, Path("/home") / name, keys, value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", NESTED),
        ("# mine\n", "# mine\n" + NESTED),
        ("# mine", "# mine\n" + NESTED),
        ("---\n", "---\n" + NESTED),
        ("tui: {theme: dark}", "tui: {theme: dark}\n" + NESTED),
        ("tui:\n    theme: dark\n", "tui:\n    theme: dark\n" + NESTED.replace("  ", "    ")),
        ("hooks:\n", NESTED),
        (
            "hooks: # all of them\n  # none yet\ntui: {}\n",
            "hooks: # all of them\n  entries:\n    note-it:\n      enabled: true\n  # none yet\ntui: {}\n",
        ),
        (
            "hooks:\n  dirs: [a] # one\n\n  # the end\n\ntui: {}\n",
            "hooks:\n  dirs: [a] # one\n  entries:\n    note-it:\n      enabled: true\n\n  # the end\n\ntui: {}\n",
        ),
        (
            "hooks:\n  entries:\n    a: {enabled: no}   # why\n    # b follows\n    b:\n      x: |\n        text\n\n"
            "tui: {}",
            "hooks:\n  entries:\n    a: {enabled: no}   # why\n    # b follows\n    b:\n      x: |\n        text\n\n"
            "    note-it:\n      enabled: true\ntui: {}",
        ),
        ("hooks: {}\n", "hooks: {entries: {note-it: {enabled: true}}}\n"),
        ("hooks: {# none\n}\n", "hooks: {entries: {note-it: {enabled: true}} # none\n}\n"),
        ("hooks: {dirs: [a, b]} # c\n", "hooks: {dirs: [a, b], entries: {note-it: {enabled: true}}} # c\n"),
        (
            "hooks: {\n  dirs: [a], # c\n}\n",
            "hooks: {\n  dirs: [a],\n  entries: {note-it: {enabled: true}}, # c\n}\n",
        ),
        ("hooks: {entries: }\n", "hooks: {entries: {note-it: {enabled: true}} }\n"),
        ("hooks: ~ # c\n", "hooks: {entries: {note-it: {enabled: true}}} # c\n"),
        ("{}", "{hooks: {entries: {note-it: {enabled: true}}}}"),
        ("hooks: {entries: {note-it: {enabled: 'no'}}}  # c\n", "hooks: {entries: {note-it: {enabled: true}}}  # c\n"),
        (
            'hooks:\n  entries:\n    "note-it": # n\n      enabled: off # e\n      x: 1\n',
            'hooks:\n  entries:\n    "note-it": # n\n      enabled: true # e\n      x: 1\n',
        ),
        (
            "hooks:\n  entries:\n    note-it:\n      enabled: # e\n      x: 1\n",
            "hooks:\n  entries:\n    note-it:\n      enabled: true # e\n      x: 1\n",
        ),
        ("hooks: {internal: {entries: {note-it: {}}}}\n", "hooks: {internal: {entries: {note-it: {enabled: true}}}}\n"),
        (
            "hooks:\n  dirs: &d [a]\n  entries:\n    <<: {a: {enabled: no}}\n    b: {dirs: *d}\n",
            "hooks:\n  dirs: &d [a]\n  entries:\n    <<: {a: {enabled: no}}\n    b: {dirs: *d}\n"
            "    note-it:\n      enabled: true\n",
        ),
        ("hooks: &h\n  dirs: []\n", "hooks: &h\n  dirs: []\n  entries:\n    note-it:\n      enabled: true\n"),
        (
            "hooks:\r\n  dirs: []\r\n",
            "hooks:\r\n  dirs: []\r\n" + NESTED.removeprefix("hooks:\n").replace("\n", "\r\n"),
        ),
        ("tui:\n  theme: dark\n...\n", "tui:\n  theme: dark\n" + NESTED + "...\n"),
    ],
)
def test_where_a_key_goes(before: str, after: str) -> None:
    assert put(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{"hooks": {"entries": {"note-it": {"enabled": true}}}}\n'),
        ("{}", '{"hooks": {"entries": {"note-it": {"enabled": true}}}}'),
        (
            '{\n\t"tui": {"theme": "\\ud83d\\ude00"},\n\t"hooks": {"enabled": true}\n}\n',
            '{\n\t"tui": {"theme": "\\ud83d\\ude00"},\n\t"hooks": {"enabled": true, "entries": '
            '{"note-it": {"enabled": true}}}\n}\n',
        ),
    ],
)
def test_json_stays_json(before: str, after: str) -> None:
    assert put(before, name="config.json") == after


def test_both_spellings_of_a_key_are_one_but_names_are_not() -> None:
    keys = ("hooks", "entries", "session-memory", "llm_slug")
    assert put("hooks: {entries: {session-memory: {llmSlug: on}}}", keys, False) == (
        "hooks: {entries: {session-memory: {llmSlug: false}}}"
    )
    text = "hooks: {entries: {myHook: {enabled: on}}}"
    assert put(text, ("hooks", "entries", "my_hook", "enabled")) == (
        "hooks: {entries: {myHook: {enabled: on}, my_hook: {enabled: true}}}"
    )


@pytest.mark.parametrize("value", ["off", "04:00", "1e5", "null", "", " a: b # c", "日程", 'say "x"', "a\nb", "- x"])
def test_texts_stay_texts(value: str) -> None:
    found = yaml.safe_load(put("", ("hooks", "entries", value or "x", "word"), value))
    assert found == {"hooks": {"entries": {value or "x": {"word": value}}}}


@pytest.mark.parametrize("value", [None, 0, -3, 1.5, 1e20, True, False])
def test_other_values_keep_their_kind(value: Any) -> None:
    layer, _ = parse_layer(put("", ("hooks", "entries", "x", "v"), value), "config.yaml")
    found = layer.data["hooks"]["entries"]["x"]["v"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "hooks: [a]",
        "hooks: 5",
        "hooks:\n  entries: text\n",
        "hooks: {entries: {note-it: {enabled: {}}}}",
        "hooks:\n  entries:\n    note-it:\n      enabled: | # why\n        no\n",
        # What is shared can't be changed in one place alone.
        "hooks: {dirs: [], entries: {a: &a {enabled: false}, note-it: *a}}",
        "hooks: {entries: {a: {enabled: &off false}, note-it: {enabled: *off}}}",
        "hooks:\n  entries:\n    note-it: {enabled: !!str no}\n",
    ],
)
def test_what_is_too_unusual_is_left_to_the_user(text: str) -> None:
    with pytest.raises(ClawbotError) as error:
        put(text)
    assert "hooks: {entries: {note-it: {enabled: true}}}" in error.value.hint


@pytest.mark.parametrize(
    "text", ["- a\n", "just text", "hooks:\n\tdirs: []\n", "a: 1\na: 2\n", "a: [\n", "a: 1\n---\nb: 2\n", "x: \x00"]
)
def test_what_is_no_settings_file_is_an_error_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError):
        put(text)


def test_a_file_with_unknown_keys_can_still_be_changed() -> None:
    assert put("nonsense: 1\n") == "nonsense: 1\n" + NESTED


def test_a_new_file_is_private_and_loads() -> None:
    paths = Paths(find_home())
    set_value(paths.config_file, KEYS, True)
    assert stat.S_IMODE(paths.config_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.home.stat().st_mode) == 0o700
    assert load_settings(paths).settings.hooks.entry("note-it").enabled is True
    set_value(paths.config_file, KEYS, False)
    assert paths.config_file.read_text() == NESTED.replace("true", "false")


def test_links_marks_and_modes_stay(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.yaml"
    target.write_bytes("\ufeff# 设置\r\ntui: {theme: dark}\r\n".encode())
    target.chmod(0o644)
    link = tmp_path / "config.yaml"
    link.symlink_to(target)
    set_value(link, ("hooks", "enabled"), False)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    text = "\ufeff# 设置\r\ntui: {theme: dark}\r\nhooks:\r\n  enabled: false\r\n"
    assert target.read_bytes() == text.encode()


def test_a_file_that_is_refused_is_untouched(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("hooks: [a]\n")
    with pytest.raises(ClawbotError):
        set_value(file, KEYS, True)
    assert (file.read_text(), list(tmp_path.iterdir())) == ("hooks: [a]\n", [file])


def test_a_value_that_stands_there_already_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(NESTED)
    before = file.stat()
    set_value(file, KEYS, True)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_who_writes_at_the_same_time_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    names = [f"hook-{number}" for number in range(8)]
    threads = [threading.Thread(target=set_value, args=(file, ("hooks", "entries", n, "enabled"), True)) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(yaml.safe_load(file.read_text())["hooks"]["entries"]) == names


# A mapping as lines, with comments wherever YAML allows them.
WORDS = st.sampled_from(["hooks", "entries", "note-it", "enabled", "tui", "dirs", "alpha", "beta", "设置"])
VALUES = st.sampled_from(
    [
        "1",
        "true",
        "text",
        '"# no comment"',
        "'it''s'",
        "[a, b]",
        "{x: 1}",
        "{}",
        "",
        "~",
        "|\n{i}  block\n{i}  # text\n",
    ]
)


@st.composite
def mappings(draw: st.DrawFn, depth: int = 0, indent: str = "") -> str:
    """The lines of a block mapping; each comment is `#` and a number that nothing else has."""
    lines: list[str] = []
    step = " " * draw(st.integers(1, 4))
    for key in draw(st.lists(WORDS, min_size=1, max_size=3, unique=True)):
        if draw(st.booleans()):
            lines.append(f"{indent}# c{draw(st.integers(0, 10**6))}")
        comment = f" # c{draw(st.integers(0, 10**6))}" if draw(st.booleans()) else ""
        if depth < 3 and draw(st.booleans()):
            lines += [f"{indent}{key}:{comment}", draw(mappings(depth + 1, indent + step)).removesuffix("\n")]
        else:
            value = draw(VALUES).replace("{i}", indent)
            lines.append(f"{indent}{key}: {value}" if "\n" in value else f"{indent}{key}: {value}{comment}")
        if draw(st.integers(0, 4)) == 0:
            lines.append("")
    return "\n".join(lines) + draw(st.sampled_from(["\n", "\n", "\n\n"]))


def without(text: str, key: tuple[str, ...]) -> Any:
    """The data of `text` without `key` and without mappings that are empty or null because of that."""

    def pruned(data: Any, path: tuple[str, ...]) -> Any:
        if not path or not isinstance(data, dict):
            return None if path and data in ({}, None) else data
        below = {name: item for name, item in data.items() if name != path[0]}
        if len(path) > 1 and path[0] in data:
            inner = pruned(data[path[0]], path[1:])
            if inner:
                below[path[0]] = inner
        return below

    return pruned(parse_layer(text, "config.yaml")[0].data, key)


@settings(max_examples=80, deadline=None)
@given(mappings(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_only_the_key_changes_and_every_comment_survives(text: str, newline: str, value: bool) -> None:
    text = text.replace("\n", newline)
    try:
        new = put(text, value=value)
    except ClawbotError:
        return
    assert parse_layer(new, "config.yaml")[0].data["hooks"]["entries"]["note-it"]["enabled"] is value
    assert without(new, KEYS) == without(text, KEYS)
    assert re.findall(r"#.*", new) == re.findall(r"#.*", text)
    assert set(re.findall(r"\r?\n", new)) <= {newline}
    assert put(new, value=value) == new


@settings(max_examples=80, deadline=None)
@given(mappings(), st.booleans())
def test_few_files_are_refused(text: str, value: bool) -> None:
    data = parse_layer(text, "config.yaml")[0].data
    for key in KEYS[:-1]:
        data = data.get(key) if isinstance(data, dict) else data
    way_is_free = isinstance(data, dict) and not isinstance(data.get("enabled"), dict | list)
    if way_is_free and "|" not in text:
        assert (
            parse_layer(put(text, value=value), "config.yaml")[0].data["hooks"]["entries"]["note-it"]["enabled"]
            is value
        )


def test_keys_of_the_shipped_file_can_be_set_and_one_line_changes() -> None:
    text = shipped("config.yaml").read_text(encoding="utf-8")
    lines = text.splitlines()

    def leaves(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for key, value in data.items():
            if isinstance(value, dict) and value:
                yield from leaves(value, (*path, key))
            elif not isinstance(value, dict | list):
                yield (*path, key)

    sections = parse_layer(text, "config.yaml")[0].data
    for path in leaves({name: sections[name] for name in ("session", "hooks", "tui")}):
        new = put(text, path, "x y").splitlines()
        [changed] = [after for before, after in zip(lines, new, strict=True) if before != after]
        assert changed.strip() == f'{path[-1]}: "x y"'


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_file_that_was_damaged_before_is_never_damaged_more(data: st.DataObject) -> None:
    """Characters that mean something to YAML, in places where nobody expects them."""
    text = (
        "hooks: # c1\n  entries:\n    a: &a {enabled: no} # c2\n    note-it: # c3\n      x: 'it''s' # c4\n"
        "tui: {theme: dark}\n"
    )
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.sampled_from(list("#:-?&*!|>'\"%@`{}[],\t\n \\~<\ufeff\x85"))) + text[at:]
    try:
        new = put(text)
    except ClawbotError:
        return
    assert re.findall(r"# c\d", new) == re.findall(r"# c\d", text)
    assert without(new, KEYS) == without(text, KEYS)
