"""Opens an embedding model by the names that stand in the settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clawbot.clock import Clock
from clawbot.llm.client import Target
from clawbot.llm.embedding_client import CONCURRENT, ELSEWHERE, EmbeddedTexts, EmbeddingOptions, LiteLLMEmbedder
from clawbot.llm.errors import AuthenticationError, RefusedError
from clawbot.llm.models import is_own
from clawbot.llm.providers import (
    EMBEDDERS,
    OLLAMA,
    EmbeddingProvider,
    embedding_provider,
    key_names,
    local_server,
    title_of,
)
from clawbot.llm.retry import RetryPolicy

if TYPE_CHECKING:
    from clawbot.config.schema_agent import AgentSettings
    from clawbot.config.schema_memory import MemorySearchSettings

__all__ = ["EmbeddedTexts", "LiteLLMEmbedder", "embedding_keys", "open_embedder"]

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def open_embedder(
    settings: MemorySearchSettings, agent: AgentSettings, *, clock: Clock, log_path: Path | None = None
) -> LiteLLMEmbedder:
    """The embedding model that the settings name; `agent` gives the rules for repeating, and its key and address when
    its own model is of the same provider. Needs a running event loop; starts nothing.

    Raises RefusedError where no model can be named, AuthenticationError that names the key that is missing.
    """
    name, _, of_provider = settings.provider.partition("/")
    known = embedding_provider(name) or EmbeddingProvider(name, title_of(name), key_names(name), "")
    model = (settings.model or of_provider).removeprefix(f"{name}/") or known.default
    ref = f"{name}/{model}"
    if not model:
        raise RefusedError(
            f"no embedding model of {known.title} is known.",
            provider=known.title,
            hint="Name one in memory_search.model.",
        )
    target = _target(ref, settings, agent)
    if known.keys and "api_key" not in target.arguments():
        raise AuthenticationError(
            f"{target.key_names[0]} is not set.",
            provider=known.title,
            hint=f"Set it to a key of {known.title}. {ELSEWHERE}",
        )
    retries = agent.retries
    policy = RetryPolicy(retries.attempts, retries.first_wait, retries.max_wait)
    here = target.base is not None and _is_loopback(target.base)
    return LiteLLMEmbedder(target, EmbeddingOptions(clock, policy, 1 if here else CONCURRENT, log_path), known)


def embedding_keys() -> dict[str, str]:
    """The embedding providers whose key is in the environment, each with the variable that holds it."""
    return {
        provider.name: found
        for provider in EMBEDDERS
        if (found := next((name for name in provider.keys if os.environ.get(name, "").strip()), None))
    }


def _target(ref: str, settings: MemorySearchSettings, agent: AgentSettings) -> Target:
    remote = settings.remote
    own = remote.api_base is None and is_own(ref, agent)
    server = OLLAMA if ref.startswith("ollama/") else local_server(ref)
    base = remote.api_base or (agent.api_base if own else None) or (server.base if server else None)
    secret = remote.api_key or (agent.api_key if own else None)
    named = remote.api_key_env or (agent.api_key_env if own else None)
    # A key of the environment goes to its provider; a server on this machine has no use for it.
    usual = () if base and _is_loopback(base) else key_names(ref)
    return Target(
        ref=ref,
        model=ref,
        base=base,
        key=secret.get_secret_value() if secret else None,
        key_names=(named,) if named else usual,
        keyless=base is not None,
    )


def _is_loopback(base: str) -> bool:
    return (urlsplit(base).hostname or "") in _LOOPBACK
