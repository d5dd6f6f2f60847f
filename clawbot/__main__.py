"""The program's entry: `clawbot` and `python -m clawbot`."""

from __future__ import annotations

from clawbot.cli.main import main

if __name__ == "__main__":
    main()
