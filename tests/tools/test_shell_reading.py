"""Which commands only read, tried for real: what is beyond the list has its effect here, what is on it has none."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.tools.process import command_environment
from clawbot.tools.shell_policy import ShellRule, offered_rule
from clawbot.tools.shell_policy import fits as fits_as_found
from clawbot.tools.shell_reading import ANSWERS_ITSELF, options_of, programs, reading
from tests.tools.conftest import TABLES

GIT_WHO = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

# What the machines of the tests forbid, or what has no effect to be seen in a folder.
UNSEEN: tuple[str, ...] = (
    "date ", "cat ", "git --config-env", "unshare", "script", "sort a --", "git reflog expire", "jq ", "strace",
)  # fmt: skip
UNSEEN += ("git stash", "git log -p --outpu")


def fits(command: str, rule: ShellRule) -> bool:
    """Whether `rule` allows `command`, where all that it reads is in reach."""
    return fits_as_found(command, rule, reading(command))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two commits and something that is not committed."""
    top = tmp_path_factory.mktemp("template") / "top"
    (top / "empty").mkdir(parents=True)
    files = {
        "a": "one\ntwo\n",
        "b": "b\n",
        "a.diff": "--- a\n+++ a\n@@ -1,2 +1,2 @@\n-one\n+eins\n two\n",
        "magic": "0 string x x\n",
        "makefile": "all:\n\t@touch PWNED\n",
        "program": "#!/bin/sh\ntouch PWNED\n",
        "program.jq": ".\n",
    }
    for name, text in files.items():
        (top / name).write_text(text, encoding="utf-8")
    (top / "program").chmod(0o755)
    history = "git init -q && git add . && git commit -qm one && echo three >>a && git commit -qam two && git tag v1"
    # The index is older than a file of it, which is as it was: `git describe --dirty` writes that down.
    plain(f"{history} && git branch other && echo four >>a && touch -d 2001-01-01 b", top)
    return top


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "top", symlinks=True)


def plain(command: str, top: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(top.parent), **GIT_WHO}
    run(command, top, environment)


def guarded(top: Path) -> dict[str, str]:
    """The environment that commands of the model have in `top`."""
    return command_environment({"PATH": os.environ["PATH"], "HOME": str(top.parent), **GIT_WHO}, (), top)


def run(command: str, top: Path, environment: dict[str, str]) -> None:
    subprocess.run(
        ["bash", "-c", command],
        cwd=top,
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def state(top: Path) -> dict[str, tuple[int, bytes]]:
    """Every file and folder below `top`, with mode and content."""
    return {
        str(path.relative_to(top)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in top.rglob("*")
    }


@pytest.mark.parametrize(("harmless", "evil"), TABLES["tricks"])
def test_no_rule_for_reading_lets_an_option_write_or_run(folder: Path, harmless: str, evil: str) -> None:
    rule = offered_rule(harmless)
    assert fits(harmless, rule)
    assert not rule.exact
    assert not fits(evil, rule)
    assert not fits(evil, ShellRule("<reading>"))
    assert not fits(evil, ShellRule(f"{harmless.split()[0]} *"))
    assert reading(evil) is None
    assert_has_effect(evil, folder)


@pytest.mark.parametrize("command", TABLES["writing"])
def test_always_allows_no_more_than_what_was_shown(folder: Path, command: str) -> None:
    rule = offered_rule(command)
    assert rule == ShellRule(command, exact=True)
    assert not fits(f"{command} x", rule)
    assert not fits(command.split()[0], rule)
    assert reading(command) is None
    assert_has_effect(command, folder)


def assert_has_effect(command: str, folder: Path) -> None:
    """The command does more than read, where its program is installed: else the row of the table proves nothing."""
    if shutil.which(shlex.split(command)[0]) is None or command.startswith(UNSEEN):
        return
    before = state(folder)
    plain(command, folder)
    assert state(folder) != before


@pytest.mark.long
@pytest.mark.parametrize("name", programs())
def test_every_option_of_the_list_leaves_all_as_it_is(folder: Path, name: str) -> None:
    if shutil.which(name.split()[0]) is None:
        pytest.skip(f"{name.split()[0]} is not installed")
    program = programs()[name]
    before = state(folder)
    values = {"text": "x", "number": "1", "file": "a", "format": "full"}
    operand = {"none": "", "date": "+%F", "pattern": "two a", "pattern in revisions": "two HEAD"}.get(program.operands)
    operand = ("HEAD" if program.operands == "revisions" else "a") if operand is None else operand
    if program.operands_with:
        operand = ""
    commands = [name, f"{name} {operand}"]
    for option, takes in options_of(name).items():
        written = "-1" if option == "-#" else option
        if takes.kind is not None:
            written += "=" if option.startswith("--") else "" if takes.optional else " "
            written += values[takes.kind]
        commands.append(f"{name} {operand} {written}" if program.find else f"{name} {written} {operand}")
    for command in commands:
        assert reading(command) is not None, command
    run(
        "\n".join(f"timeout 10 {command}" for command in commands if "command -v" not in command),
        folder,
        guarded(folder),
    )
    assert state(folder) == before


WRITTEN = [
    "PWNED", "x", "a", "a*", "A*", "./*", "HEAD", "1", "o", "-o", "-n", "--", "+1", "*", "?*", "-O", "--output=x",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", programs())
def test_no_bundle_of_options_and_words_that_is_covered_has_an_effect(folder: Path, name: str) -> None:
    """Whatever a program takes for an option or for a value where the list sees another: nothing is changed."""
    if shutil.which(name.split()[0]) is None:
        pytest.skip(f"{name.split()[0]} is not installed")
    drawn = random.Random(name)
    options = sorted(options_of(name))
    letters = "".join(option[1] for option in options if len(option) == 2) + "oO"
    commands: set[str] = set()
    for _ in range(3_000):
        bundles = ["-" + "".join(drawn.choices(letters, k=drawn.randint(1, 3))) for _ in range(2)]
        valued = [f"{option}{mark}{value}" for option in options for mark in ("", "=") for value in ("PWNED", "5")]
        every = [*bundles, *bundles, *options, *drawn.choices(valued or ["x"], k=len(WRITTEN)), *WRITTEN]
        words = drawn.choices(every, k=drawn.randint(1, 5))
        if len(commands) < 60 and reading(command := " ".join([name, *words])) is not None:
            commands.add(command)
    before = state(folder)
    run("\n".join(f"timeout 10 {command}" for command in sorted(commands)), folder, guarded(folder))
    assert state(folder) == before


SIGNED = """tree %s
author a <a@example.org> 1 +0000
committer a <a@example.org> 1 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 x
 -----END PGP SIGNATURE-----

m
"""


@pytest.mark.parametrize("command", TABLES["signatures"])
def test_nothing_covered_asks_git_for_a_signature(folder: Path, command: str) -> None:
    """It runs gpg, or whatever the settings say that gpg is."""
    (folder / "--format=%GK").touch()
    commit = f"printf '{SIGNED}' $(git write-tree) >../commit; git reset -q $(git hash-object -t commit -w ../commit)"
    plain(f"git config gpg.program ./program; git config pretty.signed %GK; {commit}", folder)
    assert reading(command) is None
    plain(command, folder)
    assert (folder / "PWNED").exists() or command.startswith("git shortlog")


def test_a_setting_that_shows_signatures_counts_for_no_command(folder: Path) -> None:
    plain("git config log.showSignature true; git config gpg.program ./program", folder)
    commit = f"printf '{SIGNED}' $(git write-tree) >../commit; git reset -q $(git hash-object -t commit -w ../commit)"
    plain(commit, folder)
    run("git log", folder, guarded(folder))
    assert not (folder / "PWNED").exists()
    plain("git log", folder)
    assert (folder / "PWNED").exists()


@pytest.mark.parametrize("command", TABLES["read_otherwise"])
def test_what_programs_may_read_otherwise_is_beyond_the_list(command: str) -> None:
    assert reading(command) is None


@pytest.mark.parametrize("command", TABLES["reading"])
def test_everyday_commands_are_on_the_list(command: str) -> None:
    assert reading(command) is not None


WORDS = st.sampled_from(
    [
        "-", "--", "a", "HEAD", "x", "1", "-1", "-o", "-O", "-c", "--out", "--output", "--output=x", "-exec",
        "--pre=x", "--upload-pack=x", "--ext-diff", "--textconv", "-T", "-C", "/etc", "..", "~", "*", "{a,b}", "-oX",
        "-nO",
    ]
)  # fmt: skip


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(programs())), st.data())
def test_no_covered_command_holds_an_option_beyond_the_list(name: str, data: st.DataObject) -> None:
    own = st.sampled_from(sorted(options_of(name)) or ["-"])
    letters = st.text("abcdefgimnopstuvxCOST", min_size=1, max_size=3).map(lambda text: f"-{text}")
    arguments = data.draw(st.lists(st.one_of(own, own, WORDS, letters), max_size=5))
    command = f"{name} {shlex.join(arguments)}"
    if reading(command) is None:
        return
    for word in arguments:
        assert not word.startswith("-") or is_listed(name, word), command


@pytest.mark.parametrize("name", [name for name, program in programs().items() if program.operands != "none"])
def test_operands_that_may_lead_out_are_beyond_the_list(name: str) -> None:
    kind = programs()[name].operands
    places = ["*", "?x", "[a]", "{a,b}", "~", "~/x", "~root", "-x=~/x", "a/.*", "**/a", "a#b ..*", "'' *"]
    if kind != "text":
        places += [
            *["../x", "a/../../x", "/etc/passwd", "/", ".env", "a/.env.local", ".ssh/id_x", "k.pem", ".AWS/x"],
            "..",
        ]
    if kind == "revisions":
        places += ["HEAD:../x", "HEAD:.env", "HEAD:/etc/passwd", "HEAD:~/x"]
    before = " two" if kind.startswith("pattern") else ""
    for place in places:
        assert reading(f"{name}{before} {place}") is None, place
        assert reading(f"{name}{before} -- {place}") is None, place
        if kind == "files":
            assert reading(f"{name} a {place}") is None, place


def is_listed(name: str, word: str) -> bool:
    """Whether `word` is `-`, `--`, a number, an option of the list, or a bundle of such."""
    options = options_of(name)
    if word in ("-", "--", *ANSWERS_ITSELF) or re.fullmatch(r"-\d+", word) or word.partition("=")[0] in options:
        return True
    for letter in () if word.startswith("--") or programs()[name].find else word[1:]:
        option = options.get(f"-{letter}")
        if option is None or option.kind is not None:
            return option is not None
    return not word.startswith("--") and not programs()[name].find


PIECES = st.one_of(
    st.sampled_from(["a", "b.md", " ", "  ", "-n", "--number", "'a b'", '"c d"', "\\ ", "..", "好"]),
    st.sampled_from("\t\n '\"\\{},~#!=:/*?[]^%@$`;|&<>()"),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=8).map("".join))
def test_the_shell_makes_the_same_words_of_a_covered_command(tail: str) -> None:
    command = f"echo {tail}"
    if reading(command) is None:
        return
    shown = f"printf '%s\\0' {command}"
    done = subprocess.run(["bash", "-c", shown], cwd="/", capture_output=True, check=False, timeout=60)
    assert done.stdout.decode().split("\0")[:-1] == shlex.split(command)
