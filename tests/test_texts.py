"""The catalogues of the interface: nothing is missing in them, and what is in them fits the code."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Mapping
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from click.testing import CliRunner

from clawbot.cli import chat
from clawbot.cli.main import root
from clawbot.text import interface
from clawbot.text.interface import FOLDER, _, current_language, language_of, ngettext, set_language
from tests.tables import load_table
from tests.test_ci import script

TEXTS = script("texts")
PACKAGE = FOLDER.parent
MEND = "a text of the interface has changed; run: make texts, translate what it names in {}, and run it again"
HAN = r"[\u4e00-\u9fff]"

languages = pytest.mark.parametrize("language", TEXTS.LANGUAGES)


@pytest.fixture(scope="module")
def found() -> Catalog:
    texts: Catalog = TEXTS.texts_of_the_code()
    return texts


@pytest.fixture(scope="module")
def nodes() -> Mapping[Path, list[ast.AST]]:
    """The syntax of each module of the program."""
    files = PACKAGE.rglob("*.py")
    return {file: list(ast.walk(ast.parse(file.read_text(encoding="utf-8")))) for file in files}


def forms(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


def messages(language: str) -> list[Message]:
    return [message for message in TEXTS.read(language) if message.id]


@languages
def test_every_text_of_the_code_is_translated_and_nothing_else(language: str, found: Catalog) -> None:
    there = TEXTS.read(language)
    missing = [message.id for message in found if message.id and message.id not in there]
    missing += [message.id for message in TEXTS.untranslated(there)]
    gone = [message.id for message in messages(language) if message.id not in found]
    doubtful = [message.id for message in messages(language) if message.fuzzy] + list(there.obsolete)
    assert (missing, gone, doubtful) == ([], [], []), MEND.format(TEXTS.po_file(language).relative_to(PACKAGE.parent))


@languages
def test_the_files_are_as_they_are_made(language: str, found: Catalog) -> None:
    file, made = TEXTS.po_file(language), TEXTS.updated(language, found)
    assert file.read_bytes() == TEXTS.as_po(made), "run: make texts"
    assert file.with_suffix(".mo").read_bytes() == TEXTS.as_mo(TEXTS.read(language)), "run: make texts"


def fields(text: str) -> set[tuple[str, str, str]]:
    parts = string.Formatter().parse(text)
    return {(name, spec or "", conversion or "") for _, name, spec, conversion in parts if name is not None}


@languages
def test_a_translation_names_what_the_text_names(language: str) -> None:
    for message in messages(language):
        wanted = fields(message.id if isinstance(message.id, str) else message.id[-1])
        assert all(fields(form) == wanted for form in forms(message)), message.id


@languages
def test_a_translation_keeps_the_space_before_the_text(language: str) -> None:
    for message in messages(language):
        original = message.id if isinstance(message.id, str) else message.id[-1]
        assert all(form[0].isspace() == original[0].isspace() for form in forms(message)), original


def test_chinese_has_its_own_punctuation_and_room_beside_latin_words() -> None:
    for message in messages("zh"):
        for form in forms(message):
            assert not re.search(rf"{HAN}[,;!?]|{HAN}[.:](?:\s|\Z)", form), form
            assert not re.search(rf"{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}", form), f"no space in: {form}"


def test_only_constants_are_translated(nodes: Mapping[Path, list[ast.AST]]) -> None:
    """What is put together before it is looked up is in no catalogue."""
    for file, found in nodes.items():
        for node in found:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TEXTS.KEYWORDS:
                wrong = [each for each in node.args[:2] if isinstance(each, ast.JoinedStr | ast.BinOp)]
                assert not wrong, f"{file}:{node.lineno}: translate the text, then .format()"


def test_nothing_hides_the_door(nodes: Mapping[Path, list[ast.AST]]) -> None:
    """In a function that translates, `_` is no variable: mypy lets one of that name be called. In a comprehension it
    is one of its own."""
    for file, found in nodes.items():
        for function in found:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                own = list(ast.walk(function))
                targets = [node.target for node in own if isinstance(node, ast.comprehension)]
                inner = {id(each) for target in targets for each in ast.walk(target)}
                names = [each for each in own if isinstance(each, ast.Name) and each.id == "_"]
                named = [each for each in names if id(each) not in inner]
                bound = [each.lineno for each in named if isinstance(each.ctx, ast.Store)]
                used = [each for each in named if isinstance(each.ctx, ast.Load)]
                assert not (bound and used), f"{file}:{bound[0]}: give it another name than _"


def test_a_number_chooses_the_form() -> None:
    assert ngettext("{n:,} turn", "{n:,} turns", 1).format(n=1) == "1 turn"
    assert ngettext("{n:,} turn", "{n:,} turns", 2_000).format(n=2_000) == "2,000 turns"
    set_language("zh")
    assert ngettext("{n:,} turn", "{n:,} turns", 1).format(n=1) == "1 轮"


def test_without_a_catalogue_it_is_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interface, "FOLDER", tmp_path)
    set_language("zh")
    assert _("Yesterday") == "Yesterday"


@pytest.mark.parametrize(
    ("environment", "wanted", "language"),
    load_table(__file__, "the_environment_or_the_settings_choose_the_language"),
)
def test_the_environment_or_the_settings_choose_the_language(
    environment: dict[str, str], wanted: str, language: str
) -> None:
    assert language_of(environment, wanted) == language


@pytest.mark.parametrize(
    ("environment", "config", "arguments", "language"),
    load_table(__file__, "a_chat_begins_in_its_language"),
)
def test_a_chat_begins_in_its_language(
    monkeypatch: pytest.MonkeyPatch, own_world: Path, environment: str, config: str, arguments: list[str], language: str
) -> None:
    monkeypatch.setenv("LANG", environment)
    monkeypatch.delenv("LC_ALL", raising=False)
    file = own_world / "home/.clawbot/config.yaml"
    file.parent.mkdir(mode=0o700)
    file.write_text(config, encoding="utf-8")

    def stop(chosen: chat.Choices) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(chat, "_load_runtime", stop)
    assert CliRunner().invoke(root, ["chat", "-p", "hi", *arguments], catch_exceptions=False).exit_code == 0
    assert current_language() == language
