"""The program's entry: `clawbot` and `python -m clawbot`."""

from __future__ import annotations

import sys

from clawbot.collector import collecting_later

NO_WINDOWS = """\
clawbot needs Linux or macOS: locks, private files and the fence around the workspace are those of POSIX.
On Windows it runs in WSL 2: `wsl --install`, then start it in there."""


def main() -> None:
    """Run the command line."""
    if sys.platform == "win32":
        sys.exit(NO_WINDOWS)
    with collecting_later():
        # Deferred: the imports of every command, without the collector.
        from clawbot.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
