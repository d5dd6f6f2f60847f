"""Keeps the checked settings in a file, so that short commands need neither the YAML parser nor pydantic (0.15 s).

The file `config.yaml.snapshot` in the state folder holds the sections that such commands read, for exactly one content
of everything that decides them: the settings files, the home folder, the program's schema and the installed packages.
Any other content, a damaged file, and a file that others could write, mean that the settings are loaded as usual. No
snapshot is made of settings that hold a secret, that depend on installed packages, or that are wrong.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from msgspec import msgpack

import clawbot
from clawbot.config.errors import MAX_BYTES
from clawbot.config.names import AgentLookup
from clawbot.config.paths import Paths, shipped
from clawbot.files import PRIVATE_FILE, read_plain, write_atomic

if TYPE_CHECKING:
    from clawbot.config.load import LoadedSettings
    from clawbot.config.schema import Settings
    from clawbot.config.values import SettingsSection

Load = Callable[[], "Settings"]

log = logging.getLogger(__name__)

_SECTIONS = ("agents", "memory", "tui", "logging")
"""What short commands read. The other sections are loaded when somebody asks for them."""

_READ = (".py", ".toml")
_MAGIC = b"clawbot settings 1\n"
_DIGEST_BYTES = 32
# Extension types of the encoding.
_PATH, _TUPLE, _SECTION = 1, 2, 3
# The home folder of another user: where it is may change without any of the files.
_OTHER_HOME = re.compile(rb"~[^/\s\"']")


def quick_settings(paths: Paths, *, config_file: Path | None = None) -> Settings:
    """The settings as `load_settings` has them, from the snapshot if it is current; otherwise it is written again.

    Only for what asks for settings alone: notices and origins are not kept. Raises ConfigError. Blocks.
    """
    file = paths.config_file.with_name(f"{paths.config_file.name}.snapshot")
    before = _inputs(paths, config_file)

    @functools.cache
    def load() -> LoadedSettings:
        # Deferred: pydantic and the models.
        from clawbot.config.load import load_settings

        return load_settings(paths, config_file=config_file)

    if before is not None and (kept := _read(file, before.digest, lambda: load().settings)) is not None:
        return kept
    loaded = load()
    # The files may have changed while they were read, even to and fro.
    if before is not None and loaded.lasting and before == _inputs(paths, config_file):
        _write(file, before.digest, loaded.settings)
    return loaded.settings


class _Inputs(NamedTuple):
    """All that decides the settings: a digest of its content, and the states of the files."""

    digest: bytes
    states: tuple[tuple[int, ...], ...]


def _inputs(paths: Paths, config_file: Path | None) -> _Inputs | None:
    """None if the content can't be read, or does not decide the settings alone."""
    user = config_file or paths.config_file
    packages = Path(msgspec.__file__).parents[1]
    own = (shipped("config.yaml"), *sorted(each for each in Path(__file__).parent.iterdir() if each.suffix in _READ))
    of_user = (user, paths.switches_file, paths.mcp_file, paths.jobs_file)
    try:
        # Each installation changes the folder of the packages.
        installed = (clawbot.__version__, sys.version, packages, packages.stat().st_mtime_ns)
        facts = repr((installed, paths.home, user, Path("~").expanduser()))
        digest = hashlib.blake2b(facts.encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES)
        contents = [(file.name, _content(file)) for file in (*own, *of_user)]
        states = tuple(_state(file) for file in of_user)
    except (OSError, RuntimeError):
        return None
    if any(_OTHER_HOME.search(content or b"") for _, content in contents[len(own) :]):
        return None
    for name, content in contents:
        digest.update(f"\0{name}\0{-1 if content is None else len(content)}\0".encode())
        digest.update(content or b"")
    return _Inputs(digest.digest(), states)


def _content(file: Path) -> bytes | None:
    try:
        return read_plain(file, MAX_BYTES)
    except FileNotFoundError:
        return None


def _state(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(file: Path, digest: bytes, load: Load) -> Settings | None:
    """Return the settings in `file`; None if it is none of the same `digest`, complete, and the user's alone."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            found = os.fstat(handle)
            is_own = found.st_uid == os.geteuid() and not found.st_mode & 0o077
            data = stream.read(MAX_BYTES) if is_own and stat.S_ISREG(found.st_mode) else b""
        head = _MAGIC + digest
        body = data[len(head) + _DIGEST_BYTES :]
        if data[: len(head) + _DIGEST_BYTES] != head + _sum(body):
            return None
        sections = msgpack.decode(body, ext_hook=functools.partial(_decoded, load), type=dict[str, Any])
        if tuple(sections) != _SECTIONS:
            raise ValueError("other sections")
        settings = _SettingsView(sections, load)
        for agent in settings.agents.values():
            if agent.timezone is not None:
                # The zones of the machine may have changed. Deferred: few settings name one.
                import zoneinfo

                zoneinfo.ZoneInfo(agent.timezone)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        log.debug("the snapshot of the settings can't be used: %s", error)
        return None
    return cast("Settings", settings)


def _write(file: Path, digest: bytes, settings: Settings) -> None:
    try:
        body = msgpack.encode({name: _plain(getattr(settings, name), (name,)) for name in _SECTIONS})
        if file.parent.is_dir() and not file.is_symlink():
            write_atomic(file, _MAGIC + digest + _sum(body) + body, mode=PRIVATE_FILE, lasting=False)
    except (OSError, TypeError, ValueError, OverflowError) as error:
        log.debug("the snapshot of the settings can't be written: %s", error)


def _sum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


def _plain(value: Any, keys: tuple[str, ...]) -> Any:
    """Return `value` for msgpack. `keys` is its path. Raises TypeError for what has no such form."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Path):
        return msgpack.Ext(_PATH, os.fsencode(value))
    if isinstance(value, list):
        return [_plain(each, keys) for each in value]
    if isinstance(value, tuple):
        return msgpack.Ext(_TUPLE, msgpack.encode([_plain(each, keys) for each in value]))
    if isinstance(value, dict):
        return {key: _plain(each, (*keys, key)) for key, each in value.items()}
    if not hasattr(type(value), "model_fields"):
        raise TypeError(type(value).__name__)
    fields = {name: _plain(each, (*keys, name)) for name, each in _fields(value).items()}
    return msgpack.Ext(_SECTION, msgpack.encode([keys, fields]))


def _fields(section: SettingsSection) -> dict[str, Any]:
    """Return the keys of `section`, and what it works out from them."""
    kind = type(section)
    worked_out = (name for name, each in vars(kind).items() if isinstance(each, property))
    return {name: getattr(section, name) for name in (*kind.model_fields, *worked_out)}


def _decoded(load: Load, code: int, data: memoryview) -> Any:
    if code == _PATH:
        return Path(os.fsdecode(bytes(data)))
    inner = msgpack.decode(data, ext_hook=functools.partial(_decoded, load))
    if code == _TUPLE:
        return tuple(inner)
    if code != _SECTION:
        raise ValueError(f"unknown type {code}")
    keys, fields = inner
    return _SectionView(fields, lambda: _at(load(), keys))


def _at(section: Any, keys: list[str]) -> SettingsSection:
    """Return the section at the path `keys`."""
    for key in keys:
        section = section[key] if isinstance(section, Mapping) else getattr(section, key)
    return cast("SettingsSection", section)


class _SectionView:
    """A section of the snapshot. What is not in it (methods of the models) is looked up in the loaded settings."""

    def __init__(self, fields: Mapping[str, Any], load: Callable[[], SettingsSection]) -> None:
        self.__dict__.update(fields)
        self._fields = fields
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if name in ("_fields", "_load"):
            raise AttributeError(name)
        return getattr(self._load(), name)

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> _SectionView:
        """This section with other values, as in pydantic."""
        return _SectionView({**self._fields, **(update or {})}, lambda: self._load().model_copy(update=update))


class _SettingsView(_SectionView, AgentLookup):
    """All settings of the snapshot."""
