"""Asks pip-audit whether a locked package has a known vulnerability. Without the database it says so and passes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
# Seconds: for one answer of the database, and for all of them.
ANSWER_TIMEOUT, TIMEOUT = 5, 120
SKIPPED = "pip-audit: skipped, the database of vulnerabilities cannot be reached"


@dataclass
class Audit:
    """What was found: how many packages were looked up, which were not in the database, what is known about which."""

    looked_up: int = 0
    unknown: list[str] = field(default_factory=list)
    vulnerable: list[str] = field(default_factory=list)


def read(report: str) -> Audit:
    """What pip-audit's JSON says; nothing was looked up where it is no report."""
    audit = Audit()
    try:
        packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return audit
    for package in packages:
        if "skip_reason" in package:
            audit.unknown.append(package["name"])
            continue
        audit.looked_up += 1
        for each in package["vulns"]:
            fixed = ", ".join(each["fix_versions"]) or "no version yet"
            audit.vulnerable.append(f"{package['name']} {package['version']}: {each['id']}, mended in {fixed}")
    return audit


def verdict(audit: Audit, told: str = "") -> tuple[int, str]:
    """The exit status and what to say. `told` is the last line that pip-audit wrote, for when there is no database."""
    if not audit.looked_up:
        return 0, f"{SKIPPED}{f' ({told[:200]})' if told else ''}"
    lines = [f"pip-audit: {audit.looked_up} locked packages were looked up"]
    if audit.unknown:
        lines.append(f"pip-audit: not in the database: {', '.join(audit.unknown)}")
    lines += [f"pip-audit: {each}" for each in audit.vulnerable]
    if audit.vulnerable:
        lines.append("pip-audit: raise the version in pyproject.toml where it is named, then run: make lock")
    return int(bool(audit.vulnerable)), "\n".join(lines)


def main() -> None:
    """Audit requirements.lock."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(CHECKOUT / "requirements.lock"), "--require-hashes"]
    command += ["--disable-pip", "--progress-spinner", "off", "--timeout", str(ANSWER_TIMEOUT), "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        status, text = verdict(Audit(), f"no end within {TIMEOUT} s")
    else:
        audit = read(done.stdout)
        last = done.stderr.strip().splitlines()[-1:] if not audit.unknown else ["it knows none of the packages"]
        status, text = verdict(audit, "".join(last))
    sys.stderr.write(text + "\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
