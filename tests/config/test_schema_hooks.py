"""The settings of hooks."""

from __future__ import annotations

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_extensions import HookSettings
from clawbot.text.secrets import redact
from tests.tables import load_table


def hooks(text: str) -> HookSettings:
    """The section `hooks` of a user's file with `text`."""
    paths = Paths(find_home())
    paths.home.mkdir(parents=True, exist_ok=True)
    paths.config_file.write_text(text)
    return load_settings(paths).settings.hooks


def test_the_contract_of_the_design_is_valid() -> None:
    found = hooks(
        "hooks: {enabled: true, dirs: [], entries: {session-memory: {enabled: true, messages: 15, llm_slug: true}}}"
    )
    assert found.entry("session-memory").enabled is True
    assert found.entry("session-memory").own == {"messages": 15, "llm_slug": True, "model": None}


def test_by_default_the_archive_is_on_and_nothing_is_decided_for_others() -> None:
    found = hooks("")
    assert (found.enabled, found.timeout, found.quit_timeout) == (True, 10.0, 5.0)
    assert [found.entry(name).enabled for name in ("session-memory", "mine")] == [True, None]


def test_both_spellings_and_the_older_place() -> None:
    found = hooks(
        """
hooks:
  internal:
    enabled: on
    load: {extraDirs: [more]}
    entries:
      session-memory: {llmSlug: off, model: openai/small}
      my-hook: {enabled: no, timeout: 1m, env: {A_TOKEN: "x"}, someKey: {innerKey: [1]}}
  quitTimeout: 500ms
"""
    )
    assert (found.enabled, found.quit_timeout, found.dirs) == (True, 0.5, [find_home() / "more"])
    assert found.entry("session-memory").own == {"messages": 15, "llm_slug": False, "model": "openai/small"}
    mine = found.entry("my-hook")
    assert (mine.enabled, mine.timeout, mine.env) == (False, 60.0, {"A_TOKEN": "x"})
    assert mine.own == {"someKey": {"innerKey": [1]}}


@pytest.mark.parametrize(
    ("text", "said"),
    load_table(__file__, "a_mistake_is_named"),
)
def test_a_mistake_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        hooks(text)
    assert said in str(error.value)


def test_secrets_of_hooks_are_kept_out_of_logs() -> None:
    hooks("hooks: {entries: {a: {env: {MY_TOKEN: swordfish-one}, api_key: swordfish-two, colour: swordfish-blue}}}")
    said = redact("swordfish-one swordfish-two swordfish-blue")
    assert "swordfish-one" not in said
    assert "swordfish-two" not in said
    assert "swordfish-blue" in said
