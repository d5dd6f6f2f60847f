"""The program's entry: `clawbot` and `python -m clawbot`."""

from __future__ import annotations

from clawbot.collector import collecting_later


def main() -> None:
    """Run the command line."""
    with collecting_later():
        # Deferred: the imports of every command, without the collector.
        from clawbot.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
