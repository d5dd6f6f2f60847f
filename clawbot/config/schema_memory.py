"""The settings of the memory index: what is indexed, how it is cut into pieces, searched and kept up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from clawbot.config.explain import nearest
from clawbot.config.schema_lines import LineWeights
from clawbot.config.section import Section
from clawbot.config.values import Count, Duration, Positive, Secret, Share, Switch, TildePath, VariableName, expected
from clawbot.logs import redact

Source = Literal["memory", "sessions"]

NO_PROVIDERS = ("auto", "offline", "none")
"""What may stand for a provider of vectors: the one of this machine, and words alone."""

VECTOR_PROVIDERS = frozenset(
    {
        "azure",
        "azure_ai",
        "bedrock",
        "cohere",
        "cohere_chat",
        "cometapi",
        "dashscope",
        "databricks",
        "deepinfra",
        "edenai",
        "fireworks_ai",
        "gemini",
        "gigachat",
        "github_copilot",
        "hosted_vllm",
        "huggingface",
        "infinity",
        "jina_ai",
        "litellm_proxy",
        "llamafile",
        "lm_studio",
        "mistral",
        "nebius",
        "nvidia_nim",
        "oci",
        "ollama",
        "oobabooga",
        "openai",
        "openai_like",
        "openrouter",
        "ovhcloud",
        "perplexity",
        "sagemaker",
        "sambanova",
        "sap",
        "snowflake",
        "together_ai",
        "triton",
        "vercel_ai_gateway",
        "vertex_ai",
        "volcengine",
        "voyage",
        "wandb",
        "watsonx",
        "xinference",
    }
)
"""The providers that litellm makes vectors with."""

_SHOWN = 60


class ExtraPath(Section):
    """A file or folder beside the workspace's memory that is indexed too."""

    path: TildePath
    """Absolute, or relative to the workspace."""
    pattern: str = "**/*.md"
    """Which files of a folder."""


def _as_extra_path(value: Any) -> Any:
    return {"path": value} if isinstance(value, str | Path) else value


class RemoteSettings(Section):
    """Where remote embeddings come from."""

    api_base: str | None = None
    """The address of a server that speaks OpenAI's protocol; null for the provider's own."""
    api_key: Secret | None = None
    """The key; better named by api_key_env."""
    api_key_env: VariableName | None = None
    """The environment variable that holds the key; null for the provider's usual one."""


class ChunkingSettings(Section):
    """How long pieces may be."""

    tokens: Positive = 400
    """Tokens in a piece, in the profile `classic`."""
    overlap: Count = 80
    """Tokens that a piece repeats of the one before, in the profile `classic`."""
    piece_chars: Positive = 800
    """Characters from which on a piece is split between its lines, in the profile `lines`."""
    code_chars: Positive = 2_000
    """The same for code."""

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> Self:
        if self.overlap >= self.tokens:
            raise expected("an overlap smaller than tokens", show=False)
        return self


class MmrSettings(Section):
    """Less of the same among the results, in the profile `classic`."""

    enabled: Switch = True
    """Whether results are reordered so."""
    lambda_: Share = Field(0.7, alias="lambda")
    """1 looks at relevance alone, 0 at difference alone."""


class TemporalDecaySettings(Section):
    """Old daily notes count less, in the profile `classic`."""

    enabled: Switch = False
    """Whether age counts at all."""
    half_life_days: Positive = 30
    """Days after which a note counts half."""


class HybridSettings(Section):
    """How hits by meaning and hits by word are joined."""

    enabled: Switch = True
    """Off: by meaning alone, where there are vectors."""
    vector_weight: Share | None = None
    """Weight of meaning; null for the profile's own (lines 0.3, classic 0.7). The two weights are scaled to sum 1."""
    text_weight: Share | None = None
    """Weight of words; null for the profile's own (lines 0.7, classic 0.3)."""
    candidate_multiplier: Annotated[int, Field(ge=1, le=20)] = 4
    """How many candidates are looked at for each result, in the profile `classic`."""
    mmr: MmrSettings = MmrSettings()
    """Less of the same."""
    temporal_decay: TemporalDecaySettings = TemporalDecaySettings()
    """Old notes count less."""

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.vector_weight == 0 and self.text_weight == 0:
            raise expected("a vector_weight or a text_weight above 0", show=False)
        return self


class QuerySettings(Section):
    """What a search returns."""

    max_results: Positive = 6
    """Results of one search."""
    max_chars: Positive = 2_500
    """Characters of all results together, in the profile `lines`."""
    min_score: Share | None = None
    """Results below are left out; null for the profile's own (lines 0, classic 0.35)."""
    max_injected_chars: Positive = 4_000
    """Characters that one search may put into the context, places included, whatever the model asks for."""
    timeout: Duration = 30.0
    """After this a search answers with what it has."""
    wait_for_writes: Duration = 0.5
    """How long a search waits until what was written before it is indexed."""
    rerank: Literal["off", "model"] = "off"
    """`model`: the agent's model orders the first results."""
    hybrid: HybridSettings = HybridSettings()
    """How hits by meaning and by word are joined."""
    lines: LineWeights = LineWeights()
    """How lines are ranked, in the profile `lines`. The numbers were learned together: change one at a time."""


class SessionSyncSettings(Section):
    """When transcripts are indexed again, with `sessions` among the sources."""

    delta_bytes: Count = 100_000
    """New bytes in a transcript; 0 for any change."""
    delta_messages: Count = 50
    """New messages in a transcript; 0 for any change."""


class SyncSettings(Section):
    """When the index is brought up to date."""

    on_session_start: Switch = True
    """When a session starts."""
    on_search: Switch = True
    """Before a search."""
    watch: Switch = True
    """When a file changes."""
    watch_debounce_ms: Count = 1_500
    """How long a file must rest before it is read, in milliseconds. A search does not wait for it."""
    interval_minutes: Count = 0
    """Every so many minutes; 0 for never."""
    sessions: SessionSyncSettings = SessionSyncSettings()
    """For transcripts."""


class CacheSettings(Section):
    """Embeddings that are kept, so that text is embedded once."""

    enabled: Switch = True
    """Whether they are kept."""
    max_entries: Positive | None = 50_000
    """At most so many, the longest unused go first; null for no limit."""


def _check_sources(value: list[Source]) -> list[Source]:
    if not value:
        raise expected("memory, sessions or both (enabled: false switches the index off)")
    return value


class MemorySearchSettings(Section):
    """The index over the memory files."""

    enabled: Switch = True
    """Whether there are the tools memory_search and memory_get, and an index."""
    profile: Literal["lines", "classic"] = "lines"
    """`lines`: small pieces by structure. `classic`: pieces of equal size, ranked as in older systems."""
    provider: str = Field("auto", min_length=1)
    """Where vectors come from: auto, offline, none (words alone), or a provider such as openai, gemini, ollama."""
    model: str | None = None
    """The embedding model; null for the provider's usual one."""
    remote: RemoteSettings = RemoteSettings()
    """Where remote embeddings come from."""
    sources: Annotated[list[Source], AfterValidator(_check_sources)] = Field(["memory"])
    """`memory` for the Markdown files, `sessions` for the transcripts."""
    extra_paths: list[Annotated[ExtraPath, BeforeValidator(_as_extra_path)]] = Field([])
    """More files or folders: a path, or {path, pattern}. Relative ones start at the workspace."""
    chunking: ChunkingSettings = ChunkingSettings()
    """How long pieces may be."""
    query: QuerySettings = QuerySettings()
    """What a search returns."""
    sync: SyncSettings = SyncSettings()
    """When the index is brought up to date."""
    cache: CacheSettings = CacheSettings()
    """Embeddings that are kept."""

    @model_validator(mode="after")
    def _provider_is_known(self) -> Self:
        known = (*NO_PROVIDERS, *sorted(VECTOR_PROVIDERS))
        name = self.provider.partition("/")[0]
        if self.provider in NO_PROVIDERS or name in VECTOR_PROVIDERS or self.remote.api_base:
            return self
        meant = nearest(name, list(known))
        hint = f"; did you mean {meant}?" if meant else ""
        raise expected(
            "as provider auto, offline, none, one that makes vectors such as openai, gemini or ollama, or any with "
            f"remote.api_base, found the text {redact(name[:_SHOWN])!r}{hint}",
            show=False,
        )
