"""The makers and servers of models that clawbot knows by name: keys, default models, addresses, limits. Only tables."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from msgspec import Struct, field


class Provider(Struct, frozen=True):
    """Who serves models behind a key.

    `name` is litellm's, `keys` are the environment variables that may hold the key (the usual one first), `default`
    is the model that `auto` takes.
    """

    name: str
    title: str
    keys: tuple[str, ...]
    default: str


class LocalServer(Struct, frozen=True):
    """A server on this machine. `base` is where litellm calls it, `port` where it usually listens."""

    name: str
    title: str
    port: int
    path: str = "/v1"

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"


class EmbeddingLimits(Struct, frozen=True):
    """What one call takes: how many `texts`, how many `tokens` altogether, and of one text (`each`)."""

    texts: int = 64
    tokens: int = 32_000
    each: int = 8_000


class EmbeddingProvider(Struct, frozen=True):
    """A provider of embedding models. `document` and `query` are litellm's arguments for the purpose of a text."""

    name: str
    title: str
    keys: tuple[str, ...]
    default: str
    limits: EmbeddingLimits = EmbeddingLimits()
    document: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)


# In the order in which `auto` checks. The defaults are checked against litellm's own table by a test.
PROVIDERS: tuple[Provider, ...] = (
    Provider("anthropic", "Anthropic", ("ANTHROPIC_API_KEY",), "anthropic/claude-sonnet-5-5"),
    Provider("openai", "OpenAI", ("OPENAI_API_KEY",), "openai/gpt-6.1-sol"),
    Provider("gemini", "Google Gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini/gemini-3.8-flash"),
    Provider("openrouter", "OpenRouter", ("OPENROUTER_API_KEY", "OR_API_KEY"), "openrouter/auto"),
    Provider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",), "deepseek/deepseek-v4-pro"),
    Provider("moonshot", "Moonshot", ("MOONSHOT_API_KEY",), "moonshot/kimi-k3"),
    Provider("groq", "Groq", ("GROQ_API_KEY",), "groq/openai/gpt-oss-120b"),
    Provider("mistral", "Mistral", ("MISTRAL_API_KEY",), "mistral/mistral-large-latest"),
    Provider("xai", "xAI", ("XAI_API_KEY",), "xai/grok-4.7"),
    Provider("zai", "Z.ai", ("ZAI_API_KEY",), "zai/glm-5.3"),
    Provider("dashscope", "Qwen (DashScope)", ("DASHSCOPE_API_KEY",), "dashscope/qwen3.8-max"),
    Provider("minimax", "MiniMax", ("MINIMAX_API_KEY",), "minimax/MiniMax-M3"),
    Provider("together_ai", "Together", ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"), "together_ai/zai-org/GLM-5.3"),
    Provider("fireworks_ai", "Fireworks", ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"), "fireworks_ai/kimi-k3"),
    Provider("cerebras", "Cerebras", ("CEREBRAS_API_KEY",), "cerebras/gpt-oss-120b"),
    Provider("cohere_chat", "Cohere", ("COHERE_API_KEY", "CO_API_KEY"), "cohere_chat/command-a-plus-05-2026"),
)
KEYS: dict[str, Provider] = {key: provider for provider in PROVIDERS for key in provider.keys}
"""Environment variable -> the provider whose key it holds."""

# In the order in which `auto` takes them.
OLLAMA = LocalServer("ollama_chat", "Ollama", 11434, path="")
LM_STUDIO = LocalServer("lm_studio", "LM Studio", 1234)
LLAMA_CPP = LocalServer("llamafile", "llama.cpp", 8080)
VLLM = LocalServer("hosted_vllm", "vLLM", 8000)
LOCAL_SERVERS: tuple[LocalServer, ...] = (OLLAMA, LM_STUDIO, LLAMA_CPP, VLLM)

# The limits are those of the providers' documents, or below them: tokens are estimated before the call.
EMBEDDERS: tuple[EmbeddingProvider, ...] = (
    EmbeddingProvider(
        "openai", "OpenAI", ("OPENAI_API_KEY",), "text-embedding-3-small", EmbeddingLimits(256, 200_000, 8_000)
    ),
    EmbeddingProvider(
        "gemini",
        "Google Gemini",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "gemini-embedding-001",
        EmbeddingLimits(100, 100_000, 2_000),
        {"task_type": "RETRIEVAL_DOCUMENT"},
        {"task_type": "RETRIEVAL_QUERY"},
    ),
    EmbeddingProvider(
        "voyage",
        "Voyage",
        ("VOYAGE_API_KEY",),
        "voyage-3.5",
        EmbeddingLimits(256, 100_000, 30_000),
        {"input_type": "document"},
        {"input_type": "query"},
    ),
    EmbeddingProvider("mistral", "Mistral", ("MISTRAL_API_KEY",), "mistral-embed", EmbeddingLimits(128, 14_000, 7_500)),
    EmbeddingProvider(
        "cohere",
        "Cohere",
        ("COHERE_API_KEY", "CO_API_KEY"),
        "embed-v4.0",
        EmbeddingLimits(96, 100_000, 8_000),
        {"input_type": "search_document"},
        {"input_type": "search_query"},
    ),
    EmbeddingProvider("ollama", "Ollama", (), "nomic-embed-text", EmbeddingLimits(32, 32_000, 8_000)),
)
EMBEDDING_PREFIXES: tuple[tuple[str, str, str], ...] = (
    ("nomic-embed-text", "search_document: ", "search_query: "),
    ("mxbai-embed", "", "Represent this sentence for searching relevant passages: "),
    ("multilingual-e5", "passage: ", "query: "),
)
"""A part of a model's name -> what it was trained to read before a document and before a question."""

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_BY_NAME = {provider.name: provider for provider in PROVIDERS}
_LOCAL_BY_NAME = {server.name: server for server in LOCAL_SERVERS}
_EMBEDDERS_BY_NAME = {provider.name: provider for provider in EMBEDDERS}
_TITLES = {
    "local": "The local model",
    "azure": "Azure",
    "bedrock": "Bedrock",
    "vertex_ai": "Vertex AI",
    "script": "The script",
}


# The domains of those that a model can be called at by the name of its maker. All other addresses are somebody else's.
_DOMAINS: dict[str, tuple[str, ...]] = {
    "anthropic": ("anthropic.com",),
    "azure": ("azure.com", "azure.us", "azure.cn"),
    "azure_ai": ("azure.com",),
    "bedrock": ("amazonaws.com",),
    "cerebras": ("cerebras.ai",),
    "cohere": ("cohere.com", "cohere.ai"),
    "cohere_chat": ("cohere.com", "cohere.ai"),
    "dashscope": ("aliyuncs.com",),
    "deepseek": ("deepseek.com",),
    "fireworks_ai": ("fireworks.ai",),
    "gemini": ("googleapis.com",),
    "groq": ("groq.com",),
    "minimax": ("minimax.io", "minimaxi.com", "minimax.chat"),
    "mistral": ("mistral.ai",),
    "moonshot": ("moonshot.ai", "moonshot.cn"),
    "openai": ("openai.com",),
    "openrouter": ("openrouter.ai",),
    "together_ai": ("together.ai", "together.xyz"),
    "vertex_ai": ("googleapis.com",),
    "voyage": ("voyageai.com",),
    "xai": ("x.ai",),
    "zai": ("z.ai", "bigmodel.cn"),
}


# The variables by which the environment names another address of a vendor, where it is not NAME_API_BASE; litellm goes
# by them.
_BASES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    "cohere_chat": ("COHERE_API_BASE",),
    "fireworks_ai": ("FIREWORKS_API_BASE",),
}


def base_of_environment(ref: str) -> str | None:
    """The address that a variable of the environment names for all models of the vendor of `ref`; None without one."""
    name = provider_name(ref)
    names = _BASES.get(name, (f"{name.upper()}_API_BASE",)) if name in _BY_NAME else ()
    return next((base for variable in names if (base := os.environ.get(variable, "").strip())), None)


def is_loopback(base: str) -> bool:
    """Whether the address `base` is on this machine."""
    return (urlsplit(base).hostname or "") in _LOOPBACK


def is_vendors_own(ref: str, base: str | None) -> bool:
    """Whether a call of `ref` at the address `base` (None: where litellm goes by itself) is answered by the vendor that
    the name names, and not by a server or a gateway that speaks like it."""
    if base is None:
        return local_server(ref) is None
    host = (urlsplit(base).hostname or "").lower()
    return any(host == domain or host.endswith(f".{domain}") for domain in _DOMAINS.get(provider_name(ref), ()))


def answerer(ref: str, base: str | None) -> str:
    """Who answers a call of `ref` at the address `base`, for the user: the vendor by its name, anybody else by host and
    port. Never with a password that is in the address."""
    if base is None or is_vendors_own(ref, base):
        return title_of(ref)
    parts = urlsplit(base)
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    host = parts.hostname or base.rpartition("@")[2]
    where = f"{f'[{host}]' if ':' in host else host}{port}"
    return f"{title_of(ref)} at {where}" if local_server(ref) or provider_name(ref) == "ollama" else where


def provider_name(ref: str) -> str:
    """Return the part before the first slash of `provider/model`."""
    return ref.partition("/")[0]


def key_names(ref: str) -> tuple[str, ...]:
    """The environment variables that may hold the key for the model `ref`; empty when it is not in the table."""
    name = provider_name(ref)
    provider = _BY_NAME.get(name) or _EMBEDDERS_BY_NAME.get(name)
    return provider.keys if provider else ()


def embedding_provider(ref: str) -> EmbeddingProvider | None:
    """What is known of the provider of the embedding model `ref`; None for one that is not in the table."""
    return _EMBEDDERS_BY_NAME.get(provider_name(ref))


def local_server(ref: str) -> LocalServer | None:
    """The server on this machine that `ref` names; None for any other model."""
    return _LOCAL_BY_NAME.get(provider_name(ref))


def is_known(name: str) -> bool:
    """Whether `name` is a provider or a server of the tables, or of litellm's that need more than a key."""
    return name in _BY_NAME or name in _LOCAL_BY_NAME or name in _TITLES


def title_of(ref: str) -> str:
    """The provider's name as people write it."""
    name = provider_name(ref)
    known = _BY_NAME.get(name) or _LOCAL_BY_NAME.get(name) or _EMBEDDERS_BY_NAME.get(name)
    return known.title if known else _TITLES.get(name, name)
