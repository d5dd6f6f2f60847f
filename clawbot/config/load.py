"""Loads the settings: the shipped file, the user's over it, the command line over both; then checks them all at once.

Plain pydantic and not pydantic-settings, which takes 120 ms more to import and knows neither lines, origins nor two
spellings of a key, so its sources would have to be replaced by what is below anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails

from clawbot.config.errors import ConfigError, Problem, config_error
from clawbot.config.explain import explain, unknown_agent
from clawbot.config.legacy import modernise
from clawbot.config.paths import DEFAULTS, Paths, shipped
from clawbot.config.schema import Settings, deep_merge
from clawbot.config.section import Section
from clawbot.config.source import KeyPath, Layer, Mark, dotted, read_layer
from clawbot.config.spelling import extras_of, is_secret, items_of, keys_of, respell, section_of
from clawbot.logs import is_secret_name, remember_secret

DEFAULT = "default"
COMMAND_LINE = "command line"
_MAPPING_KEY = "[key]"


class LoadedSettings(NamedTuple):
    """The settings, where each came from, and what is to be told.

    `origins`: "default", "FILE:LINE" or "command line" by dotted key, for each key that is written in a layer (an
    agent's inherited keys stand under agents.defaults). `files`: the user's files that were read. `notices`: one line
    for each older key that was understood as another one.
    """

    settings: Settings
    origins: dict[str, str]
    files: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


def load_settings(
    paths: Paths, *, config_file: Path | None = None, overrides: Mapping[str, Any] | None = None
) -> LoadedSettings:
    """Load all layers. `config_file` takes the place of the user's file, which need not exist.

    `overrides` holds what the command line says, with dotted keys (`agents.main.model`) or nested. A relative path in
    it starts at the state folder as everywhere, so resolve it first. Raises ConfigError with every problem.
    """
    layers = [_read(shipped("config.yaml"), origin=DEFAULT)[0]]
    problems: list[Problem] = []
    notices: list[str] = []
    file = config_file or paths.config_file
    files: tuple[Path, ...] = ()
    try:
        layer, problems, notices = _read(file)
        layers.append(layer)
        files = (file,)
    except FileNotFoundError as error:
        if config_file is not None:
            raise config_error(str(config_file), "does not exist") from error
    if overrides:
        layer, found = respell(_command_line(overrides), Settings)
        layers.append(layer)
        problems += found
    whole = _join(layers)
    settings, found = _validate(whole, paths)
    problems += found
    if settings is None or problems:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line))
    _remember_secrets(settings)
    return LoadedSettings(settings, _origins(whole), files, tuple(notices))


def _read(file: Path, *, origin: str | None = None) -> tuple[Layer, list[Problem], list[str]]:
    layer, problems = read_layer(file, origin=origin)
    layer, moved, notices = modernise(layer)
    layer, unknown = respell(layer, Settings)
    return layer, problems + moved + unknown, notices


def _command_line(overrides: Mapping[str, Any]) -> Layer:
    data: dict[str, Any] = {}
    for key, value in overrides.items():
        *parents, last = key.split(".")
        nested: dict[str, Any] = {last: value}
        for step in reversed(parents):
            nested = {step: nested}
        data = deep_merge(data, nested)
    marks: dict[KeyPath, Mark] = {}
    _mark_all(data, (), marks)
    return Layer(data, marks)


def _mark_all(value: Any, path: KeyPath, marks: dict[KeyPath, Mark]) -> None:
    marks[path] = Mark(COMMAND_LINE, COMMAND_LINE)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        _mark_all(item, (*path, key), marks)


def _join(layers: list[Layer]) -> Layer:
    data: dict[str, Any] = {}
    marks: dict[KeyPath, Mark] = {}
    for layer in layers:
        data = deep_merge(data, layer.data)
        marks.update(layer.marks)
    return Layer(data, marks)


def _validate(whole: Layer, paths: Paths) -> tuple[Settings | None, list[Problem]]:
    try:
        settings = Settings.model_validate(whole.data, context={"home": paths.home})
        return settings, [*_unknown_agents(settings, whole), *_wrong_neighbours(settings, whole)]
    except ValidationError as error:
        # An agent inherits what is wrong in the defaults: the same place is reported once.
        found = {_problem(detail, whole): None for detail in error.errors(include_url=False)}
        return None, list(found)


def _unknown_agents(settings: Settings, whole: Layer) -> Iterator[Problem]:
    """A problem for each job of the schedule whose agent does not exist."""
    known = settings.agent_ids
    for name, job in settings.schedule.all_jobs.items():
        if job.agent not in known:
            place = ("schedule", name, "agent")
            yield Problem(whole.marks[place].place, dotted(place), unknown_agent(job.agent, known))


def _wrong_neighbours(settings: Settings, whole: Layer) -> Iterator[Problem]:
    """A problem for each agent in `tools.agents` that does not exist, or is the agent itself (in the defaults, which
    that one has as well, its own name means the others)."""
    known = settings.agent_ids
    for owner in (DEFAULTS, *known):
        for index, other in enumerate(settings.agents[owner].tools.agents):
            place = ("agents", owner, "tools", "agents", index)
            if place not in whole.marks:
                continue  # inherited, and told there
            if other == owner:
                text = f"expected another agent, found the agent {owner} itself"
                yield Problem(whole.marks[place].place, dotted(place), text)
            elif other not in known:
                yield Problem(whole.marks[place].place, dotted(place), unknown_agent(other, known))


def _problem(error: ErrorDetails, whole: Layer) -> Problem:
    path = tuple(step for step in error["loc"] if step != _MAPPING_KEY)
    if path[:1] == ("agents",) and path not in whole.marks and len(path) > 1:
        path = ("agents", DEFAULTS, *path[2:])
    while path and path not in whole.marks:
        path = path[:-1]
    place = whole.marks[path].place if path else ""
    return Problem(place, dotted(path), explain(error, secret=_is_secret(path)))


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


def _origins(whole: Layer) -> dict[str, str]:
    return {dotted(path): whole.marks[path].origin for path in _leaves(whole.data)}


def _leaves(data: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key)


def _remember_secrets(value: Any, name: str = "") -> None:
    """Have the log and error texts leave out every key that the settings hold, those of hooks told by their names."""
    if isinstance(value, SecretStr):
        remember_secret(value.get_secret_value())
    elif isinstance(value, str) and is_secret_name(name):
        remember_secret(value)
    elif isinstance(value, Section):
        for key in type(value).model_fields:
            _remember_secrets(getattr(value, key))
        _remember_secrets(value.model_extra)
    elif isinstance(value, dict):
        for key, item in value.items():
            _remember_secrets(item, key)
