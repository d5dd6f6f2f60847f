"""The settings of the memory index: what is indexed, how it is cut into pieces, searched and kept up to date.

The numbers of the ranking in the profile `lines` were learned on conversations (with one left out in turn, so that none
was judged by its own numbers), rounded, and checked on Chinese notes. Each is on a flat stretch: a fifth more or less
changes little.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from clawbot.config.errors import nearest
from clawbot.config.values import (
    Count,
    Duration,
    Positive,
    Secret,
    SettingsSection,
    Share,
    Switch,
    TildePath,
    VariableName,
    expected,
)
from clawbot.extensions import installed
from clawbot.text.secrets import redact

Weight = Annotated[float, Field(ge=-100, le=100)]


class LineWeights(SettingsSection):
    """How lines are ranked, in the profile `lines`; a rare word that is found counts about 8 before its weight."""

    term: Weight = 0.33
    """A word of the question in the line or beside it, by its rarity (0 to 8)."""
    section: Weight = 0.20
    """The same anywhere under the line's heading: what a whole talk was about."""
    meaning: Weight = 7.0
    """The cosine between the question and the line with its neighbours."""
    exact: Weight = 9.0
    """Rare words of the question in the line itself, as they were asked for, by their share of the question."""
    rare: Weight = 6.0
    """From how much on (0 to 8, by its rarity) a word is a rare one."""
    speaker: Weight = 3.0
    """The line is said by somebody whom the question names."""
    speaker_near: Weight = 3.0
    """Somebody whom the question names speaks under the same heading."""
    day: Weight = 5.0
    """The note is of a day that the question names, or the line speaks of that day."""
    when: Weight = 2.4
    """The line has words of date or time, and the question asks for them."""
    question: Weight = -0.5
    """The line is a question itself: the answer is elsewhere."""
    answer: Weight = 0.14
    """Words of the question in the line before, when that one asks (like term)."""
    heading: Weight = -2.0
    """A heading says what follows; what follows is the better answer."""
    by_user: Weight = -0.05
    """The user said it in a conversation: what stands in a file comes first where all else is equal."""
    by_agent: Weight = -0.1
    """The agent said it: what the user said comes first where all else is equal."""
    before: Share = 0.7
    """What a word counts that stands one line before: often the question that a line answers."""
    after: Share = 0.5
    """What a word counts that stands one line after."""
    two_before: Share = 0.35
    """What a word counts that stands two lines before."""
    two_after: Share = 0.25
    """What a word counts that stands two lines after."""
    same_meaning: Share = 0.7
    """What another word of the same meaning counts beside the word itself."""
    broader: Share = 0.35
    """What a broader word counts (drink for coffee)."""
    begun: Share = 0.6
    """What a word counts that begins with the one which is being typed."""
    begun_stem: Share = 0.3
    """What a word counts that begins with what may be its stem."""
    by_words: Positive = 300
    """Lines looked at for their words, in a one-shot search of a large index."""
    by_meaning: Positive = 300
    """Lines looked at for their vectors, in a one-shot search of a large index."""
    by_day: Positive = 300
    """Lines looked at because the question names their day."""
    promising: Positive = 200
    """Lines of the whole index that are looked at exactly, where all of them are in memory."""
    postings: Positive = 20_000
    """Lines that are read for one word; in a large index a fifth of all. What is in more of them tells little."""
    least_score: Share = 0.05
    """What a line has to score that holds no word of the question."""
    least_words: Weight = 3.0
    """What the words that a line has of a question must count, by their rarity, for the line to fit by its words."""
    least_nearness: Weight = 4.2
    """Where no words fit, how much nearer than others a line must be, in standard deviations of all lines."""
    ranked: Positive = 60
    """Lines, best first, that results are built of."""
    first_chars: Positive = 1_500
    """Characters of the first page: the best lines, before what stands beside them is taken in."""
    first_ranges: Positive = 4
    """Results of the first page."""
    range_chars: Positive = 700
    """Characters of a result; a longer line stays whole, or is cut to what is left if that is at least so much."""
    gap: Count = 1
    """Lines between two good ones that a result takes in."""

    @property
    def window(self) -> tuple[tuple[int, float], ...]:
        """What a word counts at a distance in lines."""
        return (0, 1.0), (-1, self.before), (1, self.after), (-2, self.two_before), (2, self.two_after)


Source = Literal["memory", "sessions"]

BUILTIN_BACKEND = "builtin"
BACKEND_GROUP = "clawbot.memory_backends"
"""The entry point group of the backends that installed packages offer."""


def backend_names() -> list[str]:
    """What `memory.backend` may be: `builtin`, and what installed packages offer. Imports none of them; blocks."""
    offered = {extension.name for extension in installed(BACKEND_GROUP)}
    return [BUILTIN_BACKEND, *sorted(offered - {BUILTIN_BACKEND})]


def check_backend(name: str) -> str:
    """`name`, when there is such a backend. Raises ValueError."""
    if name != BUILTIN_BACKEND and name not in (known := backend_names()):
        raise expected(f"a memory backend that is installed ({', '.join(known)})")
    return name


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


class ExtraPath(SettingsSection):
    """A file or folder beside the workspace's memory that is indexed too."""

    path: TildePath
    """Absolute, or relative to the workspace."""
    pattern: str = "**/*.md"
    """Which files of a folder."""


def _as_extra_path(value: Any) -> Any:
    return {"path": value} if isinstance(value, str | Path) else value


class RemoteSettings(SettingsSection):
    """Where remote embeddings come from."""

    api_base: str | None = None
    """The address of a server that speaks OpenAI's protocol; null for the provider's own."""
    api_key: Secret | None = None
    """The key; better named by api_key_env."""
    api_key_env: VariableName | None = None
    """The environment variable that holds the key; null for the provider's usual one."""


class ChunkingSettings(SettingsSection):
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


class MmrSettings(SettingsSection):
    """Less of the same among the results, in the profile `classic`."""

    enabled: Switch = True
    """Whether results are reordered so."""
    lambda_: Share = Field(0.7, alias="lambda")
    """1 looks at relevance alone, 0 at difference alone."""


class TemporalDecaySettings(SettingsSection):
    """Old daily notes count less, in the profile `classic`."""

    enabled: Switch = False
    """Whether age counts at all."""
    half_life_days: Positive = 30
    """Days after which a note counts half."""


class HybridSettings(SettingsSection):
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


class QuerySettings(SettingsSection):
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
    """After this a search answers with what it has. A search on the command line waits as long for the provider."""
    wait_for_writes: Duration = 0.5
    """How long a search waits until what was written before it is indexed."""
    wait_for_vectors: Duration = 2.0
    """How long `clawbot memory search` goes on with vectors that are missing, before it answers."""
    rerank: Literal["off", "model"] = "off"
    """`model`: the agent's model orders the first results."""
    transcript_weight: Share = 0.7
    """What the score of something said in a talk counts beside that of a note."""
    hybrid: HybridSettings = HybridSettings()
    """How hits by meaning and by word are joined."""
    lines: LineWeights = LineWeights()
    """How lines are ranked, in the profile `lines`. The numbers were learned together: change one at a time."""


class SessionSyncSettings(SettingsSection):
    """When transcripts are indexed again, with `sessions` among the sources."""

    delta_bytes: Count = 100_000
    """New bytes in a transcript; 0 for any change."""
    delta_messages: Count = 50
    """New messages in a transcript; 0 for any change."""


class SyncSettings(SettingsSection):
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


class CacheSettings(SettingsSection):
    """Embeddings that are kept, so that text is embedded once."""

    enabled: Switch = True
    """Whether they are kept."""
    max_entries: Positive | None = 50_000
    """At most so many, the longest unused go first; null for no limit."""


def _check_sources(value: list[Source]) -> list[Source]:
    if not value:
        raise expected("memory, sessions or both (enabled: false switches the index off)")
    return value


class MemorySearchSettings(SettingsSection):
    """The index over the memory files."""

    enabled: Switch = True
    """Whether there is an index, with the tools memory_search, memory_get, sessions_search and sessions_read."""
    profile: Literal["lines", "classic"] = "lines"
    """`lines`: small pieces by structure. `classic`: pieces of equal size, ranked as in older systems."""
    provider: str = Field("auto", min_length=1)
    """Where vectors come from: auto, offline, none (words alone), or a provider such as openai, gemini, ollama."""
    model: str | None = None
    """The embedding model; null for the provider's usual one."""
    remote: RemoteSettings = RemoteSettings()
    """Where remote embeddings come from."""
    sources: Annotated[list[Source], AfterValidator(_check_sources)] = Field(["memory", "sessions"])
    """`memory` for the Markdown files, `sessions` for what was said in the agent's conversations."""
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
