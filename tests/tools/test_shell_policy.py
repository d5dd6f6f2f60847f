"""What runs unasked: a simple command that a pattern speaks about, and nothing that only looks like one; and which
commands are git's own work on the settings of a repository."""

from __future__ import annotations

import pytest

from clawbot.tools.shell_policy import ShellRule, offered_rule, sets_up_git
from clawbot.tools.shell_policy import fits as fits_as_found
from clawbot.tools.shell_reading import reading
from clawbot.tools.shell_syntax import simple_command
from tests.tools.conftest import TABLES

GIT = ShellRule("git <anything>")


def fits(command: str, rule: ShellRule) -> bool:
    """Whether `rule` allows `command`, where all that it reads is in reach."""
    return fits_as_found(command, rule, reading(command))


@pytest.mark.parametrize(("command", "rule", "allowed"), TABLES["rules"])
def test_rules(command: str, rule: str, allowed: bool) -> None:
    assert fits(command, ShellRule(rule)) is allowed


@pytest.mark.parametrize("command", TABLES["not_simple"])
def test_nothing_that_is_more_than_one_simple_command_fits(command: str) -> None:
    assert not fits(command, GIT)
    assert not fits(command, ShellRule("git status *"))
    assert not fits(command, ShellRule("<reading>"))


def test_an_exact_rule_allows_that_very_text_and_no_pattern() -> None:
    rule = offered_rule("rm *.tmp | cat")
    assert rule.exact
    assert fits("rm *.tmp | cat", rule)
    star = offered_rule("rm *")
    assert fits("rm *", star)
    assert not fits("rm -rf", star)


BLANKS = " \t\n\r\x0b\x1f\u00a0\u1680\u2000\u2003\u200a\u202f\u205f\u3000\u2028\u200b\ufeff"


@pytest.mark.parametrize("blank", BLANKS, ids=lambda blank: f"U+{ord(blank):04X}")
def test_an_exact_rule_is_about_the_same_bytes(blank: str) -> None:
    command = f"bash run.sh{blank}"
    for rule in (ShellRule("bash run.sh", exact=True), offered_rule("bash run.sh")):
        assert not fits(command, rule)
        assert not fits(f"{blank}bash run.sh", rule)
    # Between words that a shell makes itself, the blanks of a shell may stand.
    assert fits(command, ShellRule("bash run.sh")) is (blank in " \t")
    assert fits(command, offered_rule(command))
    assert not fits("bash run.sh", offered_rule(command))


def test_an_escaped_blank_at_the_end_is_a_part_of_the_word() -> None:
    rule = offered_rule("bash a\\ ")
    assert fits("bash a\\ ", rule)
    assert not fits("bash a\\", rule)


@pytest.mark.parametrize(("command", "pattern", "exact"), TABLES["offered"])
def test_what_always_offers(command: str, pattern: str, exact: bool) -> None:
    assert offered_rule(command) == ShellRule(pattern, exact)


@pytest.mark.parametrize(
    "command",
    [
        "ls -la", "git log -3", "rm x ", "rm x\n", "cat a\\ ", "rm x", "*", "l?",
    ],
)  # fmt: skip
def test_what_always_offers_allows_the_command_itself(command: str) -> None:
    assert fits(command, offered_rule(command))


def test_what_the_disk_forbids_is_asked_about_unless_the_user_named_it() -> None:
    rules = [ShellRule("cat <reading>"), ShellRule("cat here.md")]
    allowed = {
        command: any(
            fits_as_found(command, rule, reading(command) if command == "cat near.md" else None) for rule in rules
        )
        for command in ("cat near.md", "cat far.md", "cat here.md")
    }
    assert allowed == {"cat near.md": True, "cat far.md": False, "cat here.md": True}


def test_words_of_a_simple_command() -> None:
    words = simple_command("git log --since='2 weeks' a\\ b")
    assert words is not None
    assert [word.text for word in words] == ["git", "log", "--since=2 weeks", "a b"]


@pytest.mark.parametrize("command", TABLES["plain_git"])
def test_plain_git(command: str) -> None:
    assert sets_up_git(command)


@pytest.mark.parametrize("command", TABLES["other_than_plain_git"])
def test_anything_else(command: str) -> None:
    assert not sets_up_git(command)
