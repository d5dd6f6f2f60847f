"""Writes requirements/NAME.txt: what the extra NAME needs beyond clawbot itself, pinned and with hashes.

`clawbot extras install NAME` passes the file to pip. One package is one line.

python .ci/extras.py    # needs uv
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
FOLDER = CHECKOUT / "requirements"
NOT_OF_USERS = {"build", "dev"}
TESTED = ("requirements-dev.lock", "tests/milvus/requirements.lock", "tests/real/requirements.lock")
"""An extra gets the versions that the tests run on; the first file that has a package counts."""
COMPILE = (
    "uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate "
    "--no-emit-index-url pyproject.toml"
)


def lines(lock: str) -> list[str]:
    """The requirements of a lock file, each with its hashes on one line."""
    return re.sub(r"\s*\\\n\s*", " ", lock).splitlines()


def names() -> list[str]:
    """The extras that the program installs."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return sorted(set(project["optional-dependencies"]) - NOT_OF_USERS)


def tested() -> str:
    """The versions that the tests run on, as constraints."""
    found: dict[str, list[str]] = {}
    for file in TESTED:
        of_file: dict[str, list[str]] = {}
        for line in lines((CHECKOUT / file).read_text(encoding="utf-8")):
            if "==" in line:
                of_file.setdefault(line.partition("==")[0], []).append(line.partition(" --hash")[0])
        found = of_file | found
    return "\n".join(line for each in found.values() for line in each)


def main() -> None:
    """Write all files."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as constraints:
        constraints.write(tested())
        constraints.flush()

        def compiled(*arguments: str) -> list[str]:
            command = [*COMPILE.split(), "--constraints", constraints.name, *arguments]
            return lines(subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True).stdout)

        own = set(compiled())
        for name in names():
            text = "\n".join(line for line in compiled("--extra", name) if line not in own)
            (FOLDER / f"{name}.txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
