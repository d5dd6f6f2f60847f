"""Whether the program and the machine are idle enough for a job that waits for it: nobody types, no turn runs, and the
machine is not on battery."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")
IN_USE = "somebody uses the program"
ON_BATTERY = "the machine is on battery"
_ATTRIBUTES = ("type", "scope", "online", "status")
_PMSET = ("/usr/bin/pmset", "-g", "batt")

Supply = Mapping[str, str]
"""The attributes of one power supply by name, in small letters; missing ones are left out."""


def wait_reason(idle: float, *, busy: bool, quiet: float, battery: bool) -> str:
    """Return why a job that needs `idle` quiet seconds does not run now, "" if it may. `busy`: a turn runs; `quiet` are
    the seconds since somebody typed or sent something; `battery`: the machine runs on it."""
    if busy or quiet < idle:
        return IN_USE
    return ON_BATTERY if battery else ""


def is_on_battery(supplies: Sequence[Supply]) -> bool:
    """Return whether the machine runs on battery, by the power supplies of Linux. Batteries of its devices, such as a
    mouse, don't count. Where nothing is known, it does not."""
    own = [supply for supply in supplies if supply.get("scope") != "device"]
    batteries = [supply for supply in own if supply.get("type") in ("battery", "ups")]
    lines = [supply for supply in own if supply not in batteries and "online" in supply]
    if any(supply["online"] != "0" for supply in lines):
        return False
    if any(supply.get("status") == "discharging" for supply in batteries):
        return True
    return bool(lines and batteries) and not any(supply.get("status") == "charging" for supply in batteries)


def runs_on_battery(report: str) -> bool:
    """Return the same by the report of `pmset -g batt` of macOS."""
    source = report.partition("\n")[0]
    return "drawing from" in source and "'AC Power'" not in source


async def on_battery() -> bool:
    """Return whether this machine runs on battery; False where the system does not say."""
    if sys.platform == "darwin":
        return runs_on_battery(await _pmset())
    return is_on_battery(await asyncio.to_thread(read_supplies, SUPPLIES))


def read_supplies(folder: Path) -> list[Supply]:
    """Return the power supplies in `folder`, as Linux lists them in /sys. Blocks."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [{name: text for name in _ATTRIBUTES if (text := _read(entry / name))} for entry in entries]


def _read(file: Path) -> str:
    """Return the text of an attribute, "" for one that is missing, or that the driver can't read now."""
    try:
        return file.read_text("ascii", "replace").strip().lower()
    except OSError:
        return ""


async def _pmset() -> str:
    try:
        process = await asyncio.create_subprocess_exec(*_PMSET, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    except OSError:
        return ""
    printed, _ = await process.communicate()
    return printed.decode(errors="replace")
