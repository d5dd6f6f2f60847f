"""HOOK.md: the name of a hook, its events and its requirements. Pure: text in, `Manifest` out.

The head is YAML between two lines `---`; the rest is free Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

import msgspec

from clawbot.extensions.manifest import BaseManifest, ManifestError, as_list, parse_head, readable
from clawbot.hooks.events import AnyEvent
from clawbot.hooks.loading import HOOK_FILE

DEFAULT_ORDER = 100
NAME_RULE = "a name is made of a-z, 0-9, _ and -, and begins with a letter or digit"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_OPEN_FAMILY = "schedule"  # followed by a name from the user's jobs


class Manifest(BaseManifest, frozen=True):
    """The head of a HOOK.md. `timeout` is in seconds, None for the default; hooks run in ascending `order`; with
    `default` false it runs only when enabled in the settings; with `idle_without` only while one of these settings of
    its own is set."""

    events: tuple[str, ...] = ()
    timeout: float | None = None
    order: int = DEFAULT_ORDER
    homepage: str = ""
    emoji: str = ""
    default: bool = True
    idle_without: tuple[str, ...] = ()

    def wants(self, topic: str) -> bool:
        """Whether the hook is subscribed to `topic`, by name or by family."""
        while topic and topic not in self.events:
            topic = topic.rpartition(":")[0]
        return bool(topic)


def parse_manifest(text: str, folder: str) -> Manifest:
    """The head of the HOOK.md `text`; `folder` is the default name. Raises ManifestError."""
    head = parse_head(text, HOOK_FILE).values
    for key in {"events", "idle_without"} & head.keys():
        head[key] = as_list(head[key])
    try:
        manifest = msgspec.convert({"name": folder, **head}, Manifest)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{HOOK_FILE}: {readable(error)}") from None
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
