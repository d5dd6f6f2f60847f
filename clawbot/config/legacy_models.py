"""Moves the models of related programs to an agent's `model`, `fallbacks`, `api_base` and key: OpenClaw's
`models.providers`, and LiteLLM's `model_list`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clawbot.config.mover import Mover
from clawbot.config.paths import DEFAULTS
from clawbot.config.references import name_in
from clawbot.config.source import KeyPath
from clawbot.text.interface import N_

# OpenClaw takes the name of a variable for a key, too.
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_OTHER_SERVER = N_("one agent has one address; give this model to an agent of its own (docs/configuration.md)")
_ELSEWHERE = N_("write the key to .env of the state folder, and its name as api_key_env")
_CHOICE = N_("these are no fallbacks of the first model: `/model` and `model` choose another one")
_INCLUDED = N_("the files that it names are not read: copy their keys here")
_MODELS = "agents.*.subagents.model agents.*.compaction.model agents.*.compaction.memory_flush.model"


class _Provider(NamedTuple):
    """litellm's `prefix` of its models, its `address` (`api_base` and the key as settings), and the `windows` of its
    models. `known`: litellm finds the models without the address."""

    prefix: str
    address: Mapping[str, Any]
    windows: Mapping[str, int]
    known: bool

    def reaches(self, other: _Provider) -> bool:
        """Whether an agent with this address can call the models of `other`, too."""
        is_same = self.prefix == other.prefix
        return (is_same and self.address == other.address) or (other.known and not is_same)


def move_providers(mover: Mover, table: Mapping[str, Any]) -> None:
    """Move OpenClaw's `models.providers` to the agents that use them, and name all models as litellm does."""
    given = {str(path[2]): _provider(mover, path, table) for path in mover.find("models.providers.*")}
    aliases = {str(mover.at(path)).lower(): str(path[3]) for path in mover.find("agents.*.models.*.alias")}

    def of(ref: str) -> tuple[str, _Provider]:
        """The name of a model at its provider, and that."""
        ref = aliases.get(ref.lower(), ref)
        name, model = ref.split("/", 1) if "/" in ref else ("anthropic", ref)
        return model, given.get(name) or _Provider(table["providers"].get(name, name), {}, {}, known=True)

    refs = {
        str(path[1]): of(ref)
        for path in mover.find("agents.*.model")
        if isinstance(ref := mover.at(path), str) and ref.lower() not in ("auto", "offline", "")
    }
    usual = refs.get(DEFAULTS)
    for agent, (model, provider) in refs.items():
        # None undoes what the agent would inherit.
        inherited = usual[1].address if usual and agent != DEFAULTS else {}
        window = {"context_tokens": provider.windows[model]} if model in provider.windows else {}
        mark, present = mover.marks[("agents", agent, "model")], {path[2] for path in mover.find(f"agents.{agent}.*")}
        for key, value in (dict.fromkeys(inherited) | dict(provider.address) | window).items():
            if key not in present:
                mover.write(("agents", agent, key), value, mark)
        mover.write(("agents", agent, "model"), f"{provider.prefix}/{model}", mark)
    for path in mover.find(f"agents.*.fallbacks {_MODELS}"):
        value, mark, names = mover.take(path), mover.marks[path], []
        for ref in value if isinstance(value, list) else [value]:
            (model, provider), (_, own) = of(str(ref)), refs.get(str(path[1]), usual) or of(str(ref))
            if own.reaches(provider):
                names.append(f"{provider.prefix}/{model}")
            else:
                mover.left_out(path, _OTHER_SERVER)
        if path[-1] == "fallbacks" or names:
            mover.write(path, names if path[-1] == "fallbacks" else names[0], mark)


def _provider(mover: Mover, path: KeyPath, table: Mapping[str, Any]) -> _Provider:
    """The provider at `path`, which is taken out of the settings."""
    entry, name = mover.take(path), str(path[2])
    entry = entry if isinstance(entry, dict) else {}
    usual, protocol = table["providers"].get(name, name), table["protocols"].get(entry.get("api"), "openai")
    known = usual in table["litellm"]["providers"].split() and (protocol != "anthropic" or name == "anthropic")
    prefix = usual if known else protocol
    base = entry.get("baseUrl", entry.get("base_url"))
    address: dict[str, Any] = {}
    if isinstance(base, str):
        address["api_base"] = base.rstrip("/").removesuffix("/v1") if prefix == "ollama" else base
    if prefix != "ollama" and "apiKey" in entry:
        address |= _key(mover, (*path, "apiKey"), entry["apiKey"])
    models = entry.get("models")
    windows = {
        str(each.get("id")): each["contextWindow"]
        for each in (models if isinstance(models, list) and not known else ())
        if isinstance(each, dict) and isinstance(each.get("contextWindow"), int)
    }
    mover.renamed(path, ("agents", "*", "api_base"))
    return _Provider(prefix, address, windows, known)


def _key(mover: Mover, path: KeyPath, key: object) -> dict[str, str]:
    """The key at `path` as settings: by the name of its variable if it has one."""
    if isinstance(key, dict) and key.get("source") == "env" and isinstance(key.get("id"), str):
        return {"api_key_env": key["id"]}
    if not isinstance(key, str) or not key:
        mover.left_out(path, _ELSEWHERE)
        return {}
    name = name_in(key) or (key if _VARIABLE.fullmatch(key) else "")
    return {"api_key_env": name} if name else {"api_key": key}


def move_model_list(mover: Mover, table: Mapping[str, Any]) -> None:
    """Move the first model of LiteLLM's `model_list` to `agents.defaults`; those in its group, and those that are named
    as its fallbacks, become fallbacks if they need no other address. `table`: LiteLLM's keys."""
    found = list(_chat_models(mover))
    if not found:
        return
    (place, group, params), *others = found
    (model, own), mark, fallbacks = _listed(mover, place, params), mover.marks[place], []
    groups = {group, *_declared(mover).get(group, ())}
    for path, name, each in others:
        other, provider = _listed(mover, path, each)
        if name in groups and own.reaches(provider):
            fallbacks.append(other)
        else:
            mover.left_out(path, _CHOICE)
    options = {key: params[key] for key in table["options"].split() if key in params}
    limits = {new: params[old] for old, new in table["params"].items() if old in params}
    lists = {key: value for key, value in {"options": options, "fallbacks": fallbacks}.items() if value}
    for key, value in {"model": model, **own.address, **limits, **lists}.items():
        mover.write(("agents", DEFAULTS, key), value, mark)
    mover.renamed(place, ("agents", DEFAULTS, "model"))
    mover.take(place[:1])
    for path in mover.find("include"):
        mover.ignore(path, _INCLUDED)


def _chat_models(mover: Mover) -> Iterator[tuple[KeyPath, str, dict[str, Any]]]:
    """The models for conversations, each with its path, its name for users, and litellm's parameters; without patterns,
    and models of embeddings, images, …"""
    listed = [(path, mover.at(path)) for path in mover.find("model_list") if isinstance(mover.at(path), list)]
    for path, entry in (((*path, at), entry) for path, entries in listed for at, entry in enumerate(entries)):
        params = entry.get("litellm_params") if isinstance(entry, dict) else None
        if not isinstance(params, dict):
            continue
        info = entry.get("model_info")
        model, mode = params.get("model"), info.get("mode", "chat") if isinstance(info, dict) else "chat"
        if isinstance(model, str) and not re.search(r"\*|embed", model) and mode in ("chat", "responses"):
            yield path, str(entry.get("model_name")), params


def _listed(mover: Mover, path: KeyPath, params: Mapping[str, Any]) -> tuple[str, _Provider]:
    """litellm's full name of the model at `path`, and its provider: if it names none, OpenAI or Anthropic."""
    model, base, key = params["model"], params.get("api_base") or params.get("base_url"), params.get("api_key")
    usual = params.get("custom_llm_provider") or ("anthropic" if model.startswith("claude") else "openai")
    name = model if "/" in model else f"{usual}/{model}"
    address = ({"api_base": base} if base else {}) | (_key(mover, path, key) if key else {})
    known = not base and (not key or bool(name_in(str(key))))
    return name, _Provider(name.partition("/")[0], address, {}, known)


def _declared(mover: Mover) -> dict[str, list[str]]:
    """The fallbacks that the file names, by the names of models: `fallbacks: [{a: [b, c]}]`."""
    lists = map(mover.at, mover.find("router_settings.fallbacks litellm_settings.fallbacks"))
    found = (entry for listed in lists if isinstance(listed, list) for entry in listed if isinstance(entry, dict))
    return {str(name): names for entry in found for name, names in entry.items() if isinstance(names, list)}
