"""The guide keeps its word: every script in it loads, every test in it passes, every error in it is what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clawbot.llm.scripted import ScriptEngine, ScriptFileError, ScriptMismatch, parse_script
from clawbot.llm.scripted.file import FAULT_KEYS, FAULT_WORDS, FILE_KEYS, NAMES, REPLY_KEYS, TURN_KEYS

pytest_plugins = ("pytester",)

GUIDE = Path(__file__).parent.parent.parent / "docs" / "testing-agents.md"
TEXT = GUIDE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
SCRIPTS = [text for kind, text in BLOCKS if kind == "yaml" and text.startswith("turns:")]
TESTS = [text for kind, text in BLOCKS if kind == "python"]
SAID = [text for kind, text in BLOCKS if kind == "text"]


@pytest.mark.parametrize("text", SCRIPTS)
def test_the_scripts_load(text: str) -> None:
    assert parse_script(text, GUIDE).turns


@pytest.mark.long
def test_the_tests_pass(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    for number, text in enumerate(TESTS):
        (pytester.path / f"test_guide_{number}.py").write_text(text, encoding="utf-8")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=len(TESTS))


@pytest.mark.parametrize("key", [*FILE_KEYS, *TURN_KEYS, *REPLY_KEYS, *FAULT_KEYS, *FAULT_WORDS])
def test_every_key_is_explained(key: str) -> None:
    assert re.search(rf"`[^`]*\b{key}\b[^`]*`", TEXT)


@pytest.mark.parametrize("name", NAMES)
def test_every_template_is_explained(name: str) -> None:
    assert f"`{{{{{name}}}}}`" in TEXT


async def test_the_mismatch_is_what_is_said() -> None:
    script = "turns:\n  - reply: ok\n\n  - name: recall\n    expect:\n      user: what do I prefer\n    reply: ok\n"
    engine = ScriptEngine(parse_script(script, Path("talk.yaml")))
    [_ async for _ in engine.reply({"messages": []})]
    with pytest.raises(ScriptMismatch) as caught:
        await anext(engine.reply({"messages": [{"role": "user", "content": "hello?"}]}))

    assert caught.value.message == SAID[0].strip()


def test_the_file_error_is_what_is_said() -> None:
    with pytest.raises(ScriptFileError) as caught:
        parse_script("turns:\n  - reply: ok\n    expect: {usr: x}", Path("talk.yaml"))

    assert str(caught.value) == SAID[1].strip()
