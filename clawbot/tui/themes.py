"""The two looks, and which one fits the terminal."""

from __future__ import annotations

import os
from collections.abc import Collection

from textual.theme import Theme

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
    primary="#b0562f",
    accent="#b0562f",
    secondary="#3f648f",
    foreground="#2b2a28",
    background="#fbfaf7",
    surface="#f2f0ea",
    panel="#e8e5dd",
    success="#55752f",
    warning="#94650d",
    error="#b3352f",
    dark=False,
)


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


def _light_terminal(colours: str) -> bool:
    """Terminals that tell their colours do it as `foreground;background`, each one of the 16: 7 and 15 are light."""
    return colours.rpartition(";")[2] in ("7", "15")
