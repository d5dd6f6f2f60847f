"""A package that is installed in a folder of a test, as far as its metadata and one module go."""

from __future__ import annotations

from pathlib import Path


def install(site: Path, package: str, points: str, source: str = "") -> None:
    """Install `package`, a module with `source`, into `site`; `points` are its entry points."""
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    info.joinpath("entry_points.txt").write_text(points)
    site.joinpath(f"{package}.py").write_text(source)
