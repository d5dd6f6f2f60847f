"""Migrates keys of related programs: each is moved to its place here or ignored, with one notice for all.

legacy.toml has the keys. One that is in no table stays and is reported as unknown, except in a file that another
program wrote. A key that restricts an agent is never ignored (clawbot.config.legacy_tools).
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from pydantic_core import PydanticCustomError

from clawbot.config.errors import config_error
from clawbot.config.legacy_models import move_model_list, move_providers
from clawbot.config.legacy_tools import NONE, move_restrictions
from clawbot.config.mcp_file import as_server
from clawbot.config.mover import Mover
from clawbot.config.paths import DEFAULTS
from clawbot.config.schema_schedule import HEARTBEAT
from clawbot.config.source import Layer, dotted
from clawbot.config.spelling import to_snake
from clawbot.config.values import format_duration, parse_duration
from clawbot.text.interface import N_, _

_FEW = 2
_HOOKS = N_("hooks here are Python, in folders of their own (docs/writing-hooks.md)")
_NO_SUCH_KEY = N_("servers have no such key here")
_DEFAULT = N_("the default is the nearest")
_ONE_HEARTBEAT = N_("there is one heartbeat; let others have jobs of their own in `schedule`")


@lru_cache(maxsize=1)
def tables() -> dict[str, Any]:
    """The tables of legacy.toml: `moved` has new keys by old ones, `ignored` keys after the reason, separated by
    blanks."""
    return tomllib.loads(files("clawbot.config").joinpath("legacy.toml").read_text(encoding="utf-8"))


def modernise(layer: Layer, file: str) -> Mover:
    """Move the keys of other programs in the layer of `file`. Raises ConfigError if it includes others."""
    mover, table = Mover(layer, file), tables()
    _refuse_includes(mover)
    is_related = _recognise(mover, table["openclaw"])
    _webhooks(mover, table["webhooks"]["keys"])
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
    """Raise ConfigError if the file includes others, in any place."""
    if places := [path for path in mover.marks if path[-1] == "$include"]:
        text = _("the files that it names are not read here, whatever they restrict: copy their keys into this file")
        raise config_error(mover.marks[places[0]].place, text, key=", ".join(map(dotted, places)))


def _webhooks(mover: Mover, keys: str) -> None:
    """`hooks.enabled` beside the `keys` of webhooks is theirs."""
    for path in mover.find("hooks.enabled") if mover.find(keys) else ():
        mover.ignore(path, _HOOKS)


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
                mover.tell(path, f": {old} is read as {names[old]}")


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
    """A time to live without a unit counts minutes: tell the user, since it looks like seconds."""
    for path in mover.find("agents.*.context_pruning.ttl"):
        try:
            meant, otherwise = (parse_duration(mover.at(path), bare=unit) for unit in ("m", "s"))
        except PydanticCustomError:
            continue  # the schema check reports it
        if meant != otherwise:
            mover.tell(path, f" without a unit counts minutes: {format_duration(meant)}")


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
                mover.tell((*path, index), text)


def _session_memory(mover: Mover) -> None:
    """`experimental.sessionMemory` switched the source `sessions`, whether or not it was listed in the sources."""
    found = [path for path in mover.find("agents.*.memory_search.sources") if isinstance(mover.at(path), list)]
    listed = {path[1]: mover.at(path) for path in found}
    for path in mover.find("agents.*.memory_search.experimental.session_memory"):
        wanted = mover.at(path) is True
        others = [source for source in listed.get(path[1], listed.get(DEFAULTS, ())) if source != "sessions"]
        sources, new = (others or ["memory"]) + ["sessions"] * wanted, (*path[:3], "sources")
        mover.tell(path, f" is read as {dotted(new)}: [{', '.join(map(str, sources))}]")
        mover.take(path)
        mover.write(new, sources, mover.marks[path])
