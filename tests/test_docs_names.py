"""The names that pages use are those of the program: settings, variables, records, symbols of Python, files, YAML."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clawbot.agent.context_policy import SMALL_WINDOW
from clawbot.config.schema import Settings
from clawbot.config.spelling import extras_of, items_of, section_of
from clawbot.config.values import SettingsSection
from clawbot.context.prompt import COMPACT_BELOW
from clawbot.context.window import DEFAULT_WINDOW
from clawbot.extensions.manifest import MAX_FOLDERS as MAX_SKILLS
from clawbot.local_model.store import OFFERS
from clawbot.plugins.serve.chat import QUIET_SECONDS
from clawbot.plugins.serve.tools import DENIED
from clawbot.plugins.serve.web import MAX_SCREENS
from clawbot.skills.discovery import MAX_BYTES
from clawbot.tools.files import DIFFERENCE_CHARS
from clawbot.tools.sandbox.command import MAX_HIDDEN_FILES
from clawbot.tools.sandbox.mounts import MAX_FOLDERS, MAX_PACKED
from tests.test_pages import TEXTS, spans

ROOT = Path(__file__).parents[1]
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for pattern in ("clawbot/**/*.py", "clawbot/**/*.toml", "tests/**/*.py", "benchmarks/*.py", "Makefile")
    for path in ROOT.glob(pattern)
    if path != Path(__file__)
)
# Spellings of other programs, and values of Python, which look like settings.
FOREIGN = {
    *("agents.list", "agents.defaults", "session.idle_minutes", "session.reset.at_hour", "event.hook", "event.topic"),
    "HttpOnly",
    "memory_search.experimental.session_memory",
}


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
SECTIONS = {name for path in PATHS for name in path} - {"*"}


def is_setting(words: list[str]) -> bool:
    """Return whether some setting ends as `words` does."""
    ends = (path[-len(words) :] for path in PATHS if len(path) >= len(words))
    return any(all(own in (word, "*") for own, word in zip(end, words, strict=True)) for end in ends)


def is_symbol(name: str) -> bool:
    """Return whether `name` is a name that the program writes, or can be imported."""
    if f'"{name}"' in SOURCES:
        return True
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def unknown(text: str) -> Iterator[str]:
    """Yield each name in `text` that the program does not know."""
    for span in set(spans(text)):
        key = re.fullmatch(r"([a-z_]+(?:\.[a-z_]+)+)(?:: .*)?", span)
        is_file = re.search(r"\.(?:py|md|json|ya?ml|toml|txt|log|lock|sqlite|token)$", span)
        if key and not is_file and key[1].split(".")[0] in SECTIONS and key[1] not in FOREIGN:
            yield from () if is_setting(key[1].split(".")) else (f"setting {key[1]}",)
        if (symbol := re.fullmatch(r"(clawbot(?:\.\w[\w-]*)+)(?:\(.*\))?", span)) and not is_symbol(symbol[1]):
            yield f"symbol {symbol[1]}"
        for name in re.findall(
            r"\bCLAWBOT_\w+|^[\w-]+\.(?:json|token|sock)$|^(?:[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,})(?=$|\()", span
        ):
            yield from () if name in SOURCES or name in FOREIGN else (f"name {name}",)
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if not block.startswith("turns:"):
            Settings.model_validate(yaml.safe_load(block))


@pytest.mark.parametrize("page", TEXTS)
def test_every_name_of_a_page_is_one_of_the_program(page: str) -> None:
    assert sorted(unknown(TEXTS[page])) == []


@pytest.mark.parametrize(
    "text",
    [
        "`query.wait_for_reads`",
        "`tools.shell.approve: deny`",
        "`clawbot.memory.backend.Backends`",
        "`clawbot.memory-offers`",
        "`CLAWBOT_HOUSE`",
        "`hook.json`",
        "`wait_for_reads`",
        "`HookHandler(name)`",
    ],
)
def test_a_name_that_the_program_does_not_know_is_found(text: str) -> None:
    assert len(list(unknown(text))) == 1


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("context", f"unknown: {DEFAULT_WINDOW:,}"),
        ("context", f"Below {COMPACT_BELOW:,} tokens"),
        ("context", f"A window below {SMALL_WINDOW:,}"),
        ("context", f"up to {DIFFERENCE_CHARS:,} characters"),
        ("skills", f"more than {MAX_BYTES // 1024**2} MiB or {MAX_SKILLS:,} files and folders"),
        ("skills", f"a folder at most {MAX_SKILLS:,} skills"),
        ("sandbox", f"up to `sandbox_folders` folders ({MAX_FOLDERS:,})"),
        ("sandbox", f"the first {MAX_PACKED:,}; with more, or with more than {MAX_HIDDEN_FILES}"),
        ("serve", f"at most {MAX_SCREENS}"),
        ("serve", f"after {QUIET_SECONDS:.0f} seconds of silence"),
        *(("serve", f"`{name}`") for name in sorted(DENIED)),
        *(("local-models", f"`{model.name}` | {model.size / 1e9:.1f} GB | {model.machine} GB") for model in OFFERS),
    ],
)
def test_the_figures_of_a_page_are_those_of_the_program(page: str, text: str) -> None:
    assert text in " ".join(TEXTS[f"docs/{page}.md"].split())
