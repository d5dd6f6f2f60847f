"""The one door for texts of the interface: English in the code, other languages in catalogues of gettext.

A text is translated where it is made for the user: `_("Saved {name}").format(name=name)`. Constants of a module are
only marked there (`N_`) and translated where they are shown, since the language is set after the imports. What models,
logs, files and programs read remains English.
"""

from __future__ import annotations

import gettext as catalogues
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

InterfaceLanguage = Literal["en", "zh"]

DOMAIN = "clawbot"
FOLDER = Path(__file__).parents[1] / "locale"
"""The catalogues: LANGUAGE/LC_MESSAGES/clawbot.po, and the .mo that is made of it."""


class _Chosen:
    """The catalogue of this process; English has none."""

    texts: catalogues.NullTranslations = catalogues.NullTranslations()
    language: InterfaceLanguage = "en"


def _(text: str) -> str:
    """Return `text` in the language of the interface."""
    # The empty text is the head of a catalogue.
    return _Chosen.texts.gettext(text) if text else ""


def ngettext(one: str, many: str, number: int) -> str:
    """Return the form of a text that goes with `number`, which it names as `{n}` or not at all."""
    return _Chosen.texts.ngettext(one, many, number)


def N_(text: str) -> str:
    """Return `text` itself, marked for the catalogue: a constant that is translated where it is shown."""
    return text


def language_of(environment: Mapping[str, str], wanted: str = "auto") -> InterfaceLanguage:
    """Return the language for the setting `tui.language` (`wanted`); auto asks `environment` in the order of POSIX."""
    if wanted == "auto":
        wanted = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"


def current_language() -> InterfaceLanguage:
    """Return the language of the interface now."""
    return _Chosen.language


def set_language(language: InterfaceLanguage) -> None:
    """Choose the language, once at the start. Blocks: reads the catalogue. English where that can't be read."""
    texts = catalogues.NullTranslations()
    if language != "en":
        texts = catalogues.translation(DOMAIN, FOLDER, [language], fallback=True)
    use(texts, language)


def use(texts: catalogues.NullTranslations, language: InterfaceLanguage) -> None:
    """Take the texts of a catalogue that was made in another way."""
    _Chosen.texts, _Chosen.language = texts, language
