"""Which paths tools may reach: the rules around the workspace, those of one agent, and where secrets are.

Real paths decide; for nested folders the innermost rule applies. Hard links to a denied file are detected by the file's
identity. Secret files and folders are those of `secret_paths.toml`.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

import clawbot
from clawbot.config.paths import Paths, shipped
from clawbot.config.schema import Settings
from clawbot.config.schema_extensions import HookSettings
from clawbot.llm.models import SCRIPT
from clawbot.text.names import fold_name
from clawbot.text.patterns import any_glob, lazy_re
from clawbot.text.tables import packaged_table
from clawbot.trees import Skips, TreeWalk

Folders = Callable[[], Collection[Path]]
"""The folders of something that is loaded again while the program runs."""

Access = Literal["write", "read", "none"]

COMMANDS = "commands"  # folder of the state with the records of running commands
MAX_TWINS_VISITED = 100_000  # entries of denied folders examined for hard links

RUNNING_HOOK = (
    "it is part of an enabled hook, whose code runs outside of this fence, so only the user changes it: in an editor, "
    "or with `clawbot hooks disable` before"
)
SKILL = "it belongs to a skill that the user has enabled, so only the user changes it"

_STRICTEST = ("none", "read", "write")


class Barred(Struct, frozen=True):
    """A file, or a folder with everything below it. `why` completes the sentence "… is refused: ".

    With a `pattern`, only the entries of the folder `path` whose names match that glob, and what is below them.
    `twins`: deny hard links to its files too.
    """

    path: Path
    why: str
    pattern: str = ""
    twins: bool = True


class Fence(Struct, frozen=True):
    """The rules in addition to the workspace itself, which is readable and writable.

    `readable` are additional readable folders, as absolute paths. `denied` paths are neither reachable nor listed;
    `unwritable` ones are read-only, as are the folders of enabled hooks, which `hook_folders` returns at each call.
    `skill_folders` returns those of enabled skills: read-only too, and readable wherever they are. Paths need not
    exist, and links in them are followed.
    """

    readable: tuple[Path, ...] = ()
    denied: tuple[Barred, ...] = ()
    unwritable: tuple[Barred, ...] = ()
    hook_folders: Folders = tuple
    skill_folders: Folders = tuple

    def deny(self, *barred: Barred) -> Fence:
        return msgspec.structs.replace(self, denied=(*self.denied, *barred))


class Verdict(Struct, frozen=True):
    """What is allowed for a path, or `why` not. `base` is the real folder to reach it from, "" outside of all."""

    access: Access
    base: str
    why: str = ""


class _Rule(Struct, frozen=True):
    parts: tuple[str, ...]
    access: Access
    why: str = ""
    pattern: str = ""
    base: str = ""
    exact: str = ""

    def depth(self, parts: tuple[str, ...]) -> int:
        """The depth at which the rule applies on the way to `parts`; -1 if it does not."""
        size = len(self.parts)
        if parts[:size] != self.parts:
            return -1
        if not self.pattern:
            return size
        return size + 1 if len(parts) > size and fnmatchcase(parts[size], self.pattern) else -1


class Bounds:
    """The fence around the workspace `root`, evaluated for one call of a tool. Creating it blocks."""

    def __init__(self, root: Path, fence: Fence) -> None:
        self.root = os.path.realpath(root)
        own = _parts(self.root)
        self._rules = [_Rule(own, "write", base=self.root)]
        for folder in fence.readable:
            base = os.path.realpath(folder)
            self._rules.append(
                _Rule(_parts(base), "read", "it belongs to another agent and can only be read", base=base)
            )
        skills = fence.skill_folders()
        bases = [base for base in map(os.path.realpath, skills) if not is_within(self.root, base)]
        self._rules += [_Rule(_parts(base), "read", SKILL, base=base) for base in bases]
        hooks = (Barred(folder, RUNNING_HOOK) for folder in fence.hook_folders())
        unwritable = (*fence.unwritable, *hooks, *(Barred(folder, SKILL) for folder in skills))
        self._unwritable = [_rule(barred, "read") for barred in unwritable]
        self._denied = tuple(barred for barred in fence.denied if barred.twins)
        denied = [_rule(barred, "none") for barred in fence.denied]
        # On case-sensitive file systems a folder that differs from the workspace only in case is another folder.
        self._rules += [rule for rule in denied if rule.pattern or rule.parts != own or rule.exact == self.root]
        self._twins: frozenset[tuple[int, int]] | None = None

    def verdict(self, real: str) -> Verdict:
        parts = _parts(real)
        holding = [(depth, rule) for rule in self._rules if (depth := rule.depth(parts)) >= 0]
        if not holding:
            return Verdict("none", "")
        deepest = max(depth for depth, _ in holding)
        # The strictest of several rules for the same path applies.
        rule = min(
            (rule for depth, rule in holding if depth == deepest), key=lambda rule: _STRICTEST.index(rule.access)
        )
        if rule.access == "write":
            # Read-only rules restrict, and never open anything.
            rule = next((kept for kept in self._unwritable if kept.depth(parts) >= deepest), rule)
        inside = [rule.base for _, rule in holding if rule.base and is_within(rule.base, real)]
        base = self.root if self.root in inside else max(inside, key=len, default="")
        return Verdict(rule.access, base, rule.why)

    def why_denied(self, real: str) -> str:
        """Why `real`, a path without links, is denied; "" if it is not."""
        verdict = self.verdict(real)
        return verdict.why if verdict.access == "none" else ""

    def bars_below(self, folder: str) -> bool:
        """Whether the real `folder` or something in it is denied."""
        parts = _parts(folder)
        return any(rule.access == "none" and rule.parts[: len(parts)] == parts for rule in self._rules)

    def hides(self, folder: str) -> Skips:
        """A predicate for walks: whether a path relative to the real `folder` is denied."""
        if not self.bars_below(folder):
            return lambda path: False
        top = folder.rstrip("/")
        return lambda path: bool(self.why_denied(f"{top}/{path}"))

    def is_twin(self, found: os.stat_result) -> bool:
        """Whether a regular file is, or may be, a hard link to a denied one."""
        if found.st_nlink < 2 or not self._denied:
            return False
        if self._twins is None:
            self._twins = self._find_twins()
        return (found.st_dev, found.st_ino) in self._twins or (0, 0) in self._twins

    def _find_twins(self) -> frozenset[tuple[int, int]]:
        """The denied files with several hard links; includes (0, 0) if there are too many to examine."""
        twins: set[tuple[int, int]] = set()
        room = MAX_TWINS_VISITED
        for top in itertools.chain.from_iterable(map(_tops_of, self._denied)):
            room -= 1
            if not Path(top).is_dir():
                twins |= self._identities(top, top, None)
                continue
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    walk = TreeWalk(folder, most=max(room, 0))
                    for entry in walk:
                        if not entry.is_folder:
                            twins |= self._identities(f"{top}/{entry.path}", entry.name, entry.parent)
                finally:
                    os.close(folder)
                room -= walk.visited
                if not walk.is_complete:
                    return frozenset({(0, 0)})
        return frozenset(twins)

    def _identities(self, path: str, name: str, parent: int | None) -> set[tuple[int, int]]:
        """The identity of the file `name` in `parent`, if it is denied and has several hard links."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except OSError:
            return set()  # deleted
        is_twin = found.st_nlink > 1 and stat.S_ISREG(found.st_mode) and self.why_denied(path)
        return {(found.st_dev, found.st_ino)} if is_twin else set()


def _rule(barred: Barred, access: Access) -> _Rule:
    real = os.path.realpath(barred.path)
    return _Rule(_parts(real), access, barred.why, fold_name(barred.pattern), exact=real)


def _tops_of(barred: Barred) -> list[str]:
    """The files and folders that are currently denied with everything below."""
    top = os.path.realpath(barred.path)
    if not barred.pattern:
        return [top]
    pattern = fold_name(barred.pattern)
    try:
        with os.scandir(top) as entries:
            return [f"{top}/{entry.name}" for entry in entries if fnmatchcase(fold_name(entry.name), pattern)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _parts(real: str) -> tuple[str, ...]:
    return Path(fold_name(real)).parts


def is_within(folder: str, path: str) -> bool:
    """Whether the absolute `path` equals `folder` or is below it, by text."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


_STATE = "it belongs to the state of the program, which file tools don't touch"
_CONFIGURATION = "it is configuration of the program, which only the user reads and changes"
_SCRIPT = "it plays a model by the settings, so only the user changes it"
_PROGRAM = "it belongs to the program that runs, so only the user changes it"


class Neighbour(Struct, frozen=True):
    """Another agent with its own workspace; `allowed`: listed in `tools.agents`."""

    agent_id: str
    workspace: Path
    sessions: Path
    allowed: bool


def neighbours(settings: Settings, agent_id: str, paths: Paths) -> list[Neighbour]:
    """The other agents, except those that share the same workspace. Blocks."""
    own = settings.agent(agent_id).workspace
    allowed = settings.allowed_agents(agent_id)
    others = [(other, settings.agent(other).workspace) for other in settings.agent_ids if other != agent_id]
    return [
        Neighbour(other, workspace, paths.sessions(other), other in allowed)
        for other, workspace in others
        if not _same_folder(workspace, own)
    ]


def agent_fence(
    settings: Settings,
    agent_id: str,
    paths: Paths,
    hook_folders: Folders = tuple,
    *,
    skill_folders: Folders = tuple,
    config_file: Path | None = None,
    model: str | None = None,
) -> Fence:
    """The fence for the file tools of `agent_id`. Blocks.

    Another agent's workspace is denied, or readable if `tools.agents` lists that agent. The state folder is denied
    except for workspaces in it, and so is configuration anywhere: `config_file` is the one of the command line.
    `hook_folders` returns, at each call, the folders of enabled hooks, which are read-only; so are the program itself
    and the scripts of scripted models: from the settings, or `model` from the command line. `skill_folders` does the
    same for enabled skills, which can be read in the state folder too.
    """
    others = neighbours(settings, agent_id, paths)
    readable = tuple(other.workspace for other in others if other.allowed)
    foreign = [
        _foreign(agent_id, other.agent_id, other.workspace)
        for other in others
        # If two others share a workspace, only one of them may be allowed.
        if not any(_same_folder(other.workspace, folder) for folder in readable)
    ]
    workspace = settings.agent(agent_id).workspace
    files = [file for file in (paths.config_file, paths.env_file, config_file) if file is not None]
    return Fence(
        readable=readable,
        denied=(*foreign, *_state(settings, paths, workspace), *_configuration(files)),
        unwritable=(
            *(Barred(folder, RUNNING_HOOK) for folder in hook_paths(settings.hooks, workspace)),
            *(Barred(folder, SKILL) for folder in (paths.skills, *settings.skills.dirs)),
            *_scripts(settings, model),
            *_program(workspace),
        ),
        hook_folders=hook_folders,
        skill_folders=skill_folders,
    )


def foreign_fence(settings: Settings, agent_id: str, paths: Paths) -> Fence:
    """Files of other agents that the memory of `agent_id` must not index: workspaces and sessions of agents not listed
    in `tools.agents`. Blocks."""
    others = neighbours(settings, agent_id, paths)
    barred = [
        _foreign(agent_id, other.agent_id, folder)
        for other in others
        if not other.allowed
        for folder in (other.workspace, other.sessions)
    ]
    return Fence(readable=tuple(other.workspace for other in others if other.allowed), denied=tuple(barred))


def _foreign(agent_id: str, other: str, folder: Path) -> Barred:
    return Barred(folder, f"it belongs to agent {other} (agents.{agent_id}.tools.agents: [{other}] lets it be read)")


def _state(settings: Settings, paths: Paths, workspace: Path) -> Iterator[Barred]:
    if not _same_folder(paths.home, workspace):
        # Only the following entries are worth detecting by other names (hard links).
        yield Barred(paths.home, _STATE, twins=False)
    folders = (paths.agents, paths.hooks, paths.logs, paths.mcp_tools, paths.workspaces, paths.home / COMMANDS)
    yield from (Barred(path, _STATE) for path in folders)
    # Including editors' backup copies and lock files.
    programs = (paths.config_file, paths.switches_file, paths.skills_file, paths.mcp_file)
    files = (paths.env_file, *programs, paths.schedule_file, paths.history_file)
    yield from (Barred(paths.home, _STATE, pattern=f"{file.name}*") for file in files)
    # If an agent's workspace is the state folder, it holds notes as well as indexes.
    yield Barred(paths.memory_db("main").parent, _STATE, pattern="*.sqlite*")
    # A workspace may be inside `agents`; list the sessions again, so that they are the inner rule.
    yield from (Barred(paths.sessions(agent_id), _STATE) for agent_id in settings.agent_ids)


def _configuration(files: Iterable[Path]) -> Iterator[Barred]:
    """Each of `files`, with links in its path resolved at each call, and its copies."""
    for file in files:
        yield Barred(file, _CONFIGURATION)
        real = Path(os.path.realpath(file))
        name = glob.escape(real.name)
        # Editors' copies: `config.yaml~`, `config.yaml.bak`, `.config.yaml.swp`.
        yield from (Barred(real.parent, _CONFIGURATION, pattern=copy) for copy in (f"{name}[.~]*", f".{name}.*"))


def _scripts(settings: Settings, model: str | None) -> Iterator[Barred]:
    """The scripts of scripted models of all agents, which no model may write."""
    for text in (model, *_texts(settings.model_dump())):
        if text and text.startswith(SCRIPT):
            yield Barred(Path(text.removeprefix(SCRIPT)).expanduser().absolute(), _SCRIPT)


def _texts(value: Any) -> Iterator[str]:
    """All strings in nested data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from itertools.chain.from_iterable(map(_texts, value.values()))
    elif isinstance(value, list | tuple):
        yield from itertools.chain.from_iterable(map(_texts, value))


def _program(workspace: Path) -> Iterator[Barred]:
    """The code of the next start: the package, its settings and the Python environment, perhaps in the workspace."""
    code = (Path(clawbot.__file__).parent, shipped("config.yaml"), Path(sys.prefix))
    yield from (Barred(path, _PROGRAM) for path in code if not _same_folder(path, workspace))


def hook_paths(hooks: HookSettings, workspace: Path) -> list[Path]:
    """The folders of hook code: those configured, and in `workspace` those of hooks enabled by name, if missing too."""
    entries = hooks.entries.__pydantic_extra__
    return [*hooks.dirs, *(workspace / "hooks" / name for name, entry in entries.items() if entry.enabled)]


def _same_folder(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False  # one of them does not exist


_BETWEEN = lazy_re(r"[\s\"'=@~:;,()<>|&]+")


@cache
def secret_paths() -> dict[str, list[str]]:
    """The lists of `secret_paths.toml`. Blocks at the first call."""
    return packaged_table("clawbot.tools", "secret_paths.toml", dict[str, Any])


@cache
def _like(*lists: str) -> re.Pattern[str]:
    return any_glob(glob for name in lists for glob in secret_paths()[name])


def is_env_file(name: str) -> bool:
    """Whether `name` is that of a file with variables of a project, which hold its keys by custom."""
    return bool(_like("env_files").match(fold_name(name))) and not _like("public").match(fold_name(name))


def is_secret_file(name: str) -> bool:
    """Whether `name` is that of a file in a project that holds keys, passwords or variables by custom."""
    return bool(_like("env_files", "files").match(fold_name(name))) and not _like("public").match(fold_name(name))


def is_secret_folder(name: str) -> bool:
    """Whether `name` is that of a folder in a project that holds keys by custom."""
    return fold_name(name) in secret_paths()["folders"]


def is_secret_path(path: str) -> bool:
    """Whether `path` names a secret file or folder, or is below one of the secret paths of the home."""
    parts = [fold_name(part) for part in path.split("/") if part]
    if any(is_secret_file(part) or is_secret_folder(part) for part in parts):
        return True
    return any(_below_home().match("/".join(parts[at:])) for at, part in enumerate(parts) if part.startswith("."))


def mentions_secret(text: str) -> bool:
    """Whether a word of a command, which may be a text in quotes, names a secret path."""
    parts = [part for part in _BETWEEN.split(text) if part]
    paths = parts if len(parts) == 1 else [part for part in parts if "/" in part or part.startswith(".")]
    return any(is_secret_path(path) or _like("system").match(path) for path in paths)


def secret_globs(homes: tuple[Path, ...], environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Folders with globs of secrets below them: in each of `homes`, and where `environment` has the folders of XDG."""
    globs = secret_paths()["home"]
    yield from ((home, glob) for home in homes for glob in globs)
    for variable, _, prefix in (entry.partition("=") for entry in secret_paths()["xdg_folders"]):
        folder = Path(environment.get(variable, ""))
        if folder.is_absolute():
            yield from ((folder, glob.removeprefix(prefix)) for glob in globs if glob.startswith(prefix))


@cache
def _below_home() -> re.Pattern[str]:
    """What a path is matched by from its first part with a dot on: `.config/gh/hosts.yml`."""
    return any_glob(f"{glob.lower()}{rest}" for glob in secret_paths()["home"] if glob[0] == "." for rest in ("", "/*"))
