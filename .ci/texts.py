"""Brings the catalogues of the interface up to date with the code: new texts are added, gone ones dropped.

python .ci/texts.py, which is `make texts`
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

CHECKOUT = Path(__file__).parents[1]
FOLDER = CHECKOUT / "clawbot/locale"
LANGUAGES = ("zh",)
# The functions that mark texts, and how many each is given.
KEYWORDS = {"_": 1, "N_": 1, "ngettext": 2}
# When a text was written tells nothing, and would make each writing another one.
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)
_DATES = re.compile(
    r'^"(?:POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Language-Team): .*"\n', re.MULTILINE
)


def po_file(language: str) -> Path:
    """The catalogue of `language`, as people write it."""
    return FOLDER / language / "LC_MESSAGES/clawbot.po"


def texts_of_the_code() -> Catalog:
    """Every text that the code marks, without translations, in the order of the files. Raises SyntaxError.

    Babel's own reading of Python does not look into f-strings before Python 3.12.
    """
    found = Catalog()
    for file in sorted((CHECKOUT / "clawbot").rglob("*.py")):
        place = (file.relative_to(CHECKOUT).as_posix(), 0)
        for text in texts_in(file.read_text(encoding="utf-8")):
            found.add(text, locations=[place])
    legacy = CHECKOUT / "clawbot/config/legacy.toml"
    tables = tomllib.loads(legacy.read_text(encoding="utf-8"))
    for why in (*(rule["text"] for rule in tables["refused"]), *tables["ignored"]):
        found.add(why, locations=[(legacy.relative_to(CHECKOUT).as_posix(), 0)])
    return found


def texts_in(code: str) -> Iterator[str | tuple[str, ...]]:
    """The texts that `code` marks, in its order; those with a plural as a pair."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        given = [each.value for each in call.args[: KEYWORDS.get(name, 0)] if isinstance(each, ast.Constant)]
        if given and len(given) == KEYWORDS[name]:
            yield given[0] if len(given) == 1 else tuple(given)


def read(language: str) -> Catalog:
    """The catalogue of `language`; an empty one where there is none."""
    file = po_file(language)
    text = file.read_bytes() if file.exists() else b""
    catalogue = read_po(io.BytesIO(text), locale=language, domain="clawbot")
    catalogue.creation_date = catalogue.revision_date = WRITTEN
    catalogue.project, catalogue.version, catalogue.fuzzy = "clawbot", "1", False
    return catalogue


def updated(language: str, found: Catalog) -> Catalog:
    """The catalogue of `language` with the texts that were `found`: without guesses and without what is gone."""
    catalogue = read(language)
    catalogue.update(found, no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    catalogue.creation_date = WRITTEN
    catalogue.header_comment = f"# The texts of the interface: {language}. docs/CONTRIBUTING.md says how one is added."
    return catalogue


def as_po(catalogue: Catalog) -> bytes:
    """The file that people write."""
    out = io.BytesIO()
    write_po(out, catalogue, width=110, sort_by_file=True, include_lineno=False)
    return _DATES.sub("", out.getvalue().decode()).encode()


def as_mo(catalogue: Catalog) -> bytes:
    """The file that the program reads."""
    out = io.BytesIO()
    write_mo(out, catalogue)
    return out.getvalue()


def untranslated(catalogue: Catalog) -> Iterator[Message]:
    """What is missing in it."""
    for message in catalogue:
        forms = message.string if isinstance(message.string, tuple | list) else (message.string,)
        if message.id and not all(forms):
            yield message


def main() -> None:
    """Update every catalogue; the exit status is 1 while a translation is missing."""
    found, missing = texts_of_the_code(), 0
    for language in LANGUAGES:
        catalogue = updated(language, found)
        po_file(language).parent.mkdir(parents=True, exist_ok=True)
        po_file(language).write_bytes(as_po(catalogue))
        po_file(language).with_suffix(".mo").write_bytes(as_mo(catalogue))
        for message in untranslated(catalogue):
            missing += 1
            sys.stderr.write(f"{po_file(language).relative_to(CHECKOUT)}: no translation of {message.id!r}\n")
    if missing:
        sys.exit(f"Translate what is named above ({missing}), then run: make texts")


if __name__ == "__main__":
    main()
