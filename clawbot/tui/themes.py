"""The two palettes, which theme fits the terminal, and the one that was chosen on the screen."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from textual.app import App
from textual.color import Color
from textual.driver import Driver
from textual.events import Resize
from textual.theme import Theme

from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic

log = logging.getLogger(__name__)

T = TypeVar("T")
RESIZED = 0.02  # seconds, for sizes that follow each other while a window is dragged

THEMES = ("auto", "light", "dark")
"""The settings other than the names of themes."""

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
INKS = {"foreground": 0.7, "accent": 1.0, "secondary": 1.0, "success": 1.0, "warning": 1.0, "error": 1.0}
"""The colours of text, each with the least opacity in which it is used."""
CONTRAST = 4.6  # of text, at least; WCAG 2 asks for 4.5
STEPS = 20  # from a colour to black or white
SIXTEEN: dict[bool, dict[str, Any]] = {
    True: {"accent": "#55ffff", "secondary": "#ff55ff", "success": "#55ff55", "warning": "#ffff55", "error": "#ff5555"},
    False: {
        "accent": "#0000aa",
        "secondary": "#aa00aa",
        "success": "#00aa00",
        "warning": "#aa5500",
        "error": "#aa0000",
    },
}
"""The colours of text where a terminal has but 16, dark and light: those of a theme fall together there."""


def adapted(theme: Theme, *, sixteen: bool = False) -> Theme:
    """Return `theme` with text that can be read on each of its grounds, on a terminal of `sixteen` colours if set."""
    if sixteen:
        text, ground = ("#ffffff", "#000000") if theme.dark else ("#000000", "#ffffff")
        plain = replace(theme, foreground=text, background=ground, surface=ground, panel=ground)
        return replace(plain, **SIXTEEN[theme.dark])
    if theme.ansi:
        return theme
    shades = theme.to_color_system().generate()
    background, surface, panel = (Color.parse(shades[name]) for name in ("background", "surface", "panel"))
    if contrast(panel.blend(panel.get_contrast_text(1.0), INKS["foreground"]), panel) < CONTRAST:
        panel = surface
    grounds = background, surface, panel
    inks: dict[str, Any] = {
        name: _readable(Color.parse(shades[name]), grounds, opacity) for name, opacity in INKS.items()
    }
    return replace(theme, panel=panel.hex, **inks)


def _readable(ink: Color, grounds: Sequence[Color], opacity: float) -> str:
    """Return `ink`, as far moved to black or white as the contrast on `grounds` needs."""
    pole = grounds[0].get_contrast_text(1.0)
    steps = [ink, *(ink.blend(pole, step / STEPS) for step in range(1, STEPS))]
    readable = (
        step for step in steps if all(contrast(each.blend(step, opacity), each) >= CONTRAST for each in grounds)
    )
    return next(readable, pole).hex


def contrast(text: Color, ground: Color) -> float:
    """Return the contrast of two opaque colours, from 1 to 21."""
    dark, light = sorted((_luminance(text), _luminance(ground)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Color) -> float:
    parts = colour.normalized
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


class ResizedApp(App[T]):
    """An app that follows the size of the terminal. Textual waits for a timer of 8 ms, which it skips if its thread is
    stopped for so long: no size would be followed any more."""

    async def _on_resize(self, _event: Resize) -> None:  # besides Textual's own
        asyncio.get_running_loop().call_later(RESIZED, self._check_resize)


class ThemedApp(ResizedApp[object]):
    """An app with our two themes, which adapts the colours of every theme; `sixteen`: the terminal has but 16."""

    def __init__(self, driver: type[Driver] | None = None, *, sixteen: bool = False) -> None:
        self._adapted: set[str] = set()
        self._sixteen = sixteen
        super().__init__(driver_class=driver)
        self.set_class(sixteen, "-sixteen")
        for own in (DARK, LIGHT):
            self.register_theme(own)

    def refresh_css(self, animate: bool = True) -> None:
        """Before the first screen, leave the parsing to it: Textual would parse everything twice."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def validate_theme(self, name: str) -> str:
        """Adapt the theme `name` before it is shown first: see `adapted`."""
        if name not in self._adapted:
            self._adapted.add(name)
            self.register_theme(adapted(self.available_themes[name], sixteen=self._sixteen))
        return name


class KeptTheme(Struct, frozen=True):
    """A theme that was chosen on the screen while the setting was `over`."""

    theme: str
    over: str


def theme_name(wanted: str, available: Collection[str]) -> str:
    """Return the name of the theme for the setting `tui.theme`: auto, dark, light, or a theme's own name. One that does
    not exist falls back to auto."""
    if wanted == "dark":
        return DARK.name
    if wanted == "light":
        return LIGHT.name
    if wanted != "auto" and wanted in available:
        return wanted
    # COLORFGBG is `foreground;background`, each one of the 16: 7 and 15 are light.
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if ground in ("7", "15") else DARK.name


def kept_theme(file: Path, settings: str | None = None) -> str | None:
    """Return the setting that was chosen on the screen, kept in `file`; None if there is none, or if `settings`, which
    are the value of `tui.theme` now, were changed since. Blocks."""
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=KeptTheme)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("the theme in %s can't be read: %s", file, error)
        return None
    return kept.theme if settings in (None, kept.over) else None


def keep_theme(file: Path, theme: str, settings: str) -> None:
    """Keep `theme`, chosen while the setting is `settings`, in `file`. Blocks. Raises OSError."""
    ensure_private_dir(file.parent)
    write_atomic(file, msgspec.json.encode(KeptTheme(theme, settings)) + b"\n", mode=PRIVATE_FILE)
