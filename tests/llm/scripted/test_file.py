"""Reading scripts: what is taken, and how errors name file, line, key and the nearest valid key."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.llm.scripted import Script, ScriptFileError, load_script, parse_script
from clawbot.llm.scripted.file import Check, Fault, Figures, ScriptedCall, ScriptedText
from tests.llm.cases import read_cases

FILE = Path("talk.yaml")
EXAMPLES = Path(__file__).parents[2] / "scripts"


def turns(text: str) -> Script:
    return parse_script("turns:\n" + text, FILE)


def test_a_whole_turn_is_read() -> None:
    script = parse_script(
        """
model: parrot
window: 32000
turns:
  - name: greeting
    expect:
      user: hello
      system: {matches: "(?i)agent", not: secret}
      tool: [read, {not: shell}]
    reply:
      reasoning: hm
      text: [Hel, {text: lo, after: 0.5}]
      tool_calls:
        - {name: read, arguments: {path: A.md, count: 2}}
        - {name: write, arguments: '{"path": ', id: mine}
      usage: {prompt: 10, completion: 2, cached: 4}
      finish_reason: tool_calls
      fault: {drop: 3}
    repeat: 2
  - reply: done
    repeat: forever
""",
        FILE,
    )

    first, second = script.turns
    assert (script.model, script.window) == ("parrot", 32000)
    assert (first.number, first.line, first.name, first.repeat) == (1, 5, "greeting", 2)
    assert first.checks == (
        Check("user", "contains", "hello", 7),
        Check("system", "matches", "(?i)agent", 8),
        Check("system", "contains", "secret", 8, negated=True),
        Check("tool", "equals", "read", 9),
        Check("tool", "equals", "shell", 9, negated=True),
    )
    assert first.reply.reasoning == (ScriptedText("hm"),)
    assert first.reply.text == (ScriptedText("Hel"), ScriptedText("lo", 0.5))
    assert first.reply.calls == (
        ScriptedCall("read", {"path": "A.md", "count": 2}),
        ScriptedCall("write", '{"path": ', "mine"),
    )
    assert first.reply.figures == Figures(10, 2, 4)
    assert first.reply.finish_reason == "tool_calls"
    assert first.reply.fault == Fault("drop", deltas=3)
    assert (second.reply.text, second.repeat) == ((ScriptedText("done"),), None)


def test_texts_and_arguments_are_what_was_written() -> None:
    arguments = '{on: 2026-01-02, off: no, ok: true, one: 1, text: "1"}'
    script = turns(f"- reply: {{text: [yes, 1.10], tool_calls: [{{name: log, arguments: {arguments}}}]}}")

    assert script.turns[0].reply.text == (ScriptedText("yes"), ScriptedText("1.10"))
    assert script.turns[0].reply.calls[0].arguments == {
        "on": "2026-01-02",
        "off": "no",
        "ok": True,
        "one": 1,
        "text": "1",
    }


@pytest.mark.parametrize(
    ("fault", "read"),
    [
        ("401", Fault("status", status=401)),
        ("{status: 429, retry_after: 2.5, message: Slow}", Fault("status", 429, "Slow", 2.5)),
        ("{overflow: gemini}", Fault("overflow", wording="gemini")),
        ("drop", Fault("drop")),
        ("{stall: 2}", Fault("stall", deltas=2)),
        ("no_finish", Fault("no_finish")),
        ("endless", Fault("endless")),
    ],
)
def test_faults_are_read(fault: str, read: Fault) -> None:
    assert turns(f"- reply: {{fault: {fault}}}").turns[0].reply.fault == read


@pytest.mark.parametrize(("text", "line", "said"), read_cases("scripted/invalid")["turns"])
def test_an_error_names_file_line_and_key(text: str, line: int, said: str) -> None:
    with pytest.raises(ScriptFileError) as caught:
        parse_script(f"turns:{text}", FILE)

    assert str(caught.value).startswith(f"talk.yaml:{line}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(("text", "said"), read_cases("scripted/invalid")["files"])
def test_what_is_no_script_is_said(text: str, said: str) -> None:
    with pytest.raises(ScriptFileError) as caught:
        parse_script(text, FILE)

    assert said in str(caught.value)


def test_arguments_that_hold_themselves_are_refused() -> None:
    with pytest.raises(ScriptFileError, match="refers to itself"):
        turns("- reply: {tool_calls: [{name: x, arguments: &a {b: *a}}]}")


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptFileError, match=r"none\.yaml: can't be read: No such file"):
        load_script(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes("turns: [é]".encode("latin-1"))
    with pytest.raises(ScriptFileError, match=r"latin\.yaml: is not UTF-8"):
        load_script(tmp_path / "latin.yaml")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_example_scripts_are_valid(path: Path) -> None:
    assert load_script(path).turns
