"""The root command: how it takes in the module of a noun."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from clawbot.cli.main import COMMANDS, root
from tests.packages import install


@pytest.fixture
def noun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a noun's module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(COMMANDS, "noun", ("noun_of_a_test", ""))
    monkeypatch.delitem(sys.modules, "noun_of_a_test", raising=False)
    return tmp_path / "noun_of_a_test.py"


def test_the_collector_rests_while_a_noun_is_imported(noun: Path) -> None:
    noun.write_text("import click, gc\ncommand = click.Command('collecting' if gc.isenabled() else 'resting')\n")
    found = root.get_command(click.Context(root), "noun")
    assert found is not None
    assert found.name == "resting"
    assert gc.isenabled()


def test_the_collector_works_on_after_an_import_that_fails(noun: Path) -> None:
    noun.write_text("raise ValueError('torn')\n")
    with pytest.raises(ValueError, match="torn"):
        root.get_command(click.Context(root), "noun")
    assert gc.isenabled()


def test_what_is_no_command_is_told(noun: Path) -> None:
    noun.write_text("command = 1\n")
    with pytest.raises(TypeError, match="no click command"):
        root.get_command(click.Context(root), "noun")


def test_packages_add_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "[clawbot.cli]\nchat = acme_noun:hi\nhi = acme_noun:hi\nlost = acme_noun:lost\none = acme_noun:one\n"
    source = "import click\none = 1\n@click.command()\ndef hi():\n    'Say hi.'\n    click.echo('hi there')\n"
    install(tmp_path, "acme_noun", points, source)
    monkeypatch.syspath_prepend(tmp_path)
    run = CliRunner().invoke
    assert run(root, ["hi"]).output == "hi there\n"
    told = " ".join(run(root, ["--help"]).output.split())
    assert " hi Say hi. lost `clawbot lost` can't be used: acme_noun:lost of the package acme_noun " in told
    assert " one acme_noun:one is no click command serve " in told
    assert "hi there" not in run(root, ["chat", "--help"]).output
    assert "`clawbot lost` can't be used: acme_noun:lost" in run(root, ["lost"]).output
