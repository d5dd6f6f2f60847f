"""Tools of installed packages pass what the builtin ones pass, and a broken package harms nobody but itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import indent

import pytest

from clawbot.config.schema_agent import AgentSettings, ToolSettings
from clawbot.context.privacy import privacy_of
from clawbot.tools.protocol import ApprovalAnswer, Decision
from clawbot.tools.registry import Toolbox
from tests.packages import install
from tests.tables import load_table
from tests.tools.conftest import User, box_of, call, nobody

HEAD = """
from typing import Annotated

from msgspec import Meta

from clawbot.tools.arguments import Arguments, PathArguments, TypedTool
from clawbot.tools.listing import ReadingTool
from clawbot.tools.protocol import ToolOutcome


class Line(Arguments, frozen=True):
    text: Annotated[str, Meta(description="Text.")] = ""

"""
GROUP = "agent:main:telegram:group:12"
MAIN = "agent:main:main"
SUB = "agent:main:subagent:2b1c"

Box = Callable[..., Toolbox]


def tool(*body: str, base: str = "TypedTool[Line]") -> str:
    """The source of a package with the tool `Extra`, whose class has the lines `body`."""
    lines = [f"name = 'extra'; description = 'Extra.'; arguments = {base.partition('[')[2].rstrip(']')}", *body]
    if not any("def act" in line for line in body):
        lines.append("def act(self, arguments): return ToolOutcome('done ' + arguments.text)")
    return HEAD + f"class Extra({base}):\n" + indent("\n".join(lines), "    ") + "\n\n\n"


MADE = "EXTRA = Extra()\n"


@pytest.fixture
def box(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Box:
    """Installs a package of its own with the source and the entry points, and answers the tools that there are."""

    def _box(source: str, *points: str, deny: tuple[str, ...] = ()) -> Toolbox:
        module = f"acme_{abs(hash((request.node.nodeid, source)))}"
        named = "\n".join(point.replace("=", f"= {module}:") for point in points)
        install(tmp_path / module, module, f"[clawbot.tools]\n{named}\n", source)
        monkeypatch.syspath_prepend(tmp_path / module)
        settings = AgentSettings(tools=ToolSettings(output_max_chars=1000, deny=list(deny)))
        return box_of(workspace, settings)

    return _box


def names(box: Toolbox) -> list[str]:
    return [spec.name for spec in box.specs][7:]


FACTORY = """def make(context):
    made = Extra()
    made.name = f"{context.workspace.name}_{context.settings.model}"
    return made
"""


async def test_an_instance_or_a_factory_becomes_a_tool_with_schema_and_limit(box: Box) -> None:
    source = tool("def act(self, arguments): return ToolOutcome('x' * 5000)") + MADE + FACTORY
    made = box(source, "one=EXTRA", "two=make")
    assert names(made) == ["extra", "workspace_auto"]
    assert made.specs[7].parameters["additionalProperties"] is False
    assert len((await made.run(call("extra"), nobody)).text) <= 1000
    assert "Unknown argument `txt`" in (await made.run(call("extra", {"txt": "x"}), nobody)).text


@pytest.mark.parametrize(
    ("needs", "offered"),
    [("", False), ("needs = 'none'", False), ("needs = {'notes'}", False), ("needs = frozenset()", True)],
)
@pytest.mark.parametrize("session", [GROUP, SUB])
async def test_sessions_that_may_not_know_refuse_what_nobody_listed(
    box: Box, needs: str, offered: bool, session: str
) -> None:
    made = box(tool(needs) + MADE, "extra=EXTRA")
    assert names(made.for_session(privacy_of(MAIN))) == ["extra"]
    restricted = made.for_session(privacy_of(session))
    assert names(restricted) == (["extra"] if offered else [])
    outcome = await restricted.run(call("extra"), nobody)
    assert ("There is no tool 'extra'" in outcome.text) is outcome.is_error is not offered


async def test_a_tool_for_files_works_behind_the_fence(box: Box) -> None:
    source = tool(
        "def __init__(self, context): super().__init__(context.folder)",
        "def act(self, arguments): return ToolOutcome(self._text(self._folder.locate(arguments.path)))",
        "def _text(self, place): return self._folder.read(place, 1000).decode()",
        base="ReadingTool[PathArguments]",
    )
    made = box(source, "extra=Extra")
    wanted = call("extra", {"path": "MEMORY.md"})
    assert "prefers tabs" in (await made.run(wanted, nobody)).text
    assert "outside the workspace" in (await made.run(call("extra", {"path": "/etc/passwd"}), nobody)).text
    group = await made.for_session(privacy_of(GROUP)).run(wanted, nobody)
    assert group.is_error
    assert "prefers tabs" not in group.text


async def test_files_are_for_tools_that_hide_what_the_session_may_not_see(box: Box) -> None:
    made = box(tool("needs = frozenset({'files', 'shell'})") + MADE, "extra=EXTRA")
    assert names(made.for_session(privacy_of("agent:main:cron:daily"))) == ["extra"]
    assert names(made.for_session(privacy_of(GROUP))) == []


async def test_what_cannot_be_narrowed_is_not_offered(box: Box, caplog: pytest.LogCaptureFixture) -> None:
    made = box(tool("needs = frozenset()", "def for_session(self, access): raise OSError('boom')") + MADE, "e=EXTRA")
    assert names(made.for_session(privacy_of(GROUP))) == []
    assert "boom" in caplog.text


@pytest.mark.parametrize(("decision", "asked"), [("once", 2), ("always", 1), ("deny", 2)])
async def test_a_change_is_asked_for_where_the_tool_does_not_ask(box: Box, decision: Decision, asked: int) -> None:
    user = User(ApprovalAnswer(decision))
    made = box(tool("read_only = False") + MADE, "extra=EXTRA")
    for each in (made.for_session(privacy_of(MAIN)), made):
        outcome = await each.run(call("extra", {"text": "工作"}), user)
        assert outcome.is_error is (decision == "deny")
        assert outcome.text.startswith("Not run. The user declined." if outcome.is_error else "done 工作")
    assert [question.command for question in user.asked] == ['extra {"text": "工作"}'] * asked
    assert "package acme_" in user.asked[0].reach


BROKEN = tool().replace("'extra'", "'has blanks'") + MADE + "def fails(context): raise SystemExit('no licence')\n"


@pytest.mark.parametrize(
    ("point", "said"),
    load_table(__file__, "a_broken_package_is_a_warning_and_no_more"),
)
async def test_a_broken_package_is_a_warning_and_no_more(box: Box, point: str, said: str) -> None:
    made = box(f"HEAD = 1\n{BROKEN}", f"wrong={point}")
    assert names(made) == []
    (warning,) = made.warnings
    assert said in warning


async def test_builtin_names_win_and_what_is_denied_is_not_even_loaded(box: Box) -> None:
    made = box(tool().replace("'extra'", "'read'") + MADE, "extra=EXTRA")
    assert names(made) == []
    assert made.warnings[0].startswith("The tool read of the package acme_")
    assert made.warnings[0].endswith("is left out: clawbot has it.")
    assert box("raise OSError('loaded')", "other=X", deny=("other", "extra")).warnings == ()


async def test_what_a_tool_returns_or_calls_itself_breaks_no_turn(box: Box) -> None:
    odd = tool("def title(self, arguments): raise KeyError('x')", "def act(self, arguments): return 'text'")
    made = box(odd + MADE, "extra=EXTRA")
    assert made.title(call("extra")) == "extra"
    outcome = await made.run(call("extra"), nobody)
    assert outcome.text == "The tool extra failed: TypeError: it returned str, not a ToolOutcome"


async def test_the_example_of_the_docs_works(box: Box) -> None:
    page = Path(__file__).parents[2] / "docs" / "writing-tools.md"
    made = box(page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], "roll=ROLL")
    assert (await made.for_session(privacy_of(GROUP)).run(call("roll", {"sides": 20}), nobody)).text == "4 of 20"
