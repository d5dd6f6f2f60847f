"""What runs unasked: a simple command that a pattern speaks about, and nothing that only looks like one; and which
commands are git's own work on the settings of a repository."""

from __future__ import annotations

import pytest

from clawbot.tools.shell_policy import ShellRule, offered_rule, sets_up_git
from clawbot.tools.shell_policy import fits as fits_as_found
from clawbot.tools.shell_reading import reading
from clawbot.tools.shell_syntax import simple_command

GIT = ShellRule("git <anything>")


def fits(command: str, rule: ShellRule) -> bool:
    """Whether `rule` allows `command`, where all that it reads is in reach."""
    return fits_as_found(command, rule, reading(command))


@pytest.mark.parametrize(
    ("command", "rule", "allowed"),
    [
        ("git status", "git status", True),
        ("git  status ", "git status", True),
        ("git status -s", "git status", False),
        ("git log -1", "git log <reading>", True),
        ("git --no-pager log -1", "git log <reading>", True),
        ("git log --output=x", "git log <reading>", False),
        ("git diff", "git log <reading>", False),
        ("git diff", "git <reading>", True),
        ("git push", "git <reading>", False),
        ("ls -la", "<reading>", True),
        ("rm x", "<reading>", False),
        ("npm run x", "npm run <reading>", False),
        ("npm run x --y=z", "npm run <anything>", True),
        ("npm runx", "npm run <anything>", False),
        ("npm run x; rm y", "npm run <anything>", False),
        ("git log --format='%h; %s'", "git <anything>", True),
        ('git commit -m "fix; really & truly"', "git <anything>", True),
        ("gitk", "git <anything>", False),
        ("make test && make lint", "make test && make lint", True),
        ("make test && make lint; rm x", "make test && make lint", False),
        ("ls", "", False),
        ("", "git *", False),
        ("", "", False),
        # Patterns of older settings cover what only reads, and their own words.
        ("git status", "git *", True),
        ("git", "git *", True),
        ("git push", "git *", False),
        ("git commit -m x", "git *", False),
        ("git status -s", "git status*", True),
        ("git log --output=x", "git log*", False),
        ("git push", "git status *", False),
        ("npm run", "npm run *", True),
        ("npm run test:unit", "npm run test:*", False),
        ("python3", "python*", False),
        ("rm [ab]", "rm [ab]*", False),
        ("rm *.tmp", "rm *.tmp", True),
        ("rm a.tmp", "rm *.tmp", False),
        ("ls -la", "*", True),
        ("rm x", "*", False),
    ],
)
def test_rules(command: str, rule: str, allowed: bool) -> None:
    assert fits(command, ShellRule(rule)) is allowed


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /", "git status && rm x", "git status | sh", "git status & rm x", "git status\nrm x",
        "git status $(rm x)", "git status `rm x`", "git status ${IFS}x", "git log > /etc/passwd", "git apply < x",
        "(git status)", "git status#;rm x", "git 'unclosed", "git \\\nstatus", "GIT_SSH=evil git fetch",
        "git\x00status", "git\u00a0status", "git ';'",
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("command", "pattern", "exact"),
    [
        ("ls -la memory", "ls <reading>", False),
        ("git status -s", "git status <reading>", False),
        ("git --no-pager log -3", "git log <reading>", False),
        ("git stash list", "git stash list <reading>", False),
        ("git log --output=x", "git log --output=x", True),
        ("cat ../notes.md", "cat ../notes.md", True),
        ("git -c core.pager=evil log", "git -c core.pager=evil log", True),
        ("ls; rm x", "ls; rm x", True),
        ("'a b' c", "'a b' c", True),
    ],
)
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


@pytest.mark.parametrize(
    "command",
    [
        "git init",
        "git init -b main && git add -A && git commit -m 'one (two) & three'",
        "git init\ngit add -A; git status",
        "git remote add origin git@example.org:a/b.git",
        "git push -u origin main",
        "git checkout -b x --track origin/x",
        'git config user.name "A. 名"',
        "git submodule add https://example.org/x.git x",
        "git worktree add ../x",
        "git clone https://example.org/x.git --depth 1",
    ],
)
def test_plain_git(command: str) -> None:
    assert sets_up_git(command)


@pytest.mark.parametrize(
    "command",
    [
        "", "make",
        # No settings to change.
        "git status", "git add -A && git commit -m x",
        # Something else beside it.
        "git init; make", "git init && ./git init", "git init || git add .", "git init | cat", "git init &",
        "(git init)", "if git init; then git add .; fi", "git() { sh; }; git init", "X=1 git init",
        "GIT_SSH_COMMAND=x git push -u origin main", "export GIT_DIR=x; git init", "env X=1 git init",
        "sudo git init", "time git init", "! git init", "git init > .git/hooks/x", "git init < x", "git init <<< x",
        "git init << E\nx\nE",
        # Words that the shell makes.
        "git init $(sh)", "git init `sh`", "git init $X", 'git init "$X"', "git fetch *", "git fetch {a,b}",
        "git fetch <(sh)", "git init ~/x", "g\\it init",
        # Options and words that run programs, or read and write settings elsewhere.
        "git -c core.pager=sh init", "git --exec-path=. init", "git -C x init", "git --git-dir=x init",
        "git init --template=x", "git init --temp x", "git init --separate-git-dir x",
        "git clone -c core.fsmonitor=sh x y", "git clone -qc core.fsmonitor=sh x y",
        "git clone --config core.fsmonitor=sh x y", "git clone -u sh x y", "git clone --upload-pack=sh x y",
        "git clone --upl sh x y", "git clone 'ext::sh -c x' y", "git push --receive-pack=sh x",
        "git push --exec=sh x", "git fetch --upload-pack sh x", "git config -f x a.b c", "git config --file=x a.b c",
        "git config -e", "git config edit", "git submodule foreach sh", "git submodule --quiet foreach sh",
        "git rebase -x sh main", "git bisect run sh", "git x", "git",
    ],
)  # fmt: skip
def test_anything_else(command: str) -> None:
    assert not sets_up_git(command)
