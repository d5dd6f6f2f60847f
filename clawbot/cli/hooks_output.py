"""What `clawbot hooks` prints: pure texts and plain data from the hooks that were found."""

from __future__ import annotations

import shlex
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clawbot.cli.config import masked
from clawbot.config.document import scalar
from clawbot.config.values import format_duration
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.manifest import Requires
from clawbot.tui.render.sanitize import clean_line

_HEAD = ("Status", "Hook", "Description", "Source")
_NARROWEST = 20
"""Columns of a description in the narrowest terminal."""
_LABEL = 12
# How a requirement is told, and what its kind is called in JSON.
_KINDS = {"bin": "bins", "any bin": "anyBins", "env": "env", "os": "os", "python": "python"}


def status(hook: FoundHook) -> str:
    """One word: `ready`, `off`, `missing` (something that it needs) or `broken`."""
    if hook.problem:
        return "broken"
    if not hook.enabled:
        return "off"
    return "missing" if hook.missing else "ready"


def reason(hook: FoundHook) -> str:
    """Why the hook does not run; "" when it does."""
    parts = [] if hook.enabled or hook.problem else ["off"]
    parts += [hook.problem] if hook.problem else []
    parts += [f"missing {', '.join(hook.missing)}"] if hook.missing else []
    return "; ".join(parts)


# -- JSON --------------------------------------------------------------------------------------------------------------


def hook_data(hook: FoundHook, *, any_runs: bool) -> dict[str, Any]:
    """The JSON form of a hook. `any_runs`: hooks are not switched off as a whole."""
    return {
        "name": hook.name,
        "description": hook.manifest.description,
        "source": hook.source,
        "folder": str(hook.folder),
        "events": list(hook.manifest.events),
        "enabled": hook.enabled,
        "eligible": hook.ready and any_runs,
        "missing": missing_data(hook.missing),
        "problem": hook.problem,
    }


def info_data(hook: FoundHook, timeout: float, *, any_runs: bool) -> dict[str, Any]:
    """The JSON form of all that is known about a hook. `timeout` is the usual one, in seconds."""
    manifest = hook.manifest
    requires = {kind: list(names) for kind, names in _required(manifest.requires).items()}
    return {
        **hook_data(hook, any_runs=any_runs),
        "emoji": manifest.emoji,
        "homepage": manifest.homepage,
        "order": manifest.order,
        "timeoutSeconds": manifest.timeout or timeout,
        "always": manifest.always,
        "requires": requires,
        "env": sorted(hook.env),
        "settings": masked(dict(hook.settings)),
    }


def missing_data(phrases: Sequence[str]) -> dict[str, list[str]]:
    """Unmet requirements by their kind."""
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS.values()}
    for phrase in phrases:
        kind, _, names = phrase.partition(": ")
        found[_KINDS[kind]] += names.split(" or " if kind == "os" else ", ")
    return found


def _required(requires: Requires) -> Mapping[str, Sequence[str]]:
    return {
        "bins": requires.bins,
        "anyBins": requires.any_bins,
        "env": requires.env,
        "os": requires.os,
        "python": requires.python,
    }


# -- list --------------------------------------------------------------------------------------------------------------


def table(hooks: Sequence[FoundHook], columns: int, *, verbose: bool) -> Iterator[str]:
    """The hooks as lines under a head; descriptions are cut so that a line fits into `columns`."""
    head = [*_HEAD, "Missing"] if verbose else [*_HEAD]
    rows = [head, *(_row(hook, verbose=verbose) for hook in hooks)]
    widths = [max(_width(row[number]) for row in rows) for number in range(len(head))]
    others = sum(widths) - widths[2] + 2 * (len(head) - 1)
    widths[2] = min(widths[2], max(_NARROWEST, columns - others))
    for row in rows:
        row[2] = _cut(row[2], widths[2])
        yield "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(hook: FoundHook, *, verbose: bool) -> list[str]:
    cells = [status(hook), hook.name, hook.manifest.description, hook.source]
    if verbose:
        cells.append(hook.problem or ", ".join(hook.missing))
    return [clean_line(cell) for cell in cells]


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) >= width:
        text = text[:-1]
    return f"{text.rstrip()}…"


# -- info --------------------------------------------------------------------------------------------------------------


def info_lines(hook: FoundHook, timeout: float) -> Iterator[str]:
    """All that is known about a hook. `timeout` is the usual one, in seconds."""
    manifest = hook.manifest
    yield clean_line(f"{manifest.emoji} {hook.name}: {status(hook)}")
    if manifest.description:
        yield f"  {clean_line(manifest.description)}"
    facts = [
        ("problem", hook.problem),
        ("source", hook.source),
        ("folder", str(hook.folder)),
        ("homepage", manifest.homepage),
        ("events", ", ".join(manifest.events)),
        ("order", str(manifest.order)),
        ("timeout", format_duration(manifest.timeout or timeout)),
        *(("requires", line) for line in _requirement_lines(hook)),
        *(("settings", f"{key}: {scalar(value)}") for key, value in masked(dict(hook.settings)).items()),
        *(("env", name) for name in sorted(hook.env)),
    ]
    last = ""
    for label, text in facts:
        if text:
            yield f"  {label if label != last else '':<{_LABEL}}{clean_line(text)}"
            last = label


def _requirement_lines(hook: FoundHook) -> Iterator[str]:
    requires = hook.manifest.requires
    phrases = [f"{kind}: {name}" for kind in ("bins", "env", "python") for name in _required(requires)[kind]]
    phrases = [phrase.replace("bins:", "bin:") for phrase in phrases]
    phrases += [f"any bin: {', '.join(requires.any_bins)}"] if requires.any_bins else []
    phrases += [f"os: {' or '.join(requires.os)}"] if requires.os else []
    yield from (f"{phrase} (missing)" if phrase in hook.missing else phrase for phrase in phrases)
    if hook.manifest.always:
        yield "nothing must be there (always)"


# -- check -------------------------------------------------------------------------------------------------------------


def check_data(hooks: Sequence[FoundHook], config_file: Path, *, any_runs: bool) -> dict[str, Any]:
    """The JSON form of a check."""
    idle = [
        {"name": hook.name, "status": status(hook), "reason": reason(hook), "fixes": list(fixes(hook, config_file))}
        for hook in hooks
        if not hook.ready
    ]
    return {"enabled": any_runs, "ready": [hook.name for hook in hooks if hook.ready], "notReady": idle}


def check_lines(hooks: Sequence[FoundHook], config_file: Path) -> Iterator[str]:
    """How many are ready, then each hook that does not run: why, and what mends it."""
    ready = [hook.name for hook in hooks if hook.ready]
    yield f"{len(ready)} of {len(hooks)} ready" + (f": {', '.join(map(clean_line, ready))}" if ready else "")
    for hook in hooks:
        if not hook.ready:
            yield clean_line(f"{hook.name}: {reason(hook)}")
            yield from (f"  fix: {clean_line(fix)}" for fix in fixes(hook, config_file))


def fixes(hook: FoundHook, config_file: Path) -> Iterator[str]:
    """What lets the hook run, step by step; nothing for another system."""
    if hook.problem:
        yield f"look into {hook.folder}" if hook.folder != Path() else "install the package again"
        return
    needed = missing_data(hook.missing)
    yield from (f"install {name}, so that it is on PATH" for name in needed["bins"])
    if needed["anyBins"]:
        yield f"install one of {', '.join(needed['anyBins'])}, so that it is on PATH"
    for name in needed["env"]:
        yield f"export {name}=… or, in {config_file}, hooks: {{entries: {{{hook.name}: {{env: {{{name}: …}}}}}}}}"
    for name in needed["python"]:
        yield f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(name)}"
    if not hook.enabled:
        yield f"clawbot hooks enable {hook.name}"
