"""Moves what restricts an agent in OpenClaw's settings. What has no exact counterpart here is a problem that says where
to write it: nobody may believe that a restriction holds which does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from clawbot.config.mover import Mover
from clawbot.config.paths import DEFAULTS
from clawbot.config.source import KeyPath, dotted
from clawbot.text.interface import N_, _

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
    """The paths of `keys` in the tools of all agents and of single ones, each with its agent."""
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
