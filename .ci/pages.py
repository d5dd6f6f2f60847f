"""Writes the tables of keys, commands and providers in the pages from the tables of the program.

Each table is between a comment with its name and a comment `end`; the text around them is written by hand.

python .ci/pages.py, which is `make pages`
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from clawbot.agent.commands import GROUP, CommandSet, join_commands
from clawbot.cli.main import root
from clawbot.config.keys import ACTIONS, FIXED, KeyMap
from clawbot.distribution import DISTRIBUTION
from clawbot.entry_points import installed
from clawbot.llm.providers import PROVIDERS
from clawbot.plugins.dreaming.screen import KEYS as REVIEW_KEYS
from clawbot.tui.screens.common import help_lines

CHECKOUT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/keys.md", "docs/commands.md", "docs/models.md")
# The ten keys of README: names of actions, or keys that can't be changed.
FIRST_KEYS = ("enter", "newline", "@path", "stop", "esc twice", "mode", "unfold", "sessions", "memory", "palette")
_BLOCK = re.compile(r"(<!-- made by \.ci/pages\.py: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
# Options that mean the same in each command that has them, which docs/commands.md explains once.
COMMON = ("--agent ID", "--config PATH", "--max-results N", "--after DAY", "--before DAY")
_JSON = re.compile(r"\s*With --json: [^\f]*?(?=\n\s*\n|\s*Exits with|\Z)")


def table(*rows: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a Markdown table; the first row is its head."""
    for number, cells in enumerate(rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        if number == 0:
            yield "|" + "---|" * len(cells)


# -- keys --------------------------------------------------------------------------------------------------------------


def key_rows() -> Iterator[tuple[str, str, str]]:
    """Yield the keys, the meaning and the name in `tui.keys` ("" if fixed) of every line of `/help`."""
    names = {action.meaning: action.name for action in ACTIONS}
    for keys, meaning in help_lines(KeyMap()):
        yield ", ".join(f"`{key}`" for key in keys.split(", ")), meaning, names.get(meaning, "")


def first_keys() -> Iterator[str]:
    """Yield the table of README. Raises ValueError if one of its keys is gone."""
    rows = {name or keys.strip("`"): (keys, meaning) for keys, meaning, name in key_rows()}
    rows["@path"] = ("`@path`", "attach a file, a folder or a picture")
    if gone := [name for name in FIRST_KEYS if name not in rows]:
        raise ValueError(f"no such key: {', '.join(gone)}")
    return table(("key", ""), *(rows[name] for name in FIRST_KEYS))


def all_keys() -> Iterator[str]:
    """Yield the table of all keys of the chat."""
    rows = ((keys, meaning, f"`{name}`" if name else "–") for keys, meaning, name in key_rows())
    return table(("key", "does", "name in `tui.keys`"), *rows)


def fixed_keys() -> Iterator[str]:
    """Yield the table of the keys that no setting can change."""
    alike: dict[str, list[str]] = {}
    for key, meaning in FIXED.items():
        alike.setdefault(meaning, []).append(f"`{key}`")
    return table(("key", "in the prompt"), *((", ".join(keys), meaning) for meaning, keys in alike.items()))


# -- commands ----------------------------------------------------------------------------------------------------------


def shipped_commands() -> CommandSet:
    """Return the slash commands of the program and its plugins."""
    return join_commands(each for each in installed(GROUP) if each.distribution == DISTRIBUTION)


def slash_commands() -> Iterator[str]:
    """Yield the table of the slash commands, those of the shipped plugins last."""
    rows = ((f"`{info.name} {info.arguments}".rstrip() + "`", info.help) for info in shipped_commands().infos)
    return table(("command", "does"), *rows)


def cli_commands(
    command: click.Command = root, name: str = "clawbot", parent: click.Context | None = None
) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield each command of the command line with its context, in the order of `--help`; no groups that only group."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            if found := command.get_command(context, each):
                yield from cli_commands(found, each, context)


def first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a help text, without the part on JSON."""
    return _JSON.sub("", inspect.cleandoc(text or "")).partition("\f")[0].split("\n\n")[0].replace("\n", " ")


def escaped(text: str) -> str:
    """Return `text` with what is markup outside of code marked as text."""
    return text.replace("<", "\\<").replace("*", "\\*")


def cli() -> Iterator[str]:
    """Yield each command with its own options and the first paragraph of its help, a heading for each noun."""
    noun = ""
    for command, context in cli_commands():
        words = context.command_path.split()
        if " ".join(words[:2]) != noun:
            noun = " ".join(words[:2])
            yield f"\n### {noun}\n"
        options = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
        names = [name for name, _ in filter(None, options) if name not in COMMON]
        shown = [f"[{name.replace('INTEGER RANGE', 'N').replace(' / ', '|')}]" for name in names]
        pieces = [each for each in command.collect_usage_pieces(context) if each != "[OPTIONS]"]
        yield f"- `{' '.join([*(words[2:] or words), *shown, *pieces])}`: {escaped(first_paragraph(command.help))}"


def providers() -> Iterator[str]:
    """Yield the table of the vendors whose keys are looked for, in that order."""
    rows = ((each.title, " or ".join(f"`{key}`" for key in each.keys), f"`{each.default}`") for each in PROVIDERS)
    return table(("provider", "key", "model of `auto`"), *rows)


def review_keys() -> Iterator[str]:
    """Yield the table of the keys of the review of proposals."""
    return table(("key", "does"), *((f"`{key.name}`", key.label) for key in REVIEW_KEYS))


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "first-keys": first_keys,
    "all-keys": all_keys,
    "fixed-keys": fixed_keys,
    "review-keys": review_keys,
    "slash-commands": slash_commands,
    "cli": cli,
    "providers": providers,
}


def made(page: str) -> str:
    """Return the text of `page` with its tables rewritten. Raises KeyError for a table that nobody makes."""
    text = CHECKOUT.joinpath(page).read_text(encoding="utf-8")
    return _BLOCK.sub(lambda block: block[1] + "\n".join(BLOCKS[block[2]]()).strip() + "\n" + block[3], text)


if __name__ == "__main__":
    for page in PAGES:
        CHECKOUT.joinpath(page).write_text(made(page), encoding="utf-8")
