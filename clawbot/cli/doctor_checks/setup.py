"""What the user has set: the configuration, the keys, who may read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here, quoted
from clawbot.config.env import load_env
from clawbot.errors import ClawbotError
from clawbot.llm.providers import KEYS

CHECK_CONFIG = "clawbot config check"
# More lines than a person reads before mending the first ones.
MOST_PROBLEMS = 5


def configuration(here: Here) -> Findings:
    """The settings can be used; each problem with its file and line."""
    file = here.paths.config_file
    if here.config_error is not None:
        problems = here.config_error.problems
        found = [Finding("config", "problem", f"{problem}", CHECK_CONFIG) for problem in problems[:MOST_PROBLEMS]]
        if len(problems) > MOST_PROBLEMS:
            found.append(Finding("config", "problem", f"{len(problems) - MOST_PROBLEMS} more problems", CHECK_CONFIG))
        return found
    notices = [Finding("config", "warning", notice, "clawbot config show") for notice in here.config_notices]
    if not file.exists():
        return [Finding("config", "ok", f"the shipped settings ({file} does not exist)"), *notices]
    return [Finding("config", "ok", f"{file} is valid"), *notices]


def env_file(here: Here) -> Findings:
    """The `.env` file can be read as one."""
    file = here.paths.env_file
    try:
        load_env(here.paths)
    except ClawbotError as error:
        return [Finding("env", "problem", f"{error}", f"{here.environ.get('EDITOR') or 'nano'} {quoted(file)}")]
    return [Finding("env", "ok", f"{file} can be read")] if file.exists() else []


def keys(here: Here) -> Findings:
    """Which keys are there: names, never values."""
    found = [_key(here, name) for name in KEYS if name in here.environ]
    named = here.settings.api_key_env
    if named and not here.environ.get(named):
        message = f"api_key_env names {named}, which is not set"
        found.append(Finding("keys", "problem", message, f"echo '{named}=…' >> {quoted(here.paths.env_file)}"))
    if here.settings.api_key is not None:
        fix = f"move it to {quoted(here.paths.env_file)} and name it by api_key_env"
        found.append(Finding("keys", "warning", "a key stands in the configuration file (api_key)", fix))
    if not found:
        message = f"no key is set (looked for {len(KEYS)}); without one clawbot runs offline or on a local server"
        fix = f"clawbot, then /model and ctrl+k; or write OPENAI_API_KEY=… (say) to {quoted(here.paths.env_file)}"
        return [Finding("keys", "ok", message, fix)]
    return found


def _key(here: Here, name: str) -> Finding:
    if here.environ[name].strip():
        return Finding("keys", "ok", f"{name} is set ({KEYS[name].title})")
    return Finding("keys", "warning", f"{name} is set but empty", f"unset {name}")


def permissions(here: Here) -> Findings:
    """Nobody else can read keys, transcripts and logs."""
    if os.name == "nt":
        return []
    paths = here.paths
    files = [paths.env_file, paths.log_file]
    if here.settings.api_key is not None:
        files.append(paths.config_file)
    found = [
        *(_open_to_others(path, "700") for path in (paths.home, paths.logs, here.sessions)),
        *(_open_to_others(path, "600") for path in files),
        _open_transcripts(here.sessions),
    ]
    wrong = [finding for finding in found if finding is not None]
    return wrong or [Finding("permissions", "ok", f"what is in {paths.home} is yours alone")]


def _open_to_others(path: Path, wanted: str) -> Finding | None:
    if not _readable_by_others([path]):
        return None
    message = f"{path} can be read by others on this machine"
    return Finding("permissions", "warning", message, f"chmod {wanted} {quoted(path)}")


def _open_transcripts(folder: Path) -> Finding | None:
    count = len(_readable_by_others(folder.glob("*.json*")))
    if not count:
        return None
    message = f"{count} files in {folder} can be read by others on this machine"
    return Finding("permissions", "warning", message, f"chmod -R go-rwx {quoted(folder)}")


def _readable_by_others(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
