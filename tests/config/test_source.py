"""Reading files: YAML 1.2, JSON, lines, duplicates, and everything that is no settings file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.errors import ConfigError, read_text
from clawbot.config.source import Layer, dotted, parse_layer, read_layer


def parse(text: str) -> Layer:
    layer, problems = parse_layer(text, "f.yaml")
    assert problems == []
    return layer


def test_values_by_the_rules_of_yaml_1_2() -> None:
    layer = parse(
        "a: off\nb: 04:00\nc: yes\nd: 012\ne: 1e3\nf: 2026-01-01\ng: true\nh: ~\ni:\nj: -5\nk: .5\nl: 1_000\nm: '1'\n"
    )
    assert layer.data == {
        "a": "off", "b": "04:00", "c": "yes", "d": "012", "e": 1000.0, "f": "2026-01-01", "g": True, "h": None,
        "i": None, "j": -5, "k": 0.5, "l": "1_000", "m": "1",
    }  # fmt: skip


def test_every_path_knows_its_line() -> None:
    layer = parse("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n")
    lines = {dotted(path): mark.position for path, mark in layer.marks.items()}
    assert lines == {
        "a": "f.yaml:1", "a.b": "f.yaml:2", "a.c": "f.yaml:3", "a.c[0]": "f.yaml:4", "a.c[1]": "f.yaml:5",
        "a.c[1].d": "f.yaml:5",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "{}"])
def test_an_empty_file_has_no_settings(text: str) -> None:
    assert parse(text).data == {}


def test_anchors_and_merge_keys_work_and_own_keys_win() -> None:
    layer = parse("x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\n")
    assert layer.data["y"] == {"a": 1, "b": 3}


def test_a_key_written_twice_is_named_with_both_lines_and_the_first_counts() -> None:
    layer, problems = parse_layer("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", "f.yaml")
    assert [str(problem) for problem in problems] == [
        "f.yaml:5: a: is written twice, first in line 1",
        "f.yaml:4: b.c: is written twice, first in line 3",
    ]
    assert layer.data == {"a": 1, "b": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\nb: 2\n", "f.yaml:2: broken YAML"),
        ('a: "1\nb: 2\n', "broken YAML"),
        ("a: 1\n\tb: 2\n", "f.yaml:2: broken YAML"),
        ("a: 1\n b: 2\n", "f.yaml:2: broken YAML"),
        ("a: b: c", "f.yaml:1: broken YAML"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2: broken YAML"),
        ("a: *nothing", "f.yaml:1: broken YAML"),
        ("ok: 1\na: \x01", r"f.yaml:2: broken YAML: the character U\+0001"),
        ("- 1", "f.yaml:1: expected keys with values"),
        ("word", "f.yaml:1: expected keys with values"),
        ("a: &x [*x, *x]", "refers to itself"),
        ("a: &x {<<: *x, b: 1}\nc: &y [*y]", "refers to itself"),
        ("[" * 2000, "broken YAML"),
        ("[" * 100_000, "lists and mappings"),
        ("a: [[[" + "\n".join(f"  &a{i} [*a{i - 1}, *a{i - 1}]," for i in range(1, 3)), "broken YAML"),
    ],
)
def test_what_is_no_settings_file_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_layer(text, "f.yaml")


def test_aliases_that_multiply_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigError):
        parse_layer("\n".join(lines), "f.yaml")


def test_tags_and_strange_keys_are_problems() -> None:
    _, problems = parse_layer("a: !!python/object:os.system x\n? [b]\n: 1\nc: !foo y\n", "f.yaml")
    assert [problem.position for problem in problems] == ["f.yaml:1", "f.yaml:2", "f.yaml:4"]


def test_broken_yaml_does_not_repeat_the_line_which_may_hold_a_key() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_layer('api_key: "topsecretvalue\nb: 1', "f.yaml")
    assert "topsecret" not in str(caught.value)


def test_json_as_other_programs_write_it(tmp_path: Path) -> None:
    data = {"a": {"b": "😀 \\ud83d \t", "c": [1, 2.5, True, None, "off"]}, "e": "\\"}
    file = tmp_path / "c.json"
    for indent in (None, 2, "\t"):
        file.write_text(json.dumps(data, indent=indent))
        layer, problems = read_layer(file)
        assert (layer.data, problems) == (data, [])


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("a: 1\nb: ü\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: is not UTF-8"):
        read_text(latin)
    with pytest.raises(ConfigError, match="is a folder"):
        read_text(tmp_path)
    with pytest.raises(ConfigError, match="larger than"):
        read_text(latin, limit=3)
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_text(latin / "below-a-file")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_text(Path("a\0b"))


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "windows.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    layer, _ = read_layer(file)
    assert layer.data == {"a": 1, "b": 2}
    assert layer.marks["b",].position == f"{file}:2"


def data_or_error(text: str, name: str) -> dict[str, Any] | str:
    """The data of a file, or what is said of it."""
    try:
        return parse_layer(text, name)[0].data
    except ConfigError as error:
        return str(error)


@given(st.text(alphabet="ab:-[]{}\"'&*!?#|>%@` \n\t~0.1<=\\,"))
def test_any_text_is_data_or_a_clear_error(text: str) -> None:
    found = data_or_error(text, "f.yaml")
    assert isinstance(found, dict) or found.startswith("f.yaml")


def test_json_with_comments_trailing_commas_and_bare_keys_is_read_with_its_lines() -> None:
    text = (
        '// first\n{\n\ta:1, // one\n  \'b\\\'s\': \'say "hi" \\q \\u00e9\', /* // no\n end " of it */ "u":"http://x//y#z",\n'
        '  "list": [1, 2,],\n  $d: "/* kept */ // kept \\ud83d\\ude00",\n  "off": "off",\n}\n'
    )
    for name in ("c.json", "c.json5", "c.jsonc"):
        layer, problems = parse_layer(text, name)
        assert problems == []
        assert layer.data == {
            "a": 1, "b's": 'say "hi" q é', "u": "http://x//y#z", "list": [1, 2], "$d": "/* kept */ // kept 😀",
            "off": "off",
        }  # fmt: skip
        assert {str(path[0]): mark.position.rpartition(":")[2] for path, mark in layer.marks.items()} == {
            "a": "3", "b's": "4", "u": "5", "list": "6", "$d": "7", "off": "8",
        }  # fmt: skip


def test_broken_json_with_comments_names_its_line() -> None:
    with pytest.raises(ConfigError, match=r"c\.json:3: broken YAML"):
        parse_layer('{\n  // [ {\n  "a": [1}\n}\n', "c.json")


@given(st.text(alphabet="ab:/*{}[]\"'\\#, \n\tu$1", max_size=40))
def test_any_text_of_json_is_data_or_a_clear_error(text: str) -> None:
    found = data_or_error(text, "f.json")
    assert isinstance(found, dict) or found.startswith("f.json")
