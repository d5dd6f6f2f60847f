"""The schema: defaults, what agents inherit, and the files that are made from it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clawbot.config.errors import ConfigError
from clawbot.config.paths import find_home, shipped
from clawbot.config.schema import Settings, deep_merge
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.config.source import read_layer
from clawbot.config.spelling import respell, to_snake
from clawbot.config.values import SettingsSection
from tests.test_ci import script

document = script("settings")
TOP = document.CHECKOUT
STALE = "run: make pages"


def test_the_shipped_file_is_the_schemas_defaults() -> None:
    layer, problems = read_layer(shipped("config.yaml"))
    spelled, unknown = respell(layer, Settings)
    assert problems + unknown == []
    assert Settings.model_validate(spelled.data) == Settings()


def test_the_shipped_file_and_the_documentation_are_made_from_the_schema() -> None:
    assert (TOP / "config.yaml").read_text() == document.shipped_yaml(), STALE
    assert (TOP / "docs" / "configuration.md").read_text() == document.reference(), STALE


def test_the_shipped_file_means_the_same_to_any_reader_of_yaml() -> None:
    layer, _ = read_layer(shipped("config.yaml"))
    assert yaml.safe_load(shipped("config.yaml").read_text()) == layer.data


def test_the_documentation_has_every_key() -> None:
    text = document.reference()

    def names(section: type[SettingsSection]) -> list[str]:
        found = list(document.keys(section))
        below = [name for key in found for kind in (key.nested, key.named) if kind for name in names(kind)]
        return [key.name for key in found if not key.nested and not key.named] + below

    assert len(names(Settings)) > 200
    assert [name for name in names(Settings) if f"`{name}`" not in text] == []


def test_an_agent_is_its_entry_over_the_defaults() -> None:
    settings = Settings.model_validate(
        {
            "agents": {
                "defaults": {"model": "openai/a", "compaction": {"reserve_tokens": 5}, "fallbacks": ["openai/b"]},
                "work": {"compaction": {"keep_recent_tokens": 6}, "fallbacks": []},
            }
        }
    )
    work = settings.agent("work")
    assert (work.model, work.fallbacks) == ("openai/a", [])
    assert (work.compaction.reserve_tokens, work.compaction.keep_recent_tokens) == (5, 6)
    assert settings.agent("main").compaction.keep_recent_tokens == 20_000


# The models of the defaults and of an agent, and whether that has the address and the key of the defaults.
MODELS = [
    ("openai/a", "openai/b", True),
    ("openai/a", None, True),
    ("ollama/a", "ollama_chat/b", True),
    (None, "anthropic/b", True),
    ("auto", "anthropic/b", True),
    ("openai/a", "anthropic/b", False),
    ("openrouter/openai/a", "openai/a", False),
    ("anthropic/a", "auto", False),
    ("anthropic/a", "offline", False),
    ("hosted_vllm/a", "script:x.yaml", False),
]


@pytest.mark.parametrize(("usual", "own", "inherits"), MODELS)
@pytest.mark.parametrize("agent", ["main", "work"])
def test_an_agent_inherits_no_key_of_another_provider(
    usual: str | None, own: str | None, inherits: bool, agent: str
) -> None:
    shared = {"api_base": "http://127.0.0.1:9/v1", "api_key": "one", "api_key_env": "ONE_KEY"}
    defaults = shared | ({"model": usual} if usual else {})
    found = Settings.model_validate({"agents": {"defaults": defaults, agent: {"model": own} if own else {}}}).agent(
        agent
    )
    assert (found.api_base is not None, found.api_key is not None, found.api_key_env is not None) == (inherits,) * 3
    own_key = {"model": own or "openai/a", "api_key_env": "OWN_KEY"}
    assert (
        Settings.model_validate({"agents": {"defaults": defaults, agent: own_key}}).agent(agent).api_key_env
        == "OWN_KEY"
    )


def test_agents_share_no_workspace_by_accident() -> None:
    settings = Settings.model_validate(
        {"agents": {"defaults": {"workspace": "/notes"}, "work": {}, "home": {"workspace": "h"}}}
    )
    assert settings.agent("main").workspace == Path("/notes")
    assert settings.agent("work").workspace == find_home() / "workspace-work"
    assert settings.agent("home").workspace == find_home() / "h"
    assert Settings().agent("main").workspace == find_home() / "workspace"


@pytest.mark.parametrize(
    ("name", "said"), [("mian", "Did you mean main?"), ("x", "Add `agents"), ("../x", "no agent id")]
)
def test_an_unknown_agent_is_an_error_with_a_way_on(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        Settings().agent(name)


def test_the_defaults_are_no_agent() -> None:
    assert Settings().agent_ids == ["main"]
    with pytest.raises(ConfigError, match="not an agent"):
        Settings().agent("defaults")


def test_merging_touches_neither_side() -> None:
    below, above = {"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": []}
    assert deep_merge(below, above) == {"a": {"b": 3, "c": 2}, "d": []}
    assert (below, above) == ({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": []})


@pytest.mark.parametrize(
    ("camel", "snake"),
    [("softTrim", "soft_trim"), ("apiBase", "api_base"), ("at", "at"), ("llmSlug", "llm_slug"),
     ("apiURLBase", "api_url_base"), ("ApiKey", "api_key")],
)  # fmt: skip
def test_camel_case_becomes_snake_case(camel: str, snake: str) -> None:
    assert to_snake(camel) == snake


def test_every_key_survives_its_camel_spelling() -> None:
    def spelled(section: type[SettingsSection]) -> None:
        for key in document.keys(section):
            head, *rest = key.name.split("_")
            assert to_snake(head + "".join(word.capitalize() for word in rest)) == key.name
            for below in (key.nested, key.named):
                if below:
                    spelled(below)

    spelled(Settings)


@pytest.mark.parametrize(
    "search",
    [
        {"provider": "openai/text-embedding-3-small"},
        {"provider": "none", "sources": ["sessions"]},
        {"provider": "mine", "remote": {"api_base": "http://127.0.0.1:9000/v1"}},
    ],
)
def test_providers_with_a_model_or_an_address_are_fine(search: dict[str, object]) -> None:
    assert MemorySearchSettings.model_validate(search).provider == search["provider"]
