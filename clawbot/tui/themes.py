"""The two looks, which theme fits the terminal, and the one that was chosen on the screen."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from pathlib import Path

import msgspec
from msgspec import Struct
from textual.theme import Theme

from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic

log = logging.getLogger(__name__)

THEMES = ("auto", "light", "dark")
"""The settings beside the names of themes."""

DARK = Theme(
    name="clawbot-dark",
    primary="#d08770",
    accent="#e0916c",
    secondary="#8aa4c8",
    foreground="#d8d6d0",
    background="#161618",
    surface="#1e1e21",
    panel="#26262a",
    success="#9bb878",
    warning="#dfb46a",
    error="#e0736f",
    dark=True,
)
LIGHT = Theme(
    name="clawbot-light",
    primary="#a04a25",
    accent="#a04a25",
    secondary="#3f648f",
    foreground="#2b2a28",
    background="#fbfaf7",
    surface="#f2f0ea",
    panel="#e8e5dd",
    success="#4a6828",
    warning="#80560a",
    error="#a82f2a",
    dark=False,
)


class KeptTheme(Struct, frozen=True):
    """A theme that was chosen on the screen while the settings said `over`."""

    theme: str
    over: str


def theme_name(wanted: str, available: Collection[str]) -> str:
    """The name of the theme for the setting `tui.theme`: auto, dark, light, or a theme's own name. One that does not
    exist falls back to auto."""
    if wanted == "dark":
        return DARK.name
    if wanted == "light":
        return LIGHT.name
    if wanted != "auto" and wanted in available:
        return wanted
    return LIGHT.name if _light_terminal(os.environ.get("COLORFGBG", "")) else DARK.name


def kept_theme(file: Path, settings: str | None = None) -> str | None:
    """The setting that was chosen on the screen, kept in `file`; None if there is none, or if `settings`, which are
    what `tui.theme` says now, were changed since. Blocks."""
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=KeptTheme)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("the theme in %s can't be read: %s", file, error)
        return None
    return kept.theme if settings in (None, kept.over) else None


def keep_theme(file: Path, theme: str, settings: str) -> None:
    """Keep `theme`, chosen while the settings say `settings`, in `file`. Blocks. Raises OSError."""
    ensure_private_dir(file.parent)
    write_atomic(file, msgspec.json.encode(KeptTheme(theme, settings)) + b"\n", mode=PRIVATE_FILE)


def _light_terminal(colours: str) -> bool:
    """Terminals that tell their colours do it as `foreground;background`, each one of the 16: 7 and 15 are light."""
    return colours.rpartition(";")[2] in ("7", "15")
