"""Which shell commands run unasked, as pure decisions over the text of a command.

An allow pattern speaks about one simple command. Whatever a shell might take as more than that (`;`, `&&`, pipes,
redirections, substitutions, several lines) never matches a pattern: when in doubt, the user is asked.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

Approval = Literal["ask", "allow", "deny"]
Verdict = Literal["run", "ask", "refuse"]

OPERATORS = frozenset("();<>|&")  # what shlex splits off as punctuation
# Expanded by the shell even inside double quotes; a simple command that needs them is asked about.
EXPANSIONS = frozenset("$`")
# fmt: off
# Run whatever program their arguments hold.
INTERPRETERS = {
    ".", "awk", "bash", "brew", "busybox", "csh", "dash", "deno", "eval", "expect", "fish", "gawk", "ksh", "lua",
    "node", "perl", "php", "psql", "python", "python3", "ruby", "screen", "sed", "sh", "source", "sqlite3", "tmux",
    "vi", "vim", "zsh",
}
# Run other commands, or install and start things.
LAUNCHERS = {
    "apt", "apt-get", "at", "command", "crontab", "doas", "docker", "env", "exec", "find", "gdb", "launchctl",
    "make", "nice", "nohup", "npx", "pip", "pip3", "pipx", "podman", "setsid", "ssh", "strace", "su", "sudo",
    "systemctl", "time", "timeout", "uv", "uvx", "watch", "xargs",
}
# Destroy, overwrite or send by their arguments.
CHANGERS = {
    "chmod", "chown", "curl", "dd", "kill", "killall", "ln", "mkfs", "mount", "mv", "nc", "ncat", "pkill", "reboot",
    "rm", "rmdir", "rsync", "scp", "shred", "shutdown", "tar", "tee", "truncate", "umount", "unlink", "wget", "zip",
}
# The second word says what they do.
WITH_SUBCOMMAND = {
    "bundle", "cargo", "dotnet", "gem", "gh", "git", "go", "gradle", "hg", "kubectl", "mvn", "npm", "pnpm", "poetry",
    "yarn",
}
# fmt: on
# Allowing one call of these allows no other one.
RISKY = INTERPRETERS | LAUNCHERS | CHANGERS
REACH = (
    "Not sandboxed: it runs as you and can read, change and delete whatever you can on this machine, "
    "and use the network. Keys are taken out of its environment."
)


class Rule(Struct, frozen=True):
    """What is allowed. `exact` takes `text` as one literal command, else as a pattern of words with `*` and `?`."""

    text: str
    exact: bool = False


def simple_words(command: str) -> list[str] | None:
    """The words of `command` when it is one simple command, else None.

    Comments are not looked for (`status#;rm` is a word and a second command to a shell), and control characters are
    refused: what separates words is then the same here as in the shell.
    """
    if any(char in EXPANSIONS or (not char.isprintable() and char != "\t") for char in command):
        return None
    lexer = shlex.shlex(command, posix=True, punctuation_chars="".join(OPERATORS))
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return None
    if not words or any(word and set(word) <= OPERATORS for word in words):
        return None
    return words


def fits(command: str, rule: Rule) -> bool:
    """Whether `rule` allows `command`."""
    if rule.exact:
        return command.strip() == rule.text.strip()
    words, pattern = simple_words(command), rule.text.split()
    if words is None or not pattern:
        return False
    if pattern[-1] == "*":
        return _agree(words[: len(pattern) - 1], pattern[:-1])
    if pattern[-1].endswith("*"):
        words = words[: len(pattern)]
    return _agree(words, pattern)


def _agree(words: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(words) == len(pattern) and all(map(fnmatchcase, words, pattern))


def decide(command: str, approval: Approval, rules: Iterable[Rule]) -> Verdict:
    """What happens with `command`: `deny` refuses all, `allow` runs all, `ask` asks for what no rule allows."""
    if approval == "deny":
        return "refuse"
    if approval == "allow" or any(fits(command, rule) for rule in rules):
        return "run"
    return "ask"


def offered_rule(command: str) -> Rule:
    """What the answer "always" allows: the program with any arguments (for git and its like: the subcommand), and
    only this very command when it is compound or its program is risky."""
    exact = Rule(command.strip(), exact=True)
    words = simple_words(command)
    if words is None:
        return exact
    program = words[0].rpartition("/")[2]
    if RISKY & {program, program.rstrip("0123456789.")} or "=" in words[0] or any(mark in words[0] for mark in "*?[ "):
        return exact
    if program not in WITH_SUBCOMMAND:
        return Rule(f"{words[0]} *")
    if len(words) < 2 or not words[1].isalnum():
        return exact
    return Rule(f"{words[0]} {words[1]} *")
