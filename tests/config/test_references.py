"""References to variables in settings: the spellings of several programs, and what stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clawbot.config.env import UnresolvedError, name_in, resolve
from clawbot.config.errors import ConfigError
from clawbot.config.load import LoadedSettings, load_settings
from clawbot.config.paths import Paths, find_home
from tests.tables import load_table

ENVIRON = {"userHome": "/home/me", "HOST": "example.org", "A_KEY": "swordfish-1", "EMPTY": "", "lower": "x"}

RESOLVED = load_table(__file__, "RESOLVED")


@pytest.mark.parametrize("text", RESOLVED)
def test_a_reference_is_replaced_by_its_value(text: str) -> None:
    assert resolve(text, ENVIRON) == RESOLVED[text]


UNRESOLVED = load_table(__file__, "UNRESOLVED")
# What only another program can fill in, and what to write instead.
FOREIGN = load_table(__file__, "FOREIGN")


@pytest.mark.parametrize("text", UNRESOLVED)
def test_what_has_no_value_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnresolvedError, match=UNRESOLVED[text]):
        resolve(text, {})


@pytest.mark.parametrize("text", FOREIGN)
def test_what_another_program_fills_in_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UnresolvedError, match=r"^[$]?\{[^}]+\} is filled in by another program only[.]") as caught:
        resolve(text, {})
    assert caught.value.hint == FOREIGN[text]


def test_a_variable_of_such_a_name_that_is_set_is_taken() -> None:
    assert resolve("${workspaceFolder}/x", {"workspaceFolder": "/w"}) == "/w/x"


@pytest.mark.parametrize(
    ("text", "name"),
    [("${A_B}", "A_B"), ("$A_B", "A_B"), ("os.environ/a", "a"), ("{env:A}", "A"), ("${env:A}", "A"), (" ${A} ", "A"),
     ("${A:-b}", ""), ("x${A}", ""), ("$$", ""), ("A", ""), ("", "")],
)  # fmt: skip
def test_the_name_of_a_text_that_is_one_reference(text: str, name: str) -> None:
    assert name_in(text) == name


def load(text: str, env: str = "") -> LoadedSettings:
    paths = Paths(find_home())
    paths.home.mkdir(parents=True, exist_ok=True)
    paths.env_file.write_text(env)
    paths.config_file.write_text(text)
    return load_settings(paths)


def test_every_string_of_the_settings_is_resolved_also_by_the_file_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA", "/data")
    loaded = load(
        "agents: {defaults: {workspace: $DATA/notes, api_base: 'http://${HOST}/v1', api_key: os.environ/SOME_KEY,\n"
        "  memory_search: {extra_paths: ['${DATA}/vault', {path: '{env:DATA}/x', pattern: '*.md'}]}}}\n"
        "schedule: {morning: {every: 1h, prompt: 'Say ${HOST}, not $HOST or $5'}}\n",
        "HOST=example.org\nDATA=/other\nSOME_KEY=swordfish-2\n",
    )
    agent = loaded.settings.agent("main")
    assert agent.workspace == Path("/data/notes")
    assert agent.api_base == "http://example.org/v1"
    assert agent.api_key is not None
    assert agent.api_key.get_secret_value() == "swordfish-2"
    assert [str(getattr(each, "path", each)) for each in agent.memory_search.extra_paths] == ["/data/vault", "/data/x"]
    assert loaded.settings.schedule.jobs["morning"].prompt == "Say example.org, not $HOST or $5"
    assert not loaded.lasting
    assert "HOST" not in os.environ


def test_commands_stay_to_the_byte_and_a_file_without_references_is_kept() -> None:
    loaded = load(
        "agents: {defaults: {tools: {shell: {allow: ['echo ${HOME} $PATH']}}, permissions: {ask: ['shell(x $A)']}}}"
    )
    assert loaded.settings.agent("main").tools.shell.allow == ["echo ${HOME} $PATH"]
    assert loaded.lasting


@pytest.mark.parametrize(
    ("text", "said"),
    load_table(__file__, "a_setting_that_can_t_be_resolved_is_named_with_its_line"),
)
def test_a_setting_that_can_t_be_resolved_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert said in str(caught.value.problems[0])


def test_a_server_of_mcp_is_resolved_when_it_starts_and_costs_no_start_of_the_program() -> None:
    loaded = load("mcp: {servers: {far: {url: 'https://${NO_SUCH}/mcp', headers: {A: 'Bearer ${NO_SUCH}'}}}}")
    assert list(loaded.settings.mcp.named()) == ["far"]
