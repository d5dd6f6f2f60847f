"""Where things are kept: the state folder, the workspace, the log, the room on the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from clawbot.cli.doctor_checks.finding import Finding, Findings, Here, nearest, quoted, writable
from clawbot.config.paths import shipped
from clawbot.context.workspace import diff_workspace

# A transcript line and an index update need far less; below the first, appends begin to fail on busy machines.
FULL = 100 * 2**20
SCARCE = 2**30


def state_folder(here: Here) -> Findings:
    """The state folder can be written, or made."""
    home = here.paths.home
    if home.exists() and not home.is_dir():
        fix = f"mv {quoted(home)} {quoted(home)}.old"
        return [Finding("home", "problem", f"{home} is a file, not a folder", fix)]
    if not writable(home):
        place = nearest(home)
        return [Finding("home", "problem", f"{place} can't be written", f"chmod u+rwx {quoted(place)}")]
    there = "" if home.exists() else ", which the first start makes"
    return [Finding("home", "ok", f"{home}{there}")]


def workspace(here: Here) -> Findings:
    """The workspace exists, can be written, and has its files, all of them UTF-8."""
    folder = here.settings.workspace
    init = f"clawbot workspace init{here.for_agent}"
    if not folder.exists():
        if not writable(folder):
            message = f"{folder} does not exist and can't be made: {nearest(folder)} can't be written"
            return [Finding("workspace", "problem", message, f"chmod u+rwx {quoted(nearest(folder))}")]
        return [Finding("workspace", "warning", f"{folder} does not exist yet; the first start makes it", init)]
    if not folder.is_dir():
        fix = f"mv {quoted(folder)} {quoted(folder)}.old"
        return [Finding("workspace", "problem", f"{folder} is a file, not a folder", fix)]
    if not writable(folder):
        return [Finding("workspace", "problem", f"{folder} can't be written", f"chmod u+rwx {quoted(folder)}")]
    return [_notes(folder / "memory") or Finding("workspace", "ok", f"{folder}"), *_templates(folder, init)]


def _notes(folder: Path) -> Finding | None:
    if folder.exists() and not folder.is_dir():
        message = f"{folder} is a file, not a folder: nothing can be remembered"
        return Finding("workspace", "problem", message, f"mv {quoted(folder)} {quoted(folder)}.old")
    if not writable(folder):
        message = f"{folder} can't be written: nothing can be remembered"
        return Finding("workspace", "problem", message, f"chmod u+rwx {quoted(folder)}")
    return None


def _templates(folder: Path, init: str) -> Findings:
    files = diff_workspace(folder, shipped("workspace_template"))
    missing = [file.name for file in files if file.state == "missing"]
    found = [_not_text(folder / file.name) for file in files if file.state != "missing"]
    if missing:
        found.append(Finding("workspace", "warning", f"missing: {', '.join(missing)}", init))
    return [finding for finding in found if finding is not None]


def _not_text(file: Path) -> Finding | None:
    try:
        file.read_text("utf-8")
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 (byte {error.start}): the model sees replacement signs there"
        return Finding("workspace", "warning", message, f"iconv -f latin1 -t utf-8 {quoted(file)}")
    return None


def log_file(here: Here) -> Findings:
    """The log can be written."""
    file = here.paths.log_file
    if not writable(file):
        return [Finding("log", "problem", f"{file} can't be written", f"chmod -R u+rwX {quoted(here.paths.logs)}")]
    return [Finding("log", "ok", f"{file}")]


def disk(here: Here) -> Findings:
    """There is room for what is to come."""
    places = {nearest(here.paths.home), nearest(here.settings.workspace)}
    return [_room(place) for place in sorted(places)]


def _room(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    message = f"{free / 2**30:.1f} GB free at {place}"
    if free >= SCARCE:
        return Finding("disk", "ok", message)
    fix = f"free some space: du -xh {quoted(place)} | sort -h | tail"
    return Finding("disk", "problem" if free < FULL else "warning", message, fix)
