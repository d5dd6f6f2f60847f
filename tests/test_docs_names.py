"""The names and figures that pages state are those of the program: settings, records, symbols, files, constants."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator

import pytest
import yaml

from clawbot.config.schema import Settings
from clawbot.config.spelling import extras_of, items_of, section_of
from clawbot.config.values import SettingsSection
from clawbot.local_model.store import OFFERS
from clawbot.plugins.serve.tools import DENIED
from tests.test_ci import ROOT
from tests.test_pages import TEXTS, spans

PLACES = ("clawbot/**/*.py", "clawbot/**/*.toml", "tests/*/**/*.py", "benchmarks/*.py", "Makefile")
SOURCES = "\n".join(path.read_text("utf-8") for place in PLACES for path in ROOT.glob(place))
# Spellings of other programs, and values of Python, which look like settings.
FOREIGN = {"agents.list", "agents.defaults", "session.idle_minutes", "session.reset.at_hour", "HttpOnly"}
FOREIGN |= {"memory_search.experimental.session_memory", "event.hook", "event.topic"}
WRITTEN = re.compile(
    r"\bCLAWBOT_\w+|^[\w-]+\.(?:json|token|sock)$|^(?:[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,})(?=$|\()"
    r"|^clawbot(?:\.\w[\w-]*)+(?=$|\()"
)
# Phrases of pages, and the constants in them.
FIGURES = [
    ("context", "unknown: {:,}", ["context.window:DEFAULT_WINDOW"]),
    ("context", "Below {:,} tokens", ["context.prompt:COMPACT_BELOW"]),
    ("context", "A window below {:,}", ["agent.context_policy:SMALL_WINDOW"]),
    ("context", "up to {:,} characters", ["tools.files:DIFFERENCE_CHARS"]),
    ("skills", "a folder at most {:,} skills", ["extensions.manifest:MAX_FOLDERS"]),
    ("sandbox", "up to `sandbox_folders` folders ({:,})", ["tools.sandbox.mounts:MAX_FOLDERS"]),
    ("sandbox", "the first {:,}; with more", ["tools.sandbox.mounts:MAX_PACKED"]),
    ("sandbox", "or with more than {} such files", ["tools.sandbox.command:MAX_HIDDEN_FILES"]),
    ("serve", "at most {}", ["plugins.serve.web:MAX_SCREENS"]),
    ("serve", "after {:.0f} seconds of silence", ["plugins.serve.chat:QUIET_SECONDS"]),
]


def settings(section: type[SettingsSection] | None) -> Iterator[tuple[str, ...]]:
    """Yield the path of every setting in `section`; `*` stands for a name that the user chooses."""
    for name, field in section.model_fields.items() if section else ():
        own = field.alias or name
        yield (own,)
        yield from ((own, *path) for path in settings(section_of(field.annotation)))
        yield from ((own, "*", *path) for path in settings(section_of(items_of(field.annotation, dict))))
    if section and (extras := section_of(extras_of(section))):
        yield from (("*", *path) for path in settings(extras))


PATHS = set(settings(Settings))


def is_known(name: str) -> bool:
    """Return whether `name` is written somewhere in the program, or can be imported."""
    if not name.startswith("clawbot."):
        return name in SOURCES or name in FOREIGN
    try:
        return f'"{name}"' in SOURCES or bool(pkgutil.resolve_name(name))
    except (ImportError, AttributeError, ValueError):
        return False


def unknown(text: str) -> Iterator[str]:
    """Yield each name in `text` that the program does not know. Raises ValueError for settings that are not valid."""
    for span in set(spans(text)):
        key = re.fullmatch(
            r"((?:[a-z_]+\.)+(?!(?:py|md|json|ya?ml|toml|txt|log|lock|sqlite|token)$)[a-z_]+)(?:: .*)?", span
        )
        words = key[1].split(".") if key and key[1] not in FOREIGN else []
        ends = [path[-len(words) :] for path in PATHS if words and any(words[0] in path for path in PATHS)]
        if ends and not any(len(end) == len(words) and all(map(fits, end, words)) for end in ends):
            yield span
        yield from (name for name in WRITTEN.findall(span) if not is_known(name))
    for block in re.findall(r"^```yaml\n(?!turns:)(.*?)^```", text, re.DOTALL | re.MULTILINE):
        Settings.model_validate(yaml.safe_load(block))


def fits(own: str, word: str) -> bool:
    """Return whether `word` may stand for `own`."""
    return own in (word, "*")


@pytest.mark.parametrize("page", TEXTS)
def test_every_name_of_a_page_is_one_of_the_program(page: str) -> None:
    assert sorted(unknown(TEXTS[page])) == []


def test_names_that_the_program_does_not_know_are_found() -> None:
    wrong = "query.wait_for_reads|tools.shell.approve: deny|clawbot.memory.backend.Backends|clawbot.memory-offers"
    wrong += "|CLAWBOT_HOUSE|hook.json|wait_for_reads|HookHandler"
    assert sorted(unknown("".join(f" `{name}`" for name in wrong.split("|")))) == sorted(wrong.split("|"))


@pytest.mark.parametrize(("page", "phrase", "constants"), FIGURES)
def test_the_figures_of_a_page_are_those_of_the_program(page: str, phrase: str, constants: list[str]) -> None:
    text = phrase.format(*(pkgutil.resolve_name(f"clawbot.{name}") for name in constants))
    assert text in " ".join(TEXTS[f"docs/{page}.md"].split())


def test_the_lists_of_refused_tools_and_of_models_are_complete() -> None:
    assert {name for name in DENIED if f"`{name}`" not in TEXTS["docs/serve.md"]} == set()
    rows = [f"| `{each.name}` | {each.size / 1e9:.1f} GB | {each.machine} GB" for each in OFFERS]
    assert [row for row in rows if row not in TEXTS["docs/local-models.md"]] == []
