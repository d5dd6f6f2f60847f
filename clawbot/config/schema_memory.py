"""The settings of the memory index: what is indexed, how it is split, searched and kept up to date.

The ranking weights of the profile `lines` were learned on conversations (with leave-one-out evaluation), rounded, and
checked on Chinese notes. Each is on a plateau: 20 % more or less changes little.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from clawbot.config.errors import nearest
from clawbot.config.values import (
    Chars,
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
from clawbot.text.secrets import redact

Weight = Annotated[float, Field(ge=-100, le=100)]

Hash = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]


class LineWeights(SettingsSection):
    """How lines are ranked in the profile `lines`. For comparison: a rare matching word scores about 8 before its
    weight."""

    term: Weight = 0.39
    """A word of the question in the line or near it, times its rarity (0 to 8)."""
    section: Weight = 0.20
    """The same anywhere under the line's heading: the topic of the section."""
    note: Weight = 0.05
    """The same anywhere in the line's file: its subject."""
    together: Weight = 2.4
    """Square of the share of the question's words (0 to 1) in the line or near it."""
    meaning: Weight = 6.3
    """Cosine similarity of the question and the line with its neighbours."""
    note_meaning: Weight = 2.0
    """Cosine similarity of the question and the nearest line of the same file."""
    echo: Weight = 1.5
    """Cosine similarity of the line and the three best lines."""
    exact: Weight = 9.0
    """Rare words of the question in the line itself, as typed, by their share of the question."""
    rare: Weight = 6.0
    """Rarity (0 to 8) from which a word counts as rare."""
    speaker: Weight = 3.7
    """The line is spoken by somebody named in the question."""
    speaker_near: Weight = 3.0
    """Somebody named in the question speaks under the same heading."""
    day: Weight = 5.0
    """The note is dated with, or the line mentions, a day named in the question."""
    when: Weight = 2.4
    """The line has words of date or time, and the question asks when."""
    number: Weight = 3.0
    """The line has a number, and the question asks how many or how much."""
    question: Weight = -0.5
    """The line is itself a question: the answer is elsewhere."""
    answer: Weight = 0.14
    """Words of the question in the preceding line, if that is a question (like term)."""
    heading: Weight = -2.0
    """The line is a heading; the text below it is the better answer."""
    by_user: Weight = -0.05
    """The user wrote it in a conversation: otherwise equal lines of files rank first."""
    by_agent: Weight = -0.1
    """The agent wrote it: otherwise equal lines of the user rank first."""
    before: Share = 0.7
    """Weight of a word one line before: often the question that a line answers."""
    after: Share = 0.5
    """Weight of a word one line after."""
    two_before: Share = 0.35
    """Weight of a word two lines before."""
    two_after: Share = 0.25
    """Weight of a word two lines after."""
    inflected: Share = 0.9
    """Weight of another form of a word (gave for give)."""
    same_meaning: Share = 0.7
    """Weight of a synonym relative to the word itself."""
    translated: Share = 0.7
    """Weight of a word of another language relative to the question's word."""
    broader: Share = 0.35
    """Weight of a broader word (drink for coffee)."""
    misspelt: Share = 0.7
    """Weight of a word of the notes that is a slip away from a word that no note has."""
    begun: Share = 0.6
    """Weight of a word that starts with the word being typed."""
    begun_stem: Share = 0.3
    """Weight of a word that starts with its possible stem."""
    by_words: Positive = 300
    """Candidate lines by words, in a one-shot search of a large index."""
    by_meaning: Positive = 300
    """Candidate lines by vectors, in a one-shot search of a large index."""
    by_day: Positive = 300
    """Candidate lines by a day named in the question."""
    promising: Positive = 300
    """Lines scored exactly when the entire index is in memory."""
    postings: Positive = 20_000
    """Lines read for one word; in a large index a fifth of all. Words in more lines mean little."""
    least_score: Share = 0.05
    """Minimum score of a line without any word of the question."""
    least_words: Weight = 3.0
    """Minimum total rarity of the matching words for a line to match by words."""
    least_nearness: Weight = 4.2
    """Without matching words: how much nearer than others a line must be, in standard deviations over all lines."""
    ranked: Positive = 60
    """Best lines from which results are built."""
    first_chars: Positive = 1_500
    """Characters of the best lines on the first page, before their context is added."""
    first_ranges: Positive = 4
    """Results of the first page."""
    range_chars: Positive = 700
    """Maximum characters of a result; a longer line is kept, or truncated to the remaining budget if that is at
    least as much."""
    list_chars: Positive = 350
    """Maximum characters of the list that a heading or a lead line brings along."""
    gap: Count = 1
    """Maximum lines between two good ones that are merged into one result."""

    @property
    def window(self) -> tuple[tuple[int, float], ...]:
        """Pairs of distance in lines and weight of a word."""
        return (0, 1.0), (-1, self.before), (1, self.after), (-2, self.two_before), (2, self.two_after)


Source = Literal["memory", "sessions"]

NO_PROVIDERS = ("auto", "offline", "none")
"""Values that name no remote embedding provider: local embeddings, or words alone."""

VECTOR_PROVIDERS = frozenset((
    "azure", "azure_ai", "bedrock", "cohere", "cohere_chat", "cometapi", "dashscope", "databricks", "deepinfra",
    "edenai", "fireworks_ai", "gemini", "gigachat", "github_copilot", "hosted_vllm", "huggingface", "infinity",
    "jina_ai", "litellm_proxy", "llamafile", "lm_studio", "mistral", "nebius", "nvidia_nim", "oci", "ollama",
    "oobabooga", "openai", "openai_like", "openrouter", "ovhcloud", "perplexity", "sagemaker", "sambanova", "sap",
    "snowflake", "together_ai", "triton", "vercel_ai_gateway", "vertex_ai", "volcengine", "voyage", "wandb",
    "watsonx", "xinference",
))  # fmt: skip
"""The embedding providers that litellm supports."""

_SHOWN = 60


class ExtraPath(SettingsSection):
    """A file or folder besides the workspace's memory that is indexed too."""

    path: TildePath
    """Absolute, or relative to the workspace."""
    pattern: str = "**/*.md"
    """Glob of the files in a folder."""


def _as_extra_path(value: Any) -> Any:
    return {"path": value} if isinstance(value, str | Path) else value


class RemoteSettings(SettingsSection):
    """Remote embeddings."""

    api_base: str | None = None
    """The URL of an OpenAI-compatible server; null for the provider's default."""
    api_key: Secret | None = None
    """The API key; api_key_env is the better choice."""
    api_key_env: VariableName | None = None
    """The environment variable with the key; null for the provider's usual one."""


class ChunkingSettings(SettingsSection):
    """How text is split into chunks."""

    tokens: Positive = 400
    """Tokens in a chunk, in the profile `classic`."""
    overlap: Count = 80
    """Tokens that a chunk repeats from the one before, in the profile `classic`."""
    piece_chars: Positive = 800
    """Characters above which a chunk is split between its lines, in the profile `lines`."""
    code_chars: Positive = 2_000
    """The same for code."""

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> Self:
        if self.overlap >= self.tokens:
            raise expected("an overlap smaller than tokens", show=False)
        return self


class MmrSettings(SettingsSection):
    """Diversity of the results (maximal marginal relevance), in the profile `classic`."""

    enabled: Switch = True
    """Whether results are reordered."""
    lambda_: Share = Field(0.7, alias="lambda")
    """1 for relevance only, 0 for diversity only."""


class TemporalDecaySettings(SettingsSection):
    """Lower scores for old daily notes, in the profile `classic`."""

    enabled: Switch = False
    """Whether age lowers the score."""
    half_life_days: Positive = 30
    """Age in days at which a note's score is halved."""


class HybridSettings(SettingsSection):
    """How vector search and word search are combined."""

    enabled: Switch = True
    """Off: vectors alone, where there are any."""
    vector_weight: Share | None = None
    """Weight of vectors; null for 0.7. The two weights are scaled to sum to 1; in the profile `lines`, 0.7 and 0.3
    leave the weights of `query.lines` as they are, and others shift them in proportion."""
    text_weight: Share | None = None
    """Weight of words; null for 0.3."""
    candidate_multiplier: Annotated[int, Field(ge=1, le=20)] = 4
    """Number of candidates for each result, in the profile `classic`."""
    mmr: MmrSettings = MmrSettings()
    """Diversity of the results, in the profile `classic`."""
    temporal_decay: TemporalDecaySettings = TemporalDecaySettings()
    """Lower scores for old notes, in the profile `classic`."""

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.vector_weight == 0 and self.text_weight == 0:
            raise expected("a vector_weight or a text_weight above 0", show=False)
        return self


class OnnxSettings(SettingsSection):
    """The model of `rerank: onnx`, which needs the extra `rerank`: docs/memory.md."""

    model: str | None = None
    """A folder with model.onnx and tokenizer.json, or the URL of the first: a cross-encoder, or a model that makes
    vectors of sentences."""
    sha256: Hash | None = None
    """The SHA-256 of the model; required with a URL."""
    tokenizer: str | None = None
    """The URL of tokenizer.json, with the URL of a model."""
    tokenizer_sha256: Hash | None = None
    """Its SHA-256; required with a URL."""
    threads: Annotated[int, Field(ge=1, le=64)] = 2
    """How many threads compute."""
    timeout: Duration = 3.0
    """Time limit, after which the order is unchanged."""

    @model_validator(mode="after")
    def _address_has_hashes(self) -> Self:
        if self.is_url and not (self.sha256 and self.tokenizer and self.tokenizer_sha256):
            raise expected("sha256, tokenizer and tokenizer_sha256 with the URL of a model", show=False)
        return self

    @property
    def is_url(self) -> bool:
        """Whether the model has to be downloaded."""
        return self.model is not None and "://" in self.model


class QuerySettings(SettingsSection):
    """What a search returns."""

    max_results: Positive | None = None
    """Maximum number of results of a search that states none, null for 6; four times as many in the profile `lines`,
    whose results are short."""
    max_chars: Positive = 2_500
    """Characters of all results together, in the profile `lines`."""
    min_score: Share | None = None
    """Results with a lower score are dropped; null for the profile's own (lines 0, classic 0.35)."""
    max_injected_chars: Chars = 4_000
    """Characters of the entire answer to one search, with file names and line numbers, whatever the model requests; or
    tokens, as `1000 tokens`."""
    timeout: Duration = 30.0
    """Time limit of a search; after it the search returns what it has. A search on the command line waits as long for
    the provider."""
    wait_for_writes: Duration = 0.5
    """How long a search waits for the indexing of earlier changes."""
    wait_for_vectors: Duration = 2.0
    """How long `clawbot memory search` computes missing vectors before it answers."""
    rerank: Literal["off", "model", "onnx"] = "off"
    """Who orders the first results: `model`, the agent's model; `onnx`, a small model on this machine."""
    onnx: OnnxSettings = OnnxSettings()
    """The small model."""
    transcript_weight: Share = 0.7
    """Factor on the score of text from a conversation, relative to a note."""
    hybrid: HybridSettings = HybridSettings()
    """How vector search and word search are combined."""
    lines: LineWeights = LineWeights()
    """How lines are ranked, in the profile `lines`. The numbers were learned together: change one at a time."""

    @model_validator(mode="after")
    def _reader_is_named(self) -> Self:
        if self.rerank == "onnx" and self.onnx.model is None:
            raise expected("onnx.model with rerank: onnx", show=False)
        return self


class SessionSyncSettings(SettingsSection):
    """When transcripts are indexed again, with `sessions` among the sources."""

    delta_bytes: Count = 100_000
    """New bytes in a transcript; 0 for any change."""
    delta_messages: Count = 50
    """New messages in a transcript; 0 for any change."""


class SyncSettings(SettingsSection):
    """When the index is synchronised."""

    on_session_start: Switch = True
    """When a session starts."""
    on_search: Switch = True
    """Before a search."""
    watch: Switch = True
    """When a file changes."""
    watch_debounce_ms: Count = 1_500
    """How long a file must be unchanged before it is read, in milliseconds. A search does not wait for it."""
    interval_minutes: Count = 0
    """Interval in minutes; 0 for never."""
    sessions: SessionSyncSettings = SessionSyncSettings()
    """For transcripts."""


class CacheSettings(SettingsSection):
    """The cache of embeddings, so that the same text is embedded once."""

    enabled: Switch = True
    """Whether embeddings are cached."""
    max_entries: Positive | None = 50_000
    """Maximum number of entries; the least recently used are evicted. null for no limit."""


def _check_sources(value: list[Source]) -> list[Source]:
    if not value:
        raise expected("memory, sessions or both (enabled: false switches the index off)")
    return value


class MemorySearchSettings(SettingsSection):
    """The index over the memory files."""

    enabled: Switch = True
    """Whether there is an index, with the tools memory_search, memory_get, sessions_search and sessions_read."""
    profile: Literal["lines", "classic"] = "lines"
    """`lines`: small chunks by structure. `classic`: chunks of equal size, ranked as in older systems."""
    provider: str = Field("auto", min_length=1)
    """Source of embeddings: auto, offline, none (words alone), or a provider such as openai, gemini, ollama."""
    model: str | None = None
    """The embedding model; null for the provider's default."""
    remote: RemoteSettings = RemoteSettings()
    """Remote embeddings."""
    sources: Annotated[list[Source], AfterValidator(_check_sources)] = Field(["memory", "sessions"])
    """`memory` for the Markdown files, `sessions` for the messages of the agent's conversations."""
    extra_paths: list[Annotated[ExtraPath, BeforeValidator(_as_extra_path)]] = Field([])
    """Additional files or folders: a path, or {path, pattern}. Relative ones start at the workspace."""
    chunking: ChunkingSettings = ChunkingSettings()
    """How text is split into chunks."""
    query: QuerySettings = QuerySettings()
    """What a search returns."""
    sync: SyncSettings = SyncSettings()
    """When the index is synchronised."""
    cache: CacheSettings = CacheSettings()
    """The cache of embeddings."""

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
