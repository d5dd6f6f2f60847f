"""Which shell commands run unasked: decisions over the text of a command, and whether one that only reads is within
reach of the file tools, by the current state of the disk.

A rule speaks about one simple command, word by word. Whatever a shell might take as more than that (`;`, `&&`, pipes,
redirections, substitutions, several lines) is allowed in its exact form only: when in doubt, the user is asked. A link,
a fence, a program of the same name in the workspace and the repository that git works in are seen on the disk alone.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from msgspec import Struct

from clawbot.guarded import GuardedFolder
from clawbot.text.interface import N_
from clawbot.tools.paths import Bounds, Fence, is_secret_path
from clawbot.tools.process import is_below, search_path
from clawbot.tools.sandbox.mounts import PACKED
from clawbot.tools.shell_calls import known_programs
from clawbot.tools.shell_reading import Reading, is_inside, is_listed, reading, reading_list
from clawbot.tools.shell_syntax import plain_commands, simple_command
from clawbot.trees import TreeWalk

MAX_SETTINGS = 100_000  # bytes of a repository's settings

IsSecret = Callable[[os.stat_result], bool]
MAX_PATHS = 10_000  # that a pattern of paths matches, or below a folder; with more, the user is asked


def reads_within(command: str, workspace: Path, fence: Fence) -> Reading | None:
    """What `command` reads where it is on the list of those that only read, its program is none of the workspace, and
    the file tools could read all of it now; None for any other. Blocks. Rules of every kind judge
    by this."""
    found = reading(command)
    if found is None:
        return None
    bounds = Bounds(workspace, fence)
    program = shutil.which(found.name.split()[0], path=search_path(os.environ.get("PATH", os.defpath)))
    if program is not None and is_below(Path(bounds.root), program):
        return None
    if found.name.startswith("git ") and not _is_own_repository(Path(bounds.root)):
        return None
    is_secret = _secret_twins(bounds.root)
    for number, path in enumerate(_paths(found, bounds.root), start=1):
        if number > MAX_PATHS or not _is_readable(path, found, bounds, is_secret):
            return None
    return found


def _paths(found: Reading, root: str) -> Iterator[str]:
    for path in found.paths:
        yield path
        if "*" in path or "?" in path:
            yield from (str(match.relative_to(root)) for match in Path(root).glob(path))


def _is_own_repository(root: Path) -> bool:
    """Whether git in `root` works in the repository of that very folder, and this has no settings but plain ones.

    A repository around the workspace holds files that are no part of it; without one `git diff` compares any files.
    """
    folder = GuardedFolder(root, real=True)
    try:
        store = folder.state(".git")
        if store is None or not stat.S_ISDIR(store.st_mode) or folder.state(".git/config.worktree") is not None:
            return False
        text = folder.read(".git/config", MAX_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return False
    sections = {name.lower() for name in re.findall(r"\[\s*([^\s\]\".]+)", text)}
    known = reading_list().git_settings
    return sections <= set(known["sections"].split()) and not re.search(known["keys"], text)


def _is_readable(path: str, found: Reading, bounds: Bounds, is_secret: IsSecret) -> bool:
    try:
        real = os.path.realpath(Path(bounds.root, path))
        inside = os.path.relpath(real, bounds.root)
        if not is_inside(path) or (real != bounds.root and not is_inside(inside)):
            return False
        if bounds.verdict(real).access == "none":
            return False
        seen = Path(real).stat()
        if stat.S_ISDIR(seen.st_mode):
            barred = found.walks and (
                bounds.bars_below(real) or (found.shows and _holds_secret(bounds.root, inside, found.dotted, is_secret))
            )
            return not found.plain_files and not barred
        return stat.S_ISREG(seen.st_mode) and not bounds.is_twin(seen) and not is_secret(seen)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False


def _secret_twins(root: str) -> IsSecret:
    """Return a test for a hard link to a secret in the workspace `root`; with too much to know each one counts."""

    @cache
    def identities() -> set[tuple[int, int]]:
        with GuardedFolder(Path(root), real=True).folder(".") as top:
            walk = TreeWalk(top, ignored=PACKED | {".git"}, most=MAX_PATHS)
            found = [os.lstat(entry.name, dir_fd=entry.parent) for entry in walk if is_secret_path(entry.path)]
        return {(each.st_dev, each.st_ino) for each in found} if walk.is_complete else {(0, 0)}

    return lambda seen: seen.st_nlink > 1 and not {(seen.st_dev, seen.st_ino), (0, 0)}.isdisjoint(identities())


def _holds_secret(root: str, folder: str, dotted: bool, is_secret: IsSecret) -> bool:
    """Whether a secret is below `folder` of `root`, or too much to know; `dotted`: what begins with a dot counts."""
    with GuardedFolder(Path(root), real=True).folder(folder) as top:
        # What others packed holds certificates of theirs.
        skips = None if dotted else lambda path: "/." in f"/{path}"
        walk = TreeWalk(top, skips=skips, ignored=PACKED | {".git"}, most=MAX_PATHS)
        named = (
            is_secret_path(f"{folder}/{entry.path}")
            or (not entry.is_folder and is_secret(os.lstat(entry.name, dir_fd=entry.parent)))
            for entry in walk
        )
        return any(named) or not walk.is_complete


# Options that run programs, read settings from elsewhere, or write them there. Git takes any clear beginning of them.
_BARRED = (
    "--exec", "--upload-pack", "--receive-pack", "--template", "--config", "--separate-git-dir", "--file", "--edit",
)  # fmt: skip
# What makes other words of a word, even where it is quoted: nobody misses these in a plain command.
_EXPANDED = "$`*?[]{}~!\\\0"
_BARRED_LETTERS = {"clone": "cu", "config": "ef"}
# Words that run a program of the command's choice.
_BARRED_WORDS = {"submodule": ("foreach",), "config": ("edit",)}


def sets_up_git(command: str) -> bool:
    """Whether `command` consists of plain calls of git, at least one of which may have to change the settings of a
    repository, and none of which names a program to run. Blocks at the first call, while the grammar is loaded."""
    found = plain_commands(command)
    if not found or any(mark in command for mark in _EXPANDED):
        return False
    calls = [[word.text for word in words] for words in found]
    return all(map(_is_plain, calls)) and any(known_programs().holds("git_setting", words[1]) for words in calls)


def _is_plain(words: Sequence[str]) -> bool:
    if len(words) < 2 or words[0] != "git":
        return False
    is_listed = any(known_programs().holds(group, words[1]) for group in ("git_setting", "git_working"))
    return is_listed and not any(_is_barred(words[1], word) for word in words[2:])


def _is_barred(subcommand: str, word: str) -> bool:
    if word.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 2 and any(barred.startswith(name) or name.startswith(barred) for barred in _BARRED)
    if word.startswith("-"):
        return any(letter in word for letter in _BARRED_LETTERS.get(subcommand, ""))
    return word in _BARRED_WORDS.get(subcommand, ()) or word.startswith("ext::")


# The last word of a rule. No simple command holds one: `<` is a redirection.
READING = "<reading>"
ANYTHING = "<anything>"
REACH = N_(
    "Not sandboxed: it runs as you and can read, change and delete whatever you can on this machine, "
    "and use the network. Keys are taken out of its environment."
)


class ShellRule(Struct, frozen=True):
    """What is allowed. `exact` takes `text` as one literal command, else as the words that a command begins with:

    `git log -1` is that command alone; `git log <reading>` is every `git log` on the list of commands that only read;
    `npm run <anything>` is every simple command that begins with these words. Wildcards (`git log*`, `npm run *`), as
    older settings have them, cover what they fit of that list, and of other commands the words before the last `*`.
    Exact means the same bytes: to a shell, a blank that is none in ASCII is a part of the word before it.
    """

    text: str
    exact: bool = False


def fits(command: str, rule: ShellRule, found: Reading | None) -> bool:
    """Whether `rule` allows `command`; `found` is what it reads if it counts as one that only reads (`reads_within`).
    Blocks at the first call, while the grammar of the shell is loaded."""
    # A pattern was not given with what is out of reach in mind, nor for a command of its own text that may read it.
    is_pattern = not rule.exact and re.search(r"[*?\[]", rule.text)
    if found is None and is_pattern and (reading(command) or (command == rule.text and is_listed(command))):
        return False
    if rule.exact or command == rule.text:
        return bool(rule.text) and command == rule.text
    parsed, pattern = simple_command(command), re.split(r"[ \t\n]+", rule.text.strip(" \t\n"))
    if parsed is None or not pattern[0]:
        return False
    words = [word.text for word in parsed]
    stem, certain = pattern[:-1], " ".join(pattern).removesuffix("*")
    if pattern[-1] == ANYTHING:
        return bool(stem) and words[: len(stem)] == stem
    if pattern[-1] == READING:
        # What may precede the subcommand, as in `git --no-pager log`, is no part of the name.
        return found is not None and stem in (words[: len(stem)], found.name.split()[: len(stem)])
    # What a pattern names for certain: `git status` for `git status*` and for `git status *`.
    if words == certain.split() and not re.search(r"[*?\[]", certain):
        return True
    return found is not None and fnmatchcase(" ".join(words), " ".join(pattern))


def offered_rule(command: str) -> ShellRule:
    """What the answer "always" allows: of a command on the list of those that only read, its program (of git the
    subcommand) as far as that list goes; else this very command."""
    found = reading(command)
    return ShellRule(command, exact=True) if found is None else ShellRule(f"{found.name} {READING}")
