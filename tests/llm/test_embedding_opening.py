"""Which embedding model the settings name, with whose key and at which address; and its batches: within a provider's
limits, and smaller after a refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_memory import VECTOR_PROVIDERS, MemorySearchSettings
from clawbot.llm.embedding import LiteLLMEmbedder, embedding_keys, open_embedder
from clawbot.llm.errors import AuthenticationError, RefusedError
from clawbot.llm.models import _read_table
from clawbot.llm.providers import EMBEDDERS, EmbeddingProvider


def opened(provider: str, agent: dict[str, Any] | None = None, **settings: Any) -> LiteLLMEmbedder:
    memory = MemorySearchSettings.model_validate({"provider": provider, **settings})
    return open_embedder(memory, AgentSettings.model_validate(agent or {}), clock=SystemClock())


def test_the_settings_allow_every_provider_that_is_known() -> None:
    assert {entry.name for entry in EMBEDDERS} <= VECTOR_PROVIDERS


def arguments(embedder: LiteLLMEmbedder) -> dict[str, Any]:
    return embedder._target.arguments()


@pytest.mark.parametrize("provider", [entry for entry in EMBEDDERS if entry.keys], ids=lambda entry: entry.name)
async def test_each_provider_has_a_model_and_a_key(
    provider: EmbeddingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuthenticationError, match=f"{provider.keys[0]} is not set") as caught:
        opened(provider.name)
    assert "offline" in caught.value.hint
    monkeypatch.setenv(provider.keys[-1], "secret-of-the-provider")
    embedder = opened(provider.name)
    assert (embedder.provider, embedder.model) == (provider.name, provider.default)
    assert embedder.identity == f"{provider.name}/{provider.default}"
    assert arguments(embedder) == {"model": embedder.identity, "api_key": "secret-of-the-provider"}
    assert embedding_keys()[provider.name] == provider.keys[-1]
    assert "secret-of" not in repr(embedder._target)


@pytest.mark.parametrize("provider", [entry for entry in EMBEDDERS if entry.keys], ids=lambda entry: entry.name)
def test_the_default_models_are_in_litellms_table(provider: EmbeddingProvider) -> None:
    table = _read_table()
    raw = table.get(f"{provider.name}/{provider.default}") or table[provider.default]
    facts = msgspec.json.decode(raw)
    assert facts["mode"] == "embedding"
    # Within what one text may have: a longer one is cut by us, not refused.
    assert provider.limits.each <= facts["max_input_tokens"]


@pytest.mark.parametrize(
    ("provider", "model", "identity"),
    [
        ("openai", "text-embedding-3-large", "openai/text-embedding-3-large"),
        ("openai", "openai/text-embedding-3-large", "openai/text-embedding-3-large"),
        ("openai/text-embedding-3-large", None, "openai/text-embedding-3-large"),
        ("jina_ai", "jina-embeddings-v4", "jina_ai/jina-embeddings-v4"),
        ("together_ai", "BAAI/bge-base-en-v1.5", "together_ai/BAAI/bge-base-en-v1.5"),
    ],
)
async def test_a_model_may_be_named_in_several_ways(
    provider: str, model: str | None, identity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "TOGETHERAI_API_KEY"):
        monkeypatch.setenv(key, "of-the-environment")
    assert opened(provider, model=model).identity == identity


async def test_without_a_model_of_its_own_a_provider_needs_one() -> None:
    with pytest.raises(RefusedError, match=r"no embedding model of Together is known.*memory_search\.model"):
        opened("together_ai")


async def test_a_server_of_ones_own_needs_no_key_and_gets_none_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
    embedder = opened("openai", model="bge-m3", remote={"api_base": "http://localhost:8080/v1/"})
    assert arguments(embedder)["api_key"] == "not-needed"
    assert embedder.identity == "openai/bge-m3 at http://localhost:8080/v1"
    assert arguments(opened("ollama")) == {
        "model": "ollama/nomic-embed-text",
        "api_base": "http://127.0.0.1:11434",
        "api_key": "not-needed",
    }


async def test_the_key_of_the_settings_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
    monkeypatch.setenv("MY_KEY", "named-by-the-user")
    assert arguments(opened("openai", remote={"api_key_env": "MY_KEY"}))["api_key"] == "named-by-the-user"
    both = {"api_key": "in-the-settings", "api_key_env": "MY_KEY"}
    assert arguments(opened("openai", remote=both))["api_key"] == "in-the-settings"


async def test_a_named_variable_that_is_empty_is_named() -> None:
    with pytest.raises(AuthenticationError, match="MY_KEY is not set"):
        opened("openai", remote={"api_key_env": "MY_KEY"})


async def test_the_agents_own_key_and_address_serve_its_provider_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = {"model": "openai/gpt", "api_base": "https://gateway.example/v1", "api_key": "of-the-agent"}
    embedder = opened("openai", agent)
    assert arguments(embedder)["api_key"] == "of-the-agent"
    assert embedder.identity == "openai/text-embedding-3-small at https://gateway.example/v1"
    monkeypatch.setenv("VOYAGE_API_KEY", "of-voyage")
    assert arguments(opened("voyage", agent)) == {"model": "voyage/voyage-3.5", "api_key": "of-voyage"}
    elsewhere = opened("openai", agent, remote={"api_base": "https://other.example/v1"})
    assert arguments(elsewhere)["api_key"] == "not-needed"


def test_no_keys_no_providers() -> None:
    assert embedding_keys() == {}
