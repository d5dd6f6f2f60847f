"""Loads the settings: the shipped file, then the user's, the hook switches and the command line; then validates them
all at once.

Plain pydantic rather than pydantic-settings, which takes 120 ms longer to import and supports neither line numbers,
origins nor two spellings of a key.

What `clawbot hooks enable` and `disable` switched by name (clawbot.config.switches) overrides the user's settings file,
and so do the MCP servers of `mcp.json` (clawbot.config.mcp_file).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from clawbot.config.env import REFERENCE_SIGNS, UnresolvedError, read_env, resolve
from clawbot.config.errors import ConfigError, ConfigProblem, config_error
from clawbot.config.keys import KeyMap
from clawbot.config.legacy import modernise, tables
from clawbot.config.mcp_file import ORIGIN as MCP_ORIGIN
from clawbot.config.mcp_file import ReadServers, read_servers
from clawbot.config.mover import Mover, marks_of
from clawbot.config.names import BUILTIN_BACKEND, OWN_BACKENDS
from clawbot.config.paths import DEFAULTS, Paths, shipped
from clawbot.config.schema import BrokenBackend, Settings, deep_merge
from clawbot.config.schema_agent import BUILTIN_COMPACTION
from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.config.source import KeyPath, Layer, Mark, dotted, read_layer
from clawbot.config.spelling import explain, extras_of, is_secret, items_of, keys_of, respell, section_of, unknown_agent
from clawbot.config.switches import read_switches
from clawbot.config.values import SettingsSection, zone_hint
from clawbot.text.secret_names import is_secret_name
from clawbot.text.secrets import remember_secret

ORIGIN = "clawbot hooks enable/disable"


# A zone by its offset (POSIX 8.3): `CET-1CEST,M3.5.0,M10.5.0/3` or `<+0330>-3:30`.
_BY_OFFSET = re.compile(r":?(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)[+-]?\d{1,2}.*")


def zone_problem(environ: Mapping[str, str]) -> str:
    """Return the problem with TZ in `environ`, for the user; "" if it is valid or not set. Blocks: reads one file."""
    name = environ.get("TZ", "").removeprefix(":")
    is_known = not name or _BY_OFFSET.fullmatch(name) or (name.startswith("/") and Path(name).is_file())
    hint = None if is_known else zone_hint(name)
    return (
        ""
        if hint is None
        else (
            f"TZ={name} is not a time zone known to this machine{hint}: times and days are those of UTC. Set TZ, or "
            "agents.defaults.timezone in the settings, to a name such as Europe/Berlin."
        )
    )


DEFAULT = "default"
COMMAND_LINE = "command line"
_MAPPING_KEY = "[key]"
# Texts for the model, where `$NAME` may be part of the words; and commands, which are compared to the byte.
_TEXTS = ("prompt", "system_prompt", "placeholder")
_COMMANDS = ("allow", "network", "ask", "deny")
_OF_BACKENDS = frozenset({"backend", *OWN_BACKENDS})


class LoadedSettings(NamedTuple):
    """The settings, their origins, and notices.

    `origins`: "default", "FILE:LINE" or "command line" by dotted key, for each key present in a layer (keys that an
    agent inherits are under agents.defaults). `files`: the user's files that were read. `notices`: one line for each
    migrated key, and for an unknown time zone of the machine. `lasting`: the settings follow from the files alone and
    hold no secret, so that they may be kept (clawbot.config.snapshot).
    """

    settings: Settings
    origins: dict[str, str]
    files: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()
    lasting: bool = False


def load_settings(
    paths: Paths, *, config_file: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> LoadedSettings:
    """Load all layers. `config_file` replaces the user's file, which may be missing. `overrides` are the values of the
    command line, with dotted keys (`agents.main.model`) or nested. Relative paths in it start at the state folder, so
    the caller resolves them first. Raises ConfigError with every problem."""
    jobs, problems = read_layer(paths.jobs_file) if paths.jobs_file.exists() else (Layer({}, {}), [])
    jobs, unknown = respell(jobs, Settings)
    layers = [respell(read_layer(shipped("config.yaml"), origin=DEFAULT)[0], Settings)[0], jobs]
    problems += unknown
    moved, by_environment, file = None, False, config_file or paths.config_file
    try:
        layer, found, moved, by_environment = _read(file, paths)
        layers.append(layer)
        problems += found
    except FileNotFoundError as error:
        if config_file is not None:
            raise config_error(str(config_file), "does not exist") from error
    switches, servers, notices = _of_commands(paths)
    for over in (switches, servers, _command_line(overrides or {})):
        layer, found = respell(over, Settings)
        layers.append(layer)
        problems += found
    merged = _join(layers)
    settings, found = _validate(merged, paths)
    problems += found
    if problems and all(map(_is_of_backend, problems)):
        settings, broken = _without_broken_backend(merged, paths, problems)
        notices, problems = [*notices, *broken], []
    if settings is None or problems:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    for secret in (secrets := list(_secrets_in(settings))):
        remember_secret(secret)
    unused = dict(_unused_keys(settings, merged))
    notices = [*(moved.notices(unused) if moved else ()), *notices]
    notices += (*_machine_zone(settings), *_rare_keys(settings, merged), *unused.values())
    lasting = not secrets and not by_environment and _is_of_program(settings)
    origins = {dotted(path): merged.marks[path].origin for path in _leaves(merged.data)}
    return LoadedSettings(settings, origins, (file,) if moved else (), tuple(notices), lasting)


def _read(file: Path, paths: Paths) -> tuple[Layer, list[ConfigProblem], Mover, bool]:
    """Return the settings of the user's `file`, with problems, what was moved, and whether variables decide values."""
    layer, problems = read_layer(file)
    moved = modernise(layer, str(file))
    layer, unset, by_environment = _resolve_layer(
        Layer(moved.data, moved.marks), lambda: {**read_env(paths).values, **os.environ}
    )
    layer, unknown = respell(layer, Settings, moved.spare)
    return layer, [*problems, *moved.problems, *unset, *unknown], moved, by_environment


def _resolve_layer(layer: Layer, environ: Callable[[], Mapping[str, str]]) -> tuple[Layer, list[ConfigProblem], bool]:
    """`layer` with the references in its strings resolved, a problem for each that can't be, and whether there were
    any. MCP servers are left to their start. `environ` is called if there is a reference. Blocks."""
    problems: list[ConfigProblem] = []

    def walk(value: object, path: KeyPath) -> object:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return value if path[-1] in _COMMANDS else [walk(item, (*path, at)) for at, item in enumerate(value)]
        if (
            not isinstance(value, str)
            or path[:2] == ("mcp", "servers")
            or not any(sign in value for sign in REFERENCE_SIGNS)
        ):
            return value
        try:
            return resolve(value, environ(), words=path[-1] not in _TEXTS)
        except UnresolvedError as error:
            problems.append(ConfigProblem(layer.marks[path].position, dotted(path), str(error)))
            return value

    data = {key: walk(value, (key,)) for key, value in layer.data.items()}
    return Layer(data, layer.marks), problems, data != layer.data


def _command_line(overrides: Mapping[str, Any]) -> Layer:
    data: dict[str, Any] = {}
    for key, value in overrides.items():
        *parents, last = key.split(".")
        nested: dict[str, Any] = {last: value}
        for step in reversed(parents):
            nested = {step: nested}
        data = deep_merge(data, nested)
    return _layer(data, COMMAND_LINE, COMMAND_LINE)


def _layer(data: dict[str, Any], origin: str, location: Path | str) -> Layer:
    return Layer(data, dict(marks_of(data, Mark(origin, str(location)))))


def _of_commands(paths: Paths) -> tuple[Layer, Layer, Sequence[str]]:
    """The hook switches and the MCP servers of commands as layers of settings, and a notice for each server that is
    left out."""
    switched = {name: {"enabled": on} for name, on in read_switches(paths.switches_file).enabled.items()}
    added = read_servers(paths.mcp_file) if paths.mcp_file.exists() else ReadServers({})
    hooks = {"hooks": {"entries": switched}} if switched else {}
    servers = {"mcp": {"servers": added.servers}} if added.servers else {}
    return _layer(hooks, ORIGIN, paths.switches_file), _layer(servers, MCP_ORIGIN, paths.mcp_file), added.notices


def _join(layers: list[Layer]) -> Layer:
    data: dict[str, Any] = {}
    marks: dict[KeyPath, Mark] = {}
    for layer in layers:
        data = deep_merge(data, layer.data)
        marks.update(layer.marks)
    return Layer(data, marks)


def _validate(merged: Layer, paths: Paths) -> tuple[Settings | None, list[ConfigProblem]]:
    try:
        settings = Settings.model_validate(merged.data, context={"home": paths.home})
        problems = (
            _unknown_agents(settings, merged),
            _wrong_neighbours(settings, merged),
            _shared_keys(settings, merged),
        )
        return settings, [problem for found in problems for problem in found]
    except ValidationError as error:
        # Agents inherit errors of the defaults: report each position once.
        found = {_problem(detail, merged): None for detail in error.errors(include_url=False)}
        return None, list(found)


def _is_of_backend(problem: ConfigProblem) -> bool:
    """Whether it concerns only how the memory is searched: then the builtin index does, and the program starts."""
    memory, _, rest = problem.key.partition(".")
    return memory == "memory" and rest.partition(".")[0] in _OF_BACKENDS


def _without_broken_backend(
    merged: Layer, paths: Paths, problems: Sequence[ConfigProblem]
) -> tuple[Settings | None, list[str]]:
    """The settings without the sections with `problems`, and a notice for each. A configured backend whose section is
    left out is marked as broken."""
    memory = dict(merged.data["memory"])
    wanted = str(memory.get("backend", BUILTIN_BACKEND))
    left_out = {problem.key.split(".")[1]: str(problem) for problem in reversed(problems)}
    kept = {key: value for key, value in memory.items() if key not in left_out}
    settings, others = _validate(Layer({**merged.data, "memory": kept}, merged.marks), paths)
    reason = left_out.get("backend") or left_out.get(wanted)
    if settings is not None and not others and reason is not None:
        settings.memory.break_backend(BrokenBackend(wanted, reason))
    instead = "the section is left out" if reason is None else "the builtin index answers instead"
    return settings, [f"{problem}; {instead}" for problem in problems]


def _unknown_agents(settings: Settings, merged: Layer) -> Iterator[ConfigProblem]:
    """Yield a problem for each scheduled job whose agent does not exist."""
    known = settings.agent_ids
    for name, job in settings.schedule.all_jobs.items():
        if job.agent not in known:
            location = ("schedule", name, "agent")
            yield ConfigProblem(merged.marks[location].position, dotted(location), unknown_agent(job.agent, known))


def _wrong_neighbours(settings: Settings, merged: Layer) -> Iterator[ConfigProblem]:
    """A problem for each agent in `tools.agents` that does not exist or is the agent itself. In the defaults an agent's
    own name is allowed and means the others."""
    known = settings.agent_ids
    for owner in (DEFAULTS, *known):
        for index, other in enumerate(settings.agents[owner].tools.agents):
            location = ("agents", owner, "tools", "agents", index)
            if location not in merged.marks:
                continue  # inherited, and reported there
            if other == owner:
                text = f"expected another agent, found the agent {owner} itself"
                yield ConfigProblem(merged.marks[location].position, dotted(location), text)
            elif other not in known:
                yield ConfigProblem(merged.marks[location].position, dotted(location), unknown_agent(other, known))


def _shared_keys(settings: Settings, merged: Layer) -> Iterator[ConfigProblem]:
    """Yield a problem for each key that two actions of the conversation have."""
    for name, other, key in KeyMap(settings.tui.keys).clashes():
        location = ("tui", "keys", name)
        text = f"{key} is the key of {other}, too; give {other} another one, or none"
        yield ConfigProblem(merged.marks[location].position, dotted(location), text)


def _machine_zone(settings: Settings) -> Iterator[str]:
    """Yield a notice if an agent goes by the zone of the machine, and TZ names none."""
    goes_by_machine = any(settings.agent(agent_id).timezone is None for agent_id in settings.agent_ids)
    if goes_by_machine and (problem := zone_problem(os.environ)):
        yield problem


def _rare_keys(settings: Settings, merged: Layer) -> Iterator[str]:
    """Yield a notice for each action that many terminals have no key for."""
    for name, key in KeyMap(settings.tui.keys).rare():
        location = ("tui", "keys", name)
        yield (
            f"{merged.marks[location].position}: {dotted(location)}: only terminals with the keyboard protocol of "
            f"Kitty send {key}; in others nothing does this"
        )


def _unused_keys(settings: Settings, merged: Layer) -> Iterator[tuple[str, str]]:
    """Yield each key of one profile that is set only for agents with the other one, and a notice. Defaults set nothing,
    unless they are in an older key."""
    of_profile = tables()["profiles"]
    for path, mark in merged.marks.items():
        if path[2:3] == ("memory_search",) and path[-1] in of_profile:
            profile, instead = of_profile[str(path[-1])]
            owner, value = settings.agents[str(path[1])], attrgetter(dotted(path[3:]))
            heirs = settings.agents.values() if path[1] == DEFAULTS else [owner]
            is_used = any(heir.memory_search.profile == profile for heir in heirs)
            if not is_used and (mark.key or value(owner.memory_search) != value(MemorySearchSettings())):
                text = f"has no effect: only the profile `{profile}` uses it; {instead}"
                yield dotted(path), f"{mark.position}: {mark.key or dotted(path)} {text}"


def _problem(error: ErrorDetails, merged: Layer) -> ConfigProblem:
    path = tuple(step for step in error["loc"] if step != _MAPPING_KEY)
    if path[:1] == ("agents",) and path not in merged.marks and len(path) > 1:
        path = ("agents", DEFAULTS, *path[2:])
    while path and path not in merged.marks:
        path = path[:-1]
    location = merged.marks[path].position if path else ""
    return ConfigProblem(location, dotted(path), explain(error, secret=_is_secret(path)))


def _is_secret(path: KeyPath) -> bool:
    annotation: Any = Settings
    for step in path:
        section = section_of(annotation)
        if section:
            field = keys_of(section).get(str(step))
            annotation = field.annotation if field else extras_of(section)
        else:
            annotation = items_of(annotation, list if isinstance(step, int) else dict)
    return is_secret(annotation)


def _leaves(data: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


def _is_of_program(settings: Settings) -> bool:
    """Return whether everything named in `settings` comes with the program rather than with an installed package."""
    own_parts = all(each.compaction.strategy == BUILTIN_COMPACTION for each in settings.agents.values())
    return own_parts and settings.memory.backend in OWN_BACKENDS and settings.memory.broken is None


def _secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """Every key in the settings, to be redacted from the log and error texts; those of hooks are recognised by name."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, str) and is_secret_name(name):
        yield value
    elif isinstance(value, SettingsSection):
        for key in type(value).model_fields:
            yield from _secrets_in(getattr(value, key))
        yield from _secrets_in(value.model_extra)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets_in(item, key)
