"""What runs unasked: a simple command that a pattern speaks about, and nothing that only looks like one."""

from __future__ import annotations

import pytest

from clawbot.tools.shell_policy import Approval, Rule, Verdict, decide, fits, offered_rule, simple_words

GIT = Rule("git *")


@pytest.mark.parametrize(
    ("command", "pattern", "allowed"),
    [
        ("git status", "git status", True),
        ("git  status ", "git status", True),
        ("git status -s", "git status", False),
        ("git status", "git *", True),
        ("git", "git *", True),
        ("git log --format='%h; %s'", "git *", True),
        ('git commit -m "fix; really & truly"', "git *", True),
        ("gitk", "git *", False),
        ("git status -s", "git status*", True),
        ("git status", "git status*", True),
        ("git push", "git status*", False),
        ("git push", "git status *", False),
        ("npm run test:unit", "npm run test:*", True),
        ("npm run deploy", "npm run test:*", False),
        ("ls", "", False),
        ("", "git *", False),
        ("ls -la", "*", True),
    ],
)
def test_patterns(command: str, pattern: str, allowed: bool) -> None:
    assert fits(command, Rule(pattern)) is allowed


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /",
        "git status;rm -rf /",
        "git status && rm x",
        "git status&&rm x",
        "git status || rm x",
        "git status | sh",
        "git status & rm x",
        "git status &",
        "git status\nrm x",
        "git status\rrm x",
        "git status $(rm x)",
        'git status "$(rm x)"',
        "git status `rm x`",
        'git status "`rm x`"',
        "git status ${IFS}x",
        "git log > /etc/passwd",
        "git log >/etc/passwd",
        "git log 2>&1",
        "git apply < x",
        "git diff <(rm x)",
        "(git status)",
        "git status#;rm x",
        "git status # ; rm x",
        "git 'unclosed",
        "git \\\nstatus",
        "GIT_SSH=evil git fetch",
        "git\x00status",
        "git\u00a0status",
        "git \u2028rm",
        "git ';'",
    ],
)
def test_nothing_that_is_more_than_one_simple_command_fits(command: str) -> None:
    assert not fits(command, GIT)
    assert not fits(command, Rule("git status *"))


def test_an_exact_rule_allows_that_very_text_and_no_pattern() -> None:
    rule = offered_rule("rm *.tmp | cat")
    assert rule.exact
    assert fits(" rm *.tmp | cat\n", rule)
    star = offered_rule("rm *")
    assert fits("rm *", star)
    assert not fits("rm -rf", star)


@pytest.mark.parametrize(
    ("command", "pattern", "exact"),
    [
        ("ls -la memory", "ls *", False),
        ("git status -s", "git status *", False),
        ("git -c core.pager=evil log", "git -c core.pager=evil log", True),
        ("git", "git", True),
        ("npm test", "npm test *", False),
        ("rm -rf build", "rm -rf build", True),
        ("/bin/rm x", "/bin/rm x", True),
        ("python3.12 x.py", "python3.12 x.py", True),
        ("sudo ls", "sudo ls", True),
        ("find . -delete", "find . -delete", True),
        ("ls; rm x", "ls; rm x", True),
        ("X=1 ls", "X=1 ls", True),
        ("'a b' c", "'a b' c", True),
    ],
)
def test_what_always_offers(command: str, pattern: str, exact: bool) -> None:
    assert offered_rule(command) == Rule(pattern, exact)


@pytest.mark.parametrize("command", ["ls -la", "git log -3", "wc -l x", "rm x", "a | b", "echo $HOME", "*", "l?"])
def test_what_always_offers_allows_the_command_itself(command: str) -> None:
    assert decide(command, "ask", [offered_rule(command)]) == "run"


@pytest.mark.parametrize(
    ("approval", "command", "verdict"),
    [
        ("ask", "git log", "run"),
        ("ask", "ls", "ask"),
        ("ask", "git log; ls", "ask"),
        ("allow", "rm -rf / ; x", "run"),
        ("deny", "git log", "refuse"),
    ],
)
def test_decisions(approval: Approval, command: str, verdict: Verdict) -> None:
    assert decide(command, approval, [GIT]) == verdict


def test_words_of_a_simple_command() -> None:
    assert simple_words("git log --since='2 weeks' a\\ b") == ["git", "log", "--since=2 weeks", "a b"]
