"""Migrates keys of related programs: each is moved to its path here or ignored, with one notice for all.

legacy.toml has the keys. One that is in no table remains and is reported as unknown, except in a file that another
program wrote. A key that restricts an agent is never ignored: without an exact counterpart it is a problem, which names
where to write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

from clawbot.config.env import name_in
from clawbot.config.errors import config_error
from clawbot.config.mcp_file import as_server
from clawbot.config.mover import Mover
from clawbot.config.paths import DEFAULTS
from clawbot.config.schema_schedule import HEARTBEAT
from clawbot.config.source import KeyPath, Layer, dotted
from clawbot.config.spelling import to_snake
from clawbot.config.values import format_duration, parse_duration
from clawbot.text.interface import N_, _
from clawbot.text.tables import packaged_table

NONE = N_("it has no counterpart here")
_ALL_IN_IT = N_("every tool here is in it")
_ASKED = N_("each command here asks, unless tools.shell.allow or permissions name it")
# The names that a list of denied tools may have; patterns become permissions, which sub-agents don't have.
_NAMES = {"tools": re.compile(r"[A-Za-z0-9_*?-]+"), "subagents": re.compile(r"[A-Za-z0-9_-]+")}


def move_restrictions(mover: Mover, table: Mapping[str, Any]) -> None:
    """Move denied tools and commands, and refuse what can't be honoured. `table`: the tables of legacy.toml."""
    tools = table["tools"]
    shared: set[str] = set()
    for path, agent in _both(mover, "deny"):
        denied = _deny(mover, path, ("agents", agent, "tools", "deny"), tools, shared)
        shared = denied if path[0] == "tools" else shared
    for path in mover.find("tools.subagents.tools.deny"):
        _deny(mover, path, ("agents", DEFAULTS, "subagents", "deny"), tools)
    for path, agent in _both(mover, "profile", "allow"):
        _refuse_others(mover, path, agent, tools)
    for rule in table["refused"]:
        for path in mover.find(rule["keys"]):
            value = mover.at(path)
            if value in rule.get("values", [value]) and value not in rule.get("unless", ()):
                mover.refuse(path, _(rule["text"]).format(agent=path[1] if path[0] == "agents" else DEFAULTS))
    for path, agent in _both(mover, "exec"):
        section = mover.at(path)
        if not isinstance(section, dict):
            continue
        is_off = section.get("security", section.get("mode")) == "deny"
        if is_off or section.get("ask") == "always":
            approval: KeyPath = ("agents", agent, "tools", "shell", "approval")
            mover.write(approval, "deny" if is_off else "ask", mover.marks[path])
            mover.renamed(path, approval)
        mover.ignore(path, _ASKED)


def _both(mover: Mover, *keys: str) -> list[tuple[KeyPath, str]]:
    """Return the paths of `keys` in the tools of all agents and of single ones, each with its agent."""
    found = mover.find(" ".join(f"tools.{key} agents.*.tools.{key}" for key in keys))
    return [(path, DEFAULTS if path[0] == "tools" else str(path[1])) for path in found]


def _ours(names: Iterable[str], tools: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """Our tools that do what OpenClaw's tools `names` do, patterns and groups included; and the names that nobody
    knows."""
    known = {name: name for name in tools["all"].split()} | dict.fromkeys(tools["without"].split(), "") | tools["names"]
    found: set[str] = set()
    unknown: set[str] = set()
    for name in names:
        fits = [meant for theirs, meant in known.items() if fnmatchcase(theirs, name.lower())]
        found |= {each for meant in fits for each in meant.split()}
        unknown |= set() if fits and "*" not in name else {name}
    return found, unknown


def _deny(mover: Mover, path: KeyPath, new: KeyPath, tools: Mapping[str, Any], shared: Iterable[str] = ()) -> set[str]:
    """Move a list of denied tools to `new`; an agent's own does not replace that of all agents (`shared`)."""
    listed, mark = mover.at(path), mover.marks[path]
    found, unknown = _ours(map(str, listed if isinstance(listed, list) else [listed]), tools)
    rules = {"mcp__*" if name == "bundle-mcp" else name for name in unknown}
    if groups := sorted(name for name in rules if not _NAMES[str(new[2])].fullmatch(name)):
        text = _("{groups}: unknown here; name the tools in {key}, or patterns in agents.{agent}.permissions.deny")
        mover.refuse(path, text.format(groups=", ".join(groups), key=dotted(new), agent=new[1]))
    else:
        mover.take(path)
    patterns = sorted(name for name in rules.difference(groups) if "*" in name)
    denied = found.union(shared, rules.difference(groups, patterns))
    mover.write(new, sorted(denied), mark)
    if patterns:
        mover.write((*new[:2], "permissions", "deny"), patterns, mark)
    mover.renamed(path, new)
    return denied


def _refuse_others(mover: Mover, path: KeyPath, agent: str, tools: Mapping[str, Any]) -> None:
    """Refuse a list of the only tools, or a profile of them, unless that has all of ours."""
    value = mover.at(path)
    allowed, _unknown = _ours(map(str, value), tools) if isinstance(value, list) else (set(), set())
    if value == [] or (isinstance(value, list) and "*" in value) or str(value) in tools["whole"].split():
        mover.ignore(path, _ALL_IN_IT)
        return
    text = _(
        "a list of the only tools has no counterpart: deny the others with agents.{agent}.tools.deny: [{others}], and "
        "MCP's with agents.{agent}.permissions.deny: [mcp__*]"
    )
    mover.refuse(path, text.format(agent=agent, others=", ".join(sorted(set(tools["all"].split()) - allowed))))


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
        """Return whether an agent with this address can call the models of `other`, too."""
        is_same = self.prefix == other.prefix
        return (is_same and self.address == other.address) or (other.known and not is_same)


def move_providers(mover: Mover, table: Mapping[str, Any]) -> None:
    """Move OpenClaw's `models.providers` to the agents that use them, and name all models as litellm does."""
    given = {str(path[2]): _provider(mover, path, table) for path in mover.find("models.providers.*")}
    aliases = {str(mover.at(path)).lower(): str(path[3]) for path in mover.find("agents.*.models.*.alias")}

    def of(ref: str) -> tuple[str, _Provider]:
        """Return the name of a model at its provider, and that."""
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
    """Return the provider at `path`, which is taken out of the settings."""
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
    """Return the key at `path` as settings: by the name of its variable if it has one."""
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
    (location, group, params), *others = found
    (model, own), mark, fallbacks = _listed(mover, location, params), mover.marks[location], []
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
    mover.renamed(location, ("agents", DEFAULTS, "model"))
    mover.take(location[:1])
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
    """Return the fallbacks that the file names, by the names of models: `fallbacks: [{a: [b, c]}]`."""
    lists = map(mover.at, mover.find("router_settings.fallbacks litellm_settings.fallbacks"))
    found = (entry for listed in lists if isinstance(listed, list) for entry in listed if isinstance(entry, dict))
    return {str(name): names for entry in found for name, names in entry.items() if isinstance(names, list)}


_FEW = 2
_HOOKS = N_("hooks here are Python, in folders of their own (docs/writing-hooks.md)")
_NO_SUCH_KEY = N_("servers have no such key here")
_DEFAULT = N_("the default is the nearest")
_ONE_HEARTBEAT = N_("there is one heartbeat; let others have jobs of their own in `schedule`")


@lru_cache(maxsize=1)
def tables() -> dict[str, Any]:
    """Return the tables of legacy.toml: `moved` has new keys by old ones, `ignored` keys after the reason, separated by
    blanks."""
    return packaged_table("clawbot.config", "legacy.toml", dict[str, Any])


def modernise(layer: Layer, file: str) -> Mover:
    """Move the keys of other programs in the layer of `file`. Raises ConfigError if it includes others."""
    mover, table = Mover(layer, file), tables()
    _refuse_includes(mover)
    is_related = _recognise(mover, table["openclaw"])
    for path in mover.find("hooks.enabled") if mover.find(table["webhooks"]["keys"]) else ():
        mover.ignore(path, _HOOKS)  # that of the webhooks
    _resets(mover)
    _list_of_agents(mover)
    for old, new in table["moved"].items():
        for path in mover.find(old):
            steps = iter([step for step, star in zip(path, old.split("."), strict=True) if star == "*"])
            to = tuple(next(steps) if step == "*" else step for step in new.split("."))
            if old != "agents.*.max_concurrent" or not mover.find(".".join(map(str, to))):
                mover.move(path, to)
    if is_related:
        move_restrictions(mover, table)
        move_providers(mover, table)
        _mcp_servers(mover)
    move_model_list(mover, table["litellm"])
    for rule in (_bare_ttl, _wildcards, _session_memory, _heartbeat):
        rule(mover)
    _respell_values(mover, table["values"])
    for why, patterns in table["ignored"].items():
        for path in mover.find(patterns):
            mover.ignore(path, why)
    return mover


def _refuse_includes(mover: Mover) -> None:
    """Raise ConfigError if the file includes others, at any position."""
    if locations := [path for path in mover.marks if path[-1] == "$include"]:
        text = _("the files that it names are not read here, whatever they restrict: copy their keys into this file")
        raise config_error(mover.marks[locations[0]].position, text, key=", ".join(map(dotted, locations)))


def _recognise(mover: Mover, table: Any) -> bool:
    """Whether any key is one of OpenClaw's alone. Its name, what its setup writes, or several such keys make it a file
    that nobody wrote by hand."""
    found = [key for key in table["keys"].split() if mover.find(key)]
    named = PurePath(mover.file).stem in table["files"].split()
    mover.is_foreign = named or len(found) > _FEW or bool(mover.find(table["setup"]))
    return named or bool(found)


def _respell_values(mover: Mover, values: Any) -> None:
    """Values that have another name here; "" for none, which leaves the default."""
    for pattern, names in values.items():
        for path in mover.find(pattern):
            old = str(mover.at(path))
            if names.get(old) == "":
                mover.ignore(path, _DEFAULT)
            elif old in names:
                mover.write(path, names[old], mover.marks[path])
                mover.notify(path, f": {old} is read as {names[old]}")


def _mcp_servers(mover: Mover) -> None:
    """Servers in the form of other programs; one that can't be read is ignored, as in a file of servers alone."""
    for path in mover.find("mcp.servers.*"):
        mark = mover.marks[path]
        try:
            server, left = as_server(mover.at(path))
        except ValueError as error:
            mover.ignore(path, str(error))
            continue
        for key in left:
            mover.left_out((*path, key), _NO_SUCH_KEY)
        mover.write(path, server, mark)


def _heartbeat(mover: Mover) -> None:
    """Move `agents.<agent>.heartbeat` to `schedule.heartbeat`, which exists once: that of all agents, or of the
    first."""
    found = [path for path in mover.find(f"agents.*.{HEARTBEAT}") if isinstance(mover.at(path), dict)]
    found.sort(key=lambda path: path[1] != DEFAULTS)
    for path in found[1:]:
        mover.ignore(path, _ONE_HEARTBEAT)
    for path in found[:1]:
        section, mark = mover.take(path), mover.marks[path]
        mover.write(path, {"enabled": True} | ({} if path[1] == DEFAULTS else {"agent": path[1]}), mark)
        for key, value in section.items():
            job = _of_job(to_snake(key), value)
            for name, meant in job.items():
                mover.write((*path, name), meant, mover.marks[(*path, key)])
            if not job:
                mover.left_out((*path, key), NONE)
        mover.move(path, ("schedule", HEARTBEAT))


def _of_job(key: str, value: Any) -> dict[str, Any]:
    """The meaning of a heartbeat's key in the schedule. A bare number counts minutes, and `0m` switches it off."""
    if key == "every":
        try:
            seconds = parse_duration(value, bare="m")
        except PydanticCustomError:
            return {key: value}
        return {key: f"{seconds:g}s"} if seconds else {"enabled": False}
    if key == "active_hours" and isinstance(value, dict) and {"start", "end"} <= value.keys():
        zone = value.get("timezone", "user")
        return {key: f"{value['start']}-{value['end']}"} | ({} if zone in ("user", "local") else {"tz": zone})
    return {key: value} if key in ("prompt", "session") else {}


def _resets(mover: Mover) -> None:
    """`session.idleMinutes` without `session.reset` and `session.resetByType` meant the mode idle;
    `session.reset.atHour: 4`, also of a session type, is `at: "04:00"`."""
    for path in mover.find("session.idle_minutes"):
        if not mover.find("session.reset session.reset_by_type"):
            mover.write(("session", "reset", "mode"), "idle", mover.marks[path])
    for path in mover.find("session.reset.at_hour session.reset_by_type.*.at_hour"):
        hour = mover.at(path)
        if type(hour) is not int or not 0 <= hour < 24:
            mover.refuse(path, "expected an hour from 0 to 23")
        else:
            mover.put(f"{mover.take(path):02d}:00", path, tuple(map(to_snake, map(str, (*path[:-1], "at")))))


def _list_of_agents(mover: Mover) -> None:
    """`agents.list: [{id: x, ...}]` becomes one entry for each id."""
    for path in mover.find("agents.list"):
        items = mover.at(path)
        if not isinstance(items, list) or not all(isinstance(i, dict) and isinstance(i.get("id"), str) for i in items):
            continue
        mover.take(path)
        for index, item in enumerate(items):
            mover.put(item, (*path, index), ("agents", item.pop("id")))


def _bare_ttl(mover: Mover) -> None:
    """A time to live without a unit counts minutes: warn the user, since it reads like seconds."""
    for path in mover.find("agents.*.context_pruning.ttl"):
        try:
            meant, otherwise = (parse_duration(mover.at(path), bare=unit) for unit in ("m", "s"))
        except PydanticCustomError:
            continue  # the schema check reports it
        if meant != otherwise:
            mover.notify(path, f" without a unit counts minutes: {format_duration(meant)}")


def _wildcards(mover: Mover) -> None:
    """A command allowed by a pattern (`git log*`) covers less than in other programs: options such as --output write
    files and run programs."""
    for path in mover.find("agents.*.tools.shell.allow"):
        items = mover.at(path)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, str) and re.search(r"[*?[]", item):
                # Without what the pattern covers: `npm run test:*` is about `npm run`.
                named = re.sub(r"(?:^|\s+)(?:\S*[^\w\s])?$", "", item.rstrip("*? "))
                meant = f"`{named} <reading>`, or `{named} <anything>` for every argument" if named else "`<reading>`"
                text = f": `{item}` covers what only reads, and of other commands its own words. Write {meant}"
                mover.notify((*path, index), text)


def _session_memory(mover: Mover) -> None:
    """`experimental.sessionMemory` switched the source `sessions`, whether or not it was listed in the sources."""
    found = [path for path in mover.find("agents.*.memory_search.sources") if isinstance(mover.at(path), list)]
    listed = {path[1]: mover.at(path) for path in found}
    for path in mover.find("agents.*.memory_search.experimental.session_memory"):
        wanted = mover.at(path) is True
        others = [source for source in listed.get(path[1], listed.get(DEFAULTS, ())) if source != "sessions"]
        sources, new = (others or ["memory"]) + ["sessions"] * wanted, (*path[:3], "sources")
        mover.notify(path, f" is read as {dotted(new)}: [{', '.join(map(str, sources))}]")
        mover.take(path)
        mover.write(new, sources, mover.marks[path])
