"""README and the pages: their tables are those of the program, their links, commands and keys exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from textual.binding import Binding
from textual.widgets import TextArea

from clawbot.cli.chat import command as chat_command
from clawbot.cli.importing import PathGroup
from clawbot.cli.main import root
from clawbot.config.keys import ACTIONS, FIXED, shown_key
from clawbot.tui.screens.choices import ModelsScreen
from tests.test_ci import ROOT, script

PAGES = script("pages")
README = ROOT / "README.md"
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in [README, *ROOT.glob("docs/**/*.md")]}
# Pages with keys that can be had, paths and addresses that look like slash commands.
OTHERS = ("configuration", "security", "reference-behaviour", "writing-commands", "serve", "sandbox", "benchmarks")


@pytest.mark.parametrize("page", PAGES.PAGES)
def test_a_page_has_the_tables_of_the_program(page: str) -> None:
    assert TEXTS[page] == PAGES.made(page), "run: make pages"
    assert "made by .ci/pages.py" in TEXTS[page]


def test_readme_is_short_and_begins_with_what_does_everything() -> None:
    text = TEXTS["README.md"]
    assert len(text.splitlines()) <= 100
    assert [line for line in fenced(text).splitlines()[:4] if line.startswith(("git clone", "make"))] == [
        "git clone ADDRESS clawbot    # the address of this repository",
        "make chat                    # sets everything up in .venv, then opens the chat",
        "make test                    # the same setup, then the checks and tests",
    ]


# -- links -------------------------------------------------------------------------------------------------------------


def links(page: str) -> Iterator[tuple[str, str]]:
    """The path and the anchor of every link of `page` to a file."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```|`[^`\n]*`", "", TEXTS[page], flags=re.DOTALL)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            there = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
            yield there.relative_to(ROOT).as_posix(), anchor


def anchors(page: str) -> set[str]:
    """The headings of `page` as links name them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", TEXTS[page], flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_somewhere(page: str) -> None:
    dead = [path for path, _ in links(page) if not (ROOT / path).exists()]
    dead += [f"{path}#{anchor}" for path, anchor in links(page) if anchor and anchor not in anchors(path)]
    assert dead == []


def test_readme_leads_to_every_page() -> None:
    reached, new = set[str](), {"README.md"}
    while new:
        reached |= new
        new = {path for page in new for path, _ in links(page) if path in TEXTS} - reached
    assert set(TEXTS) - reached == set()


# -- commands and keys -------------------------------------------------------------------------------------------------


def fenced(text: str) -> str:
    """What is in blocks of code for a shell."""
    return "\n".join(re.findall(r"```(?:sh|console|bash)\n(.*?)```", text, re.DOTALL))


def spans(text: str) -> list[str]:
    """What is in `text` as code within a line."""
    return [
        " ".join(each.split())
        for each in re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    ]


def called(text: str) -> Iterator[str]:
    """Every call of clawbot in `text`: the words after its name, to the end of the command."""
    for line in [*fenced(text).splitlines(), *spans(text)]:
        code = re.sub(r"\s#.*", "", line)
        yield from re.findall(r"(?:^|[\s(]|\.venv/bin/)clawbot((?: [^|;)`]+)?)(?=$|[|;)])", code)


def options(command: click.Command) -> dict[str, bool]:
    """The options of `command`, and whether a value follows; `clawbot` with options alone is the chat."""
    own = {"-": False, "-h": False, "--help": False}
    for each in command.params:
        takes = isinstance(each, click.Option) and not each.is_flag
        own |= dict.fromkeys([*each.opts, *each.secondary_opts], takes)
    return options(chat_command) | own if command is root else own


def mistake(words: list[str]) -> str:
    """What is wrong with the call of clawbot with `words`; "" where nothing is."""
    command: click.Command = root
    context, is_value = click.Context(root), False
    for word in words[: words.index("--") if "--" in words else None]:
        name, _, value = word.partition("=")
        if word.startswith("-") and not is_value and name not in options(command):
            return f"no option {word} of {command.name}"
        if isinstance(command, PathGroup) and word not in command.commands:
            command = command.commands["from"]
        elif isinstance(command, click.Group) and not is_value and re.fullmatch(r"[a-z]+", word):
            found = command.get_command(context, word)
            if found is None:
                return f"no command {word} of {command.name}"
            command = found
        is_value = not value and options(command).get(name, False)
    return ""


@pytest.mark.parametrize("page", TEXTS)
def test_every_command_of_a_page_exists(page: str) -> None:
    assert [fault for words in called(TEXTS[page]) if (fault := mistake(words.split()))] == []


def test_the_json_of_every_command_is_described_in_its_help_or_on_the_page() -> None:
    named = " ".join(spans(TEXTS["docs/json.md"]))
    printing = [(context.command_path, each) for each, context in PAGES.cli_commands() if "--json" in options(each)]
    silent = [path for path, command in printing if "With --json" not in (command.help or "")]
    assert [path for path in silent if path not in named] == []
    assert len(printing) > len(silent) > 0


@pytest.mark.parametrize(
    "text",
    [
        "`clawbot begin`",
        "`clawbot chat --prompt x`",
        "```sh\n.venv/bin/clawbot memory find x | head\n```",
        "`clawbot --fork`",
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str) -> None:
    assert any(mistake(words.split()) for words in called(text))


@pytest.mark.parametrize("page", [page for page in TEXTS if not page.endswith(tuple(f"/{name}.md" for name in OTHERS))])
def test_every_slash_command_and_key_of_a_page_exists(page: str) -> None:
    commands = {info.name for info in PAGES.shipped_commands().infos} | {"/command"}
    named = {match[0] for span in spans(TEXTS[page]) if (match := re.match(r"/[a-z]+(?= |$)", span))}
    assert named <= commands
    editing = [key for binding in TextArea.BINDINGS if isinstance(binding, Binding) for key in binding.key.split(",")]
    known = {shown_key(key) for action in ACTIONS for key in action.keys} | set(FIXED) | set(editing)
    known |= {binding.key for binding in ModelsScreen.BINDINGS if isinstance(binding, Binding)}
    keys = [span.removesuffix(" twice") for span in spans(TEXTS[page])]
    assert {key for key in keys if re.fullmatch(r"(?:ctrl|alt|shift)\+\S+|f\d+|esc", key)} <= known
