"""The names that a summary keeps: those that were spoken of, the carried ones first, no phrases of the program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.offline.identifiers import is_exact, ports, quoted
from clawbot.llm.offline.material import Said
from clawbot.llm.offline.naming import MOST, names
from clawbot.llm.offline.summary import NAMES
from clawbot.llm.tokens import weigh_tokens
from clawbot.messages import UserMessage
from tests.llm.offline.talk import Talk

NOISE = ["append", "/model", "remember that …", "记住:……", "AGENTS.md", "MEMORY.md", "ls -la"]
PHRASES = (
    "I looked in MEMORY.md, USER.md and memory/ for: gate. `/model` connects a language model. `append` answered. "
    "Say `remember that …`, or show AGENTS.md. 说 `记住:……`,我就写进笔记。Run `ls -la`."
)


def user(text: str) -> Said:
    return Said("user", text)


def assistant(text: str) -> Said:
    return Said("assistant", text)


@pytest.mark.parametrize(
    "name",
    [
        "https://a.example/x",
        "ada@example.com",
        "alpha.example.org",
        "proxy-1.stg:8443",
        "10.0.0.1:80",
        "/srv/app",
        "~/notes.md",
        "src/app.py",
        "3f2a9c1d",
        "v1.2",
        "1.2.3",
        "OPENAI_API_BASE",
        "ABC-7",
    ],
)
def test_what_means_one_thing_everywhere(name: str) -> None:
    assert is_exact(name)


@pytest.mark.parametrize("name", ["/model", "append", "AGENTS.md", "23 min", "8443", "2026-01-02", "3.5", "记住:……"])
def test_what_does_not(name: str) -> None:
    assert not is_exact(name)


def test_a_port_keeps_its_word() -> None:
    assert ports("on port 8443, ports 80 and 81; Port: 22") == ["port 8443", "ports 80", "Port: 22"]
    assert ports("代理端口是 8443,端口：22") == ["端口是 8443", "端口：22"]
    assert names([], [user("代理端口是8443")]) == ["端口是8443"]


def test_quoted_names() -> None:
    assert quoted("use `blue` or `green light`, not ` `") == ["blue", "green light"]


def test_phrases_of_this_model_are_no_names() -> None:
    assert names([], [assistant(PHRASES)]) == []
    assert names([], [assistant("A key in `OPENAI_API_KEY` is found.")]) == []


def test_a_phrase_that_the_user_spoke_of_is_one() -> None:
    assert names([], [user("what does `append` do to AGENTS.md?"), assistant(PHRASES)]) == ["AGENTS.md", "append"]
    assert names(["AGENTS.md"], [assistant("src/a.py")]) == ["AGENTS.md", "src/a.py"]


def test_results_of_tools_name_nothing() -> None:
    assert names([], [Said("tool", "alpha.example.org")]) == []


def test_carried_ones_come_last_then_those_of_the_user() -> None:
    said = [user("gamma.example.org took 23 min"), assistant("delta.example.org took 42 min")]
    assert names(["alpha.example.org", "7 min"], said) == [
        "42 min",
        "23 min",
        "7 min",
        "delta.example.org",
        "gamma.example.org",
        "alpha.example.org",
    ]


def test_a_name_that_comes_up_again_is_there_once() -> None:
    assert names(["a.example.org", "b.example.org"], [user("back to a.example.org")]) == [
        "b.example.org",
        "a.example.org",
    ]


def test_a_carried_line_keeps_its_meaning() -> None:
    carried = ["alpha.example.org: the staging host", "端口 8443 (代理)"]
    assert names(carried, [user("alpha.example.org has port 8443; 端口 8443")]) == ["port 8443", *carried]


def test_keys_are_left_out() -> None:
    assert names(["ghp_abcdefghijklmnopqrstuvwxyz0123456789"], [user("`sk-proj-abcdefghijklmnopqrstuvwx`")]) == []


@given(texts=st.lists(st.text(max_size=80), max_size=6), carried=st.lists(st.text(min_size=1, max_size=30), max_size=4))
def test_any_text_gives_each_name_once(texts: list[str], carried: list[str]) -> None:
    found = names(carried, [user(text) if at % 2 else assistant(text) for at, text in enumerate(texts)])
    assert len(set(found)) == len(found) <= MOST


async def _summary(previous: str, conversation: str, tokens: int) -> str:
    talk = Talk()
    before = f"<previous-summary>\n{previous}\n</previous-summary>\n\n" if previous else ""
    asked = f"<conversation>\n{conversation}\n</conversation>\n\nLength: at most {tokens} tokens."
    talk.messages = [UserMessage(before + asked)]
    return (await talk.ask("summary")).text


@pytest.mark.parametrize(
    ("first", "wanted"),
    [
        (
            "User: staging is alpha.example.org on port 8443, see conf/proxy.yaml",
            ["alpha.example.org", "port 8443", "conf/proxy.yaml"],
        ),
        ("User: 测试机是 alpha.example.org,端口是 8443", ["alpha.example.org", "端口是 8443"]),
    ],
)
async def test_a_host_outlives_five_compactions_in_a_small_window(first: str, wanted: list[str]) -> None:
    text = await _summary("", f"{first}\n\nAssistant: {PHRASES}", 400)
    for turn in range(5):
        talk = "\n\n".join(f"User: step {turn}.{n} took {n + 10} min, then {100 + n} MB" for n in range(20))
        text = await _summary(text, f"{talk}\n\nAssistant: {PHRASES}", 400)
        assert weigh_tokens(text) <= 400
    section = text.partition(f"## {NAMES}\n")[2].partition("##")[0]
    for name in wanted:
        assert f"- {name}\n" in section
    assert not any(f"- {noise}\n" in section for noise in NOISE)


async def test_a_name_that_is_too_long_hides_no_other() -> None:
    text = await _summary("- x", f"User: alpha.example.org\n\nUser: https://a.example/{'x/' * 90}", 200)
    assert "- alpha.example.org\n" in text
