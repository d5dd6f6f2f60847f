"""HOOK.md: the name of a hook, its events and its requirements. Pure: text in, `Manifest` out.

The head is YAML between two lines `---`; the rest is free Markdown. Keys may be spelled `any_bins` or `anyBins`; those
below `metadata.openclaw` count too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

import msgspec
import yaml
from msgspec import Struct

from clawbot.hooks.events import AnyEvent

HOOK_FILE = "HOOK.md"
DEFAULT_ORDER = 100
NAME_RULE = "a name is made of a-z, 0-9, _ and -, and begins with a letter or digit"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FENCE = re.compile(r"---[ \t]*")
_CAMEL = re.compile(r"(?<=[a-z])([A-Z])")
_OPEN_FAMILY = "schedule"  # followed by a name from the user's jobs


class ManifestError(Exception):
    """HOOK.md cannot be used; the text says where and why."""


class Requires(Struct, frozen=True, forbid_unknown_fields=False):
    """The requirements of a hook: all of `bins`, `env` and `python`, any of `any_bins` and of `os`."""

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    os: tuple[str, ...] = ()
    python: tuple[str, ...] = ()


class Manifest(Struct, frozen=True):
    """The head of a HOOK.md. `timeout` is in seconds, None for the default; hooks run in ascending `order`; `always`
    ignores unmet `requires`; with `default` false it runs only when enabled in the settings; with `idle_without` only
    while one of these settings of its own is set."""

    name: str
    description: str = ""
    events: tuple[str, ...] = ()
    requires: Requires = Requires()
    timeout: float | None = None
    order: int = DEFAULT_ORDER
    homepage: str = ""
    emoji: str = ""
    always: bool = False
    default: bool = True
    idle_without: tuple[str, ...] = ()

    def wants(self, topic: str) -> bool:
        """Whether the hook is subscribed to `topic`, by name or by family."""
        while topic and topic not in self.events:
            topic = topic.rpartition(":")[0]
        return bool(topic)


def parse_manifest(text: str, folder: str) -> Manifest:
    """The head of the HOOK.md `text`; `folder` is the default name. Raises ManifestError."""
    head = _head(text)
    metadata = head.pop("metadata", None)
    family = metadata.get("openclaw") if isinstance(metadata, Mapping) else None
    head = _joined(_snake(family) if isinstance(family, Mapping) else {}, _snake(head))
    try:
        manifest = msgspec.convert({"name": folder, **_lists(head)}, Manifest)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{HOOK_FILE}: {_readable(error)}") from None
    _check(manifest)
    return manifest


def _topics() -> Iterable[str]:
    for event in get_args(AnyEvent):
        topic = str(event.__struct_config__.tag)
        yield topic
        while ":" in topic:
            topic = topic.rpartition(":")[0]
            yield topic


TOPICS = tuple(sorted(set(_topics())))
"""Valid `events`: every topic and every family. `schedule:ANYTHING` is valid too."""


def _head(text: str) -> dict[str, Any]:
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise ManifestError(f"{HOOK_FILE} line 1: must be ---, the start of the YAML head")
    end = next((number for number, line in enumerate(lines[1:], 1) if _FENCE.fullmatch(line)), None)
    if end is None:
        raise ManifestError(f"{HOOK_FILE}: its YAML head has no end, a second line ---")
    try:
        # Keep the fence as an empty line, so that YAML's line numbers match an editor's.
        head = _plain_yaml("\n".join(["", *lines[1:end]]))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(_yaml_problem(error)) from None
    if head is not None and not isinstance(head, dict):
        raise ManifestError(f"{HOOK_FILE} line 2: expected keys with values, as in `events: command:new`")
    return head or {}


def _plain_yaml(text: str) -> Any:
    """Parse YAML without aliases: a few lines of them can expand beyond all memory, or refer to themselves."""
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ManifestError(f"{HOOK_FILE}{_line(event.start_mark)}: an alias (*{event.anchor}) is not allowed here")
    return yaml.safe_load(text)


def _yaml_problem(error: Exception) -> str:
    where = _line(getattr(error, "problem_mark", None))
    what = " ".join(str(getattr(error, "problem", None) or error).split())
    return f"{HOOK_FILE}{where}: no YAML: {what}"


def _line(mark: Any) -> str:
    """The line of YAML's `mark`; "" without one."""
    return f" line {mark.line + 1}" if mark is not None else ""


def _snake(value: Mapping[Any, Any]) -> dict[str, Any]:
    """`value` with `anyBins` spelled `any_bins`, also in nested mappings."""
    return {
        _CAMEL.sub(r"_\1", str(key)).lower(): _snake(item) if isinstance(item, Mapping) else item
        for key, item in value.items()
    }


def _joined(family: dict[str, Any], head: dict[str, Any]) -> dict[str, Any]:
    """Merge both; the head's own keys win. The family may have `os` beside `requires`, and another name."""
    requires = [part.pop("requires", None) for part in (family, head)]
    if all(part is None or isinstance(part, dict) for part in requires):
        wanted: Any = {"os": family.pop("os", None) or []} | (requires[0] or {}) | (requires[1] or {})
    else:
        wanted = requires[1] if requires[1] is not None else requires[0]
    return family | head | {"requires": wanted}


def _lists(head: dict[str, Any]) -> dict[str, Any]:
    """`head` without empty keys, with single names as lists."""
    said = {key: value for key, value in head.items() if value is not None}
    for key in {"events", "idle_without"} & said.keys():
        said[key] = _list(said[key])
    if isinstance(said["requires"], dict):
        said["requires"] = {key: _list(value) for key, value in said["requires"].items() if value is not None}
    return said


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _readable(error: msgspec.ValidationError) -> str:
    """msgspec's message, which ends in the place: "Expected `int`, got `str` - at `$.order`"."""
    what, _, place = str(error).partition(" - at `$")
    what = what.replace("`", "").replace("array", "list").replace("object", "mapping")
    return f"{place.strip('.`')}: {what[:1].lower()}{what[1:]}" if place else what


def _check(manifest: Manifest) -> None:
    if not _NAME.fullmatch(manifest.name):
        raise ManifestError(f"{HOOK_FILE}: {NAME_RULE}; {manifest.name!r} is none")
    if manifest.timeout is not None and not 0 < manifest.timeout < float("inf"):
        raise ManifestError(f"{HOOK_FILE}: timeout: expected seconds, more than 0")
    if not manifest.events:
        raise ManifestError(f"{HOOK_FILE}: events: expected at least one, as in `events: command:new`")
    for topic in manifest.events:
        if topic not in TOPICS and not topic.startswith(f"{_OPEN_FAMILY}:"):
            nearest = get_close_matches(topic, TOPICS, 1, 0.0)[0]
            raise ManifestError(f"{HOOK_FILE}: events: there is no {topic!r}; did you mean {nearest!r}?")
