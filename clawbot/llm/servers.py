"""Model servers of this machine: detects them on their usual ports, and remembers which of them may be used."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths, find_home
from clawbot.files import PRIVATE_FILE, locked, read_plain, write_atomic
from clawbot.llm.providers import (
    LLAMA_CPP,
    LM_STUDIO,
    LOCAL_SERVERS,
    OLLAMA,
    VLLM,
    LocalServer,
    is_loopback,
    local_server,
)
from clawbot.local_model.register import answers, read_running
from clawbot.local_model.store import LOCAL
from clawbot.text.interface import N_
from clawbot.text.numbers import whole_number

PROBE_SECONDS = 0.5
"""A server on this machine answers in a few milliseconds; this is for one that is busy."""
OLLAMA_WINDOW = 32_768
"""Tokens. Ollama cuts prompts silently at 4,096 unless it is asked for more, and what it is asked for costs memory: so
this is asked for, where the model can do it and was not set to anything else."""
OLLAMA_USUAL = 4_096
"""What Ollama loads a model with when nobody asked for anything."""
FROM_SERVER = N_("from the server")
ANY_NAME = "model"
"""The name of a model while its server loads it: llama.cpp answers to any name."""
_OWNERS = {"llamacpp": LLAMA_CPP.title, "vllm": VLLM.title}
_MAX_ANSWER = 4 * 1024**2
# Models that only embed.
_EMBEDDING = ("embed", "bge-", "minilm", "rerank")


class LocalModel(Struct, frozen=True):
    """A model of a server here. `ref` is its name for litellm, `base` the server's address, `window` is in tokens.
    `window_source` is a half sentence for the user. `loading`: the server is there and reads the model, so that
    nothing is known of it yet."""

    ref: str
    server: str
    base: str
    window: int | None = None
    window_source: str = FROM_SERVER
    tools: bool = True
    images: bool = False
    loading: bool = False

    @property
    def here(self) -> str:
        """The server, if it runs the model on this machine; Ollama has some run elsewhere."""
        return self.server if is_loopback(self.base) and not self.ref.endswith("cloud") else ""


async def find_local(
    servers: Sequence[LocalServer] = LOCAL_SERVERS, base: str | None = None, key: str | None = None
) -> list[LocalModel]:
    """The models of all servers that answer, in the order of `servers`. Never raises: what fails is not there.

    `base` is where they are, None: on their usual ports of this machine; `key` is what they want to see.
    """
    asked = [asyncio.to_thread(_models_of, server, base, key) for server in servers]
    own = [asyncio.to_thread(_own_models)] if base is None and LLAMA_CPP in servers else []
    found = await asyncio.gather(*own, *asked)
    return [model for models in found for model in models]


def _own_models() -> list[LocalModel]:
    """Return those that a clawbot serves on this machine, by its register."""
    return [
        LocalModel(f"{LOCAL}{each.name}", "clawbot's own server", each.base, window=each.window)
        for each in read_running(Paths(find_home()).local_file)
        if answers(each)
    ]


def base_of(server: LocalServer) -> str:
    """Return the address of `server`: its usual port, or for Ollama that of OLLAMA_HOST, if it is this machine."""
    if server is OLLAMA:
        return _ollama_host(os.environ.get("OLLAMA_HOST", "")) or server.base
    return server.base


def _ollama_host(value: str) -> str | None:
    value = value.strip()
    if not value:
        return None
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host, port = parts.hostname or "127.0.0.1", parts.port or OLLAMA.port
    except ValueError:
        return None
    try:
        address = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return None
    if address.is_unspecified:
        # That is where a server listens, not where it is called.
        return f"http://127.0.0.1:{port}"
    return f"http://{f'[{address}]' if address.version == 6 else address}:{port}" if address.is_loopback else None


def _ask(url: str, body: Mapping[str, Any] | None = None, *, key: str | None = None) -> dict[str, Any]:
    """Return the JSON object at `url` (POST with a `body`); {} for none. Blocks."""
    status, answer = _fetch(url, body, key)
    return answer if status == 200 else {}


def _fetch(url: str, body: Mapping[str, Any] | None = None, key: str | None = None) -> tuple[int, dict[str, Any]]:
    """Return status and JSON object; 0 and {} without an answer. Blocks."""
    try:
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=PROBE_SECONDS)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            data = msgspec.json.encode(body) if body is not None else None
            connection.request("POST" if body is not None else "GET", parts.path, data, headers)
            response = connection.getresponse()
            answer = msgspec.json.decode(response.read(_MAX_ANSWER))
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError, RecursionError):
        return 0, {}
    return response.status, _object(answer)


def _models_of(server: LocalServer, base: str | None, key: str | None) -> list[LocalModel]:
    base = (base or base_of(server)).rstrip("/")
    if server is LLAMA_CPP:
        return _llama_cpp(base, key)
    if server is VLLM:
        return _listed(VLLM, base, owner="vllm", key=key)
    return _ollama(base) if server is OLLAMA else _lm_studio(base)


def _ollama(base: str) -> list[LocalModel]:
    names = [str(entry["name"]) for entry in _entries(_ask(f"{base}/api/tags").get("models")) if entry.get("name")]
    loaded = _entries(_ask(f"{base}/api/ps").get("models")) if names else []
    running = {str(entry.get("name")): _size(entry.get("context_length")) for entry in loaded}
    return [_ollama_model(base, name, running.get(name)) for name in names if _can_chat(name)]


def _ollama_model(base: str, name: str, running: int | None) -> LocalModel:
    """Return the model `name`; `running` is its current window, None if it is not loaded."""
    shown = _ask(f"{base}/api/show", {"model": name})
    sizes = [size for key, size in _object(shown.get("model_info")).items() if key.endswith(".context_length")]
    tools, images = _ollama_able(shown)
    window, source = _ollama_window(_num_ctx(shown), running, _size(sizes[0] if sizes else None))
    return LocalModel(
        ref=f"{OLLAMA.name}/{name}",
        server=OLLAMA.title,
        base=base,
        window=window,
        window_source=source,
        tools=tools,
        images=images,
    )


def _ollama_able(shown: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the model can call tools, and see. Older versions report neither."""
    able = shown.get("capabilities")
    return (not isinstance(able, list) or "tools" in able), (isinstance(able, list) and "vision" in able)


def _ollama_window(set_to: int | None, running: int | None, made_for: int | None) -> tuple[int, str]:
    """Return the window to ask Ollama for, and its source. A chosen one is kept: another would make Ollama reload the
    model."""
    if set_to:
        return set_to, N_("num_ctx of the model in Ollama")
    if running and running > OLLAMA_USUAL:
        return running, N_("Ollama runs it with that")
    return min(made_for or OLLAMA_WINDOW, OLLAMA_WINDOW), N_("Ollama is asked for that")


def _num_ctx(shown: Mapping[str, Any]) -> int | None:
    for line in str(shown.get("parameters") or "").splitlines():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and (size := whole_number(value.strip())) is not None:
            return size
    return None


def _lm_studio(base: str) -> list[LocalModel]:
    root = base.removesuffix("/v1")
    answer = _ask(f"{root}/api/v0/models")
    if "data" in answer:
        entries = [entry for entry in _entries(answer["data"]) if entry.get("type") in ("llm", "vlm")]
        entries.sort(key=lambda entry: entry.get("state") != "loaded")
        return [_lm_studio_model(base, entry) for entry in entries if entry.get("id")]
    return _listed(LM_STUDIO, base, owner="organization_owner")


def _lm_studio_model(base: str, entry: Mapping[str, Any]) -> LocalModel:
    loaded = _size(entry.get("loaded_context_length"))
    return LocalModel(
        ref=f"{LM_STUDIO.name}/{entry['id']}",
        server=LM_STUDIO.title,
        base=base,
        window=loaded or _size(entry.get("max_context_length")),
        window_source=FROM_SERVER if loaded else N_("the most it can; LM Studio has not loaded it"),
        images=entry.get("type") == "vlm",
    )


def _llama_cpp(base: str, key: str | None) -> list[LocalModel]:
    models = _listed(LLAMA_CPP, base, owner="llamacpp", key=key)
    if not models and _is_loading(*_fetch(f"{base}/models")):
        return [LocalModel(f"{LLAMA_CPP.name}/{ANY_NAME}", LLAMA_CPP.title, base, loading=True)]
    return [_with_props(model, key) for model in models]


def _is_loading(status: int, answer: Mapping[str, Any]) -> bool:
    """Whether a llama.cpp answered that it is loading its model."""
    return status == 503 and _object(answer.get("error")).get("message") == "Loading model"


def _with_props(model: LocalModel, key: str | None) -> LocalModel:
    """Return `model` with the properties of its llama.cpp server."""
    props = _ask(f"{model.base.removesuffix('/v1')}/props", key=key)
    window = _size(_object(props.get("default_generation_settings")).get("n_ctx")) or _size(props.get("n_ctx"))
    return msgspec.structs.replace(
        model,
        window=window or model.window,
        tools=_object(props.get("chat_template_caps")).get("supports_tools") is not False,
        images=_object(props.get("modalities")).get("vision") is True,
    )


def _listed(server: LocalServer, base: str, *, owner: str, key: str | None = None) -> list[LocalModel]:
    """Return the models of an OpenAI-compatible list, if `owner` made it: other programs use such ports too."""
    answer = _ask(f"{base}/models", key=key)
    if answer.get("object") != "list":
        return []
    entries = [entry for entry in _entries(answer.get("data")) if entry.get("owned_by") == owner and entry.get("id")]
    return [
        LocalModel(f"{server.name}/{entry['id']}", server.title, base, window=_listed_window(entry))
        for entry in entries
        if _can_chat(str(entry["id"]))
    ]


def listed_models(base: str, key: str | None) -> list[str]:
    """The names of the models that the OpenAI-compatible server at `base` lists. Blocks."""
    entries = _entries(_ask(f"{base.rstrip('/')}/models", key=key).get("data"))
    return [str(entry["id"]) for entry in entries if entry.get("id") and _can_chat(str(entry["id"]))]


def served_model(base: str, name: str, key: str | None) -> LocalModel | None:
    """Return what the OpenAI-compatible server at `base` reports of the model `name`; None if nothing. Blocks. A server
    that has one model, and llama.cpp, answer whatever the name is. LM Studio, gateways of LiteLLM and Ollama are asked
    in their own ways for what such a list does not hold."""
    base = base.rstrip("/")
    root = base.removesuffix("/v1")
    status, answer = _fetch(f"{base}/models", key=key)
    if _is_loading(status, answer):
        return LocalModel(f"openai/{name}", LLAMA_CPP.title, base, loading=True)
    entry = _entry_for(name, _entries(answer.get("data")))
    if entry is None:
        return None
    found = LocalModel(
        f"openai/{name}", _OWNERS.get(str(entry.get("owned_by")), ""), base, window=_listed_window(entry)
    )
    if entry.get("owned_by") == "llamacpp":
        return _with_props(found, key)
    if found.window is not None:
        return found
    if entry.get("owned_by") == "organization_owner":
        return next((model for model in _lm_studio(base) if model.ref == f"{LM_STUDIO.name}/{entry['id']}"), found)
    return _behind_gateway(found, root, name, key) or _in_ollama(found, root, name) or found


def _entry_for(name: str, entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    chats = [entry for entry in entries if entry.get("id") and _can_chat(str(entry["id"]))]
    named = [entry for entry in entries if entry.get("id") == name]
    if named or len(chats) == 1:
        return (named or chats)[0]
    return next((entry for entry in chats if entry.get("owned_by") == "llamacpp"), None)


def _behind_gateway(found: LocalModel, root: str, name: str, key: str | None) -> LocalModel | None:
    """Return what a LiteLLM gateway reports; any of several models of that name may answer."""
    entries = _entries(_ask(f"{root}/model/info", key=key).get("data"))
    infos = [_object(entry.get("model_info")) for entry in entries if entry.get("model_name") == name]
    if not infos:
        return None
    windows = [window for one in infos if (window := _size(one.get("max_input_tokens") or one.get("max_tokens")))]
    return msgspec.structs.replace(
        found,
        window=min(windows, default=None),
        tools=all(one.get("supports_function_calling") is not False for one in infos),
        images=all(one.get("supports_vision") is True for one in infos),
    )


def _in_ollama(found: LocalModel, root: str, name: str) -> LocalModel | None:
    """Return what Ollama reports of a model that is called by OpenAI's protocol, which can't set a window."""
    shown = _ask(f"{root}/api/show", {"model": name})
    if not shown:
        return None
    loaded = _entries(_ask(f"{root}/api/ps").get("models"))
    running = next((entry for entry in loaded if entry.get("name") in (name, f"{name}:latest")), {})
    window = _num_ctx(shown) or _size(running.get("context_length"))
    tools, images = _ollama_able(shown)
    return msgspec.structs.replace(found, server=OLLAMA.title, window=window, tools=tools, images=images)


def _listed_window(entry: Mapping[str, Any]) -> int | None:
    """Return the window in an entry of a list of models, as vLLM and SGLang or as routers name it."""
    return _size(entry.get("max_model_len")) or _size(entry.get("context_length"))


def _entries(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _size(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _can_chat(name: str) -> bool:
    return not any(mark in name.lower() for mark in _EMBEDDING)


log = logging.getLogger(__name__)

_MAX_FILE = 64 * 1024


class _Kept(Struct):
    """The content of the file."""

    allowed: list[str]


class ServerConsent:
    """Which addresses may be used: for good, in `file`, or while this program runs. Any process may listen on a usual
    port: without consent it would be sent the conversation and the notes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._allowed: set[str] = set()
        self._settled: set[str] = set()

    def covers(self, found: LocalModel) -> bool:
        """Whether `found` may be used without a question. Blocks."""
        if found.ref.startswith(LOCAL) or found.base in self._allowed:
            return True
        named = local_server(found.ref) is OLLAMA and bool(os.environ.get("OLLAMA_HOST", "").strip())
        return named or found.base in self._read()

    def is_open(self, base: str) -> bool:
        """Whether the user has not been asked about `base` since the program began."""
        return base not in self._settled

    def settle(self, base: str) -> None:
        self._settled.add(base)

    def allow(self, base: str, *, always: bool) -> None:
        """Allow `base`, in later starts too if `always`. Blocks. Raises OSError if that can't be stored; then it is
        allowed for now."""
        self._allowed.add(base)
        if always:
            with locked(self._file.with_name(f"{self._file.name}.lock")):
                kept = _Kept(sorted({*self._read(), base}))
                write_atomic(self._file, msgspec.json.encode(kept) + b"\n", mode=PRIVATE_FILE)

    def _read(self) -> set[str]:
        try:
            return set(msgspec.json.decode(read_plain(self._file, _MAX_FILE), type=_Kept).allowed)
        except FileNotFoundError:
            return set()
        except (OSError, ValueError) as error:
            log.warning("%s can't be read, so its servers are asked about again: %s", self._file, error)
            return set()
