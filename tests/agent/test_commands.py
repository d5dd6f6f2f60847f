"""The one list of slash commands: who reads it says the same, and installed packages add to it."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from clawbot.agent.commands import BUILTIN, CommandHost, CommandSet, join_commands
from clawbot.agent.events import CommandOutput
from clawbot.agent.slash import COMMANDS, CommandInfo
from clawbot.entry_points import Extension
from clawbot.errors import ClawbotError
from clawbot.languages.tables import table


def test_every_command_that_is_listed_can_be_run() -> None:
    assert [f"/{name}" for name in join_commands([]).commands] == [info.name for info in COMMANDS]
    assert set(BUILTIN) == {info.name.removeprefix("/") for info in COMMANDS}


def test_the_offline_model_names_commands_that_are_there() -> None:
    said = " ".join(text for language in ("en", "zh") for text in table(language, "replies").values())
    named = set(re.findall(r"`(/\w+)", said))
    assert "/help" in named
    assert named <= {info.name for info in COMMANDS}


class Deploy:
    """A command as a package writes it."""

    name = "deploy"
    help = "Deploy\nthe site."
    arguments = "[stage]"

    async def run(self, host: CommandHost, argument: str) -> str:
        """Say what was done."""
        if argument == "nowhere":
            raise KeyError(argument)
        return f"Deployed {argument}."


DEPLOY = Deploy()
STATUS = SimpleNamespace(name="status", help="Mine.", run=DEPLOY.run)
SPACED = SimpleNamespace(name="de ploy", help="", run=DEPLOY.run)
BLOCKING = SimpleNamespace(name="blocks", help="", run=print)


def offered(*objects: str) -> CommandSet:
    """The commands of a package `acme` that names these objects of this module."""
    points = [EntryPoint(name.lower(), f"{__name__}:{name}", "clawbot.commands") for name in objects]
    return join_commands(Extension(point.name, "acme", point) for point in points)


async def test_a_package_adds_a_command() -> None:
    found = offered("DEPLOY")
    assert (found.infos[-1], found.problems) == (CommandInfo("/deploy", "[stage]", "Deploy the site."), ())
    (said,) = (await found.commands["deploy"].run(Mock(), "live")).events
    assert isinstance(said, CommandOutput)
    assert (said.command, said.text) == ("/deploy", "Deployed live.")
    with pytest.raises(ClawbotError, match=r"/deploy failed: KeyError: 'nowhere'"):
        await found.commands["deploy"].run(Mock(), "nowhere")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("STATUS", "/status of the package acme is left out: the name is taken."),
        ("ABSENT", "has no attribute 'ABSENT'"),
        ("SPACED", "'/de ploy' is no name of a command"),
        ("BLOCKING", "run of /blocks is not async"),
    ],
)
def test_a_command_that_cannot_be_used_is_reported(name: str, problem: str) -> None:
    found = offered(name, "DEPLOY", "DEPLOY")
    assert [info.name for info in found.infos] == [*(info.name for info in COMMANDS), "/deploy"]
    assert problem in found.problems[0]
    assert found.problems[1:] == ("/deploy of the package acme is left out: the name is taken.",)
