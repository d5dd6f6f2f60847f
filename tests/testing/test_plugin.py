"""The fixture `scripted_llm` for those who have clawbot and test their own agents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from clawbot.errors import ClawbotError
from clawbot.llm.protocol import ChatRequest, FinalPart
from clawbot.messages import UserMessage
from tests.tables import load_table

HELLO = {"messages": [{"role": "user", "content": "hello"}]}

pytest_plugins = ("pytester",)

INNER = """
import httpx
import pytest

urls = []

def ask(url, **options):
    body = {"messages": [{"role": "user", "content": "hello"}]}
    return httpx.post(url + "/chat/completions", json=body, trust_env=False, **options)

def test_followed(scripted_llm):
    ask(scripted_llm([{"reply": "ok"}]).serve())

def test_unmet(scripted_llm):
    ask(scripted_llm([{"expect": {"user": "tabs"}, "reply": "ok"}]).serve())

def test_left_over(scripted_llm):
    ask(scripted_llm([{"reply": "ok"}, {"reply": "more"}]).serve())

def test_never_asked(scripted_llm):
    scripted_llm([{"reply": "ok"}])

def test_played_elsewhere(scripted_llm):
    scripted_llm([{"reply": "ok"}]).ref

def test_stalled(scripted_llm):
    urls.append(scripted_llm([{"reply": {"fault": "stall"}}]).serve())
    with pytest.raises(httpx.ReadTimeout):
        ask(urls[0], timeout=0.2)

def test_server_is_gone():
    with pytest.raises(httpx.ConnectError):
        ask(urls[0])
"""


def test_it_imports_next_to_nothing() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import clawbot.testing.plugin;"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('clawbot')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) <= {"__future__"}


async def test_the_three_ways_in(scripted_llm: Callable[[Any], Any]) -> None:
    llm = scripted_llm(
        [
            {"expect": {"user": "一"}, "reply": "first"},
            {"expect": {"user": "two"}, "reply": {"text": ["sec", {"text": "ond", "after": 0.001}]}},
        ]
    )
    body = {"messages": [{"role": "user", "content": "一"}]}
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = (await client.post(f"{llm.serve()}/chat/completions", json=body)).json()
    found = [part async for part in llm.model.stream(ChatRequest("", (UserMessage("two"),)))]

    assert answer["choices"][0]["message"]["content"] == "first"
    assert isinstance(found[-1], FinalPart)
    assert found[-1].message.text == "second"
    assert [request["messages"][-1]["content"] for request in llm.requests] == ["一", "two"]
    assert llm.serve() == llm.serve()
    assert llm.ref == f"script:{llm.path}"


def test_text_and_files_are_taken(scripted_llm: Callable[[Any], Any], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("turns: [{reply: ok}]")
    models = [
        scripted_llm(file),
        scripted_llm(str(file)),
        scripted_llm("turns:\n- reply: ok\n"),
        scripted_llm([{"reply": "ok"}]),
    ]

    for llm in models:
        url = f"{llm.serve()}/chat/completions"
        answer = httpx.post(url, json={"messages": []}, trust_env=False).json()
        assert answer["choices"][0]["message"]["content"] == "ok"
    assert len({llm.path for llm in models}) == 3


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "yaml_on_one_line_is_text"),
)
def test_yaml_on_one_line_is_text(scripted_llm: Callable[[Any], Any], text: str) -> None:
    script = scripted_llm(text)
    assert script.path.name.startswith("script-")
    assert httpx.post(f"{script.serve()}/chat/completions", json=HELLO, trust_env=False).status_code == 200


@pytest.mark.parametrize("name", ["missing.yaml", "a b: c/missing.yaml", "-missing.yaml", "turns.yaml", "C:/x.yaml"])
def test_the_name_of_a_file_is_no_text(scripted_llm: Callable[[Any], Any], name: str) -> None:
    with pytest.raises(ClawbotError, match=f"{Path(name).name}.*can't be read"):
        scripted_llm(name)


def test_the_end_of_a_test_checks_its_scripts(pytester: pytest.Pytester) -> None:
    """A process of its own: some plugins do not bear a run of pytest inside another."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(INNER)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-v")

    result.assert_outcomes(passed=7, errors=3)
    result.stdout.fnmatch_lines(
        [
            "*::test_followed PASSED*",
            "*::test_unmet ERROR*",
            "*::test_left_over ERROR*",
            "*::test_never_asked ERROR*",
            "*::test_played_elsewhere PASSED*",
            "*expected (line *): user to contain 'tabs'*",
            "*came: user: 'hello'*",
            "*1 of 2 turns were not used up*",
            "*1 of 1 turns were not used up*",
        ]
    )
