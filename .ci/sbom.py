"""Writes the bill of materials that goes with the wheel: every locked package that clawbot runs on, as CycloneDX.

python .ci/sbom.py > sbom.cdx.json
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

CHECKOUT = Path(__file__).parents[1]
LOCKED = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)


def locked(lock: str) -> list[tuple[str, str]]:
    """Name and version of each package in the text of a lock file."""
    return LOCKED.findall(lock)


def bill(lock: str, project: dict[str, str], version: str) -> str:
    """The bill of materials as JSON; the same for the same lock, whenever and wherever it is written."""
    root = Component(
        name=project["name"],
        version=version,
        type=ComponentType.APPLICATION,
        description=project["description"],
        bom_ref=project["name"],
    )
    parts = [
        Component(name=name, version=number, bom_ref=f"{name}=={number}", purl=PackageURL("pypi", None, name, number))
        for name, number in locked(lock)
    ]
    made = Bom(components=parts, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, lock))
    made.metadata.component = root
    made.register_dependency(root, parts)
    described = json.loads(JsonV1Dot6(made).output_as_string())
    # When it was written tells nothing, and would make each writing another one.
    del described["metadata"]["timestamp"]
    return json.dumps(described, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Print the bill of this checkout."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r'__version__ = "([^"]+)"', (CHECKOUT / "clawbot/__init__.py").read_text(encoding="utf-8"))
    if version is None:
        sys.exit("clawbot/__init__.py has no __version__")
    sys.stdout.write(bill((CHECKOUT / "requirements.lock").read_text(encoding="utf-8"), project, version[1]))


if __name__ == "__main__":
    main()
