"""The page on hooks keeps its word: its example runs as it stands, and it names all that hooks can hear, do and say."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from typing import cast, get_args

import msgspec
import pytest
import yaml

from clawbot.config.schema import Settings
from clawbot.config.schema_extensions import HookEntry, HookSettings
from clawbot.extensions.manifest import Requires
from clawbot.extensions.manifest import Source as HookSource
from clawbot.hooks import AnyEvent, Hook, HookEvent
from clawbot.hooks.api import Services
from clawbot.hooks.discovery import GROUP, Manifest, discover
from clawbot.hooks.events import AwaitedEvent, PassingEvent

pytest_plugins = ("pytester",)

GUIDE = Path(__file__).parent.parent / "docs" / "writing-hooks.md"
TEXT = GUIDE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
EVENTS: list[type[HookEvent]] = list(get_args(AnyEvent))


def blocks(kind: str) -> list[str]:
    """The code on the page that is marked as `kind`, in order."""
    return [text for marked, text in BLOCKS if marked == kind]


def rows(heading: str) -> dict[str, str]:
    """The tables under `heading`: each row by its first cell."""
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert section, heading
    return {row.split(" | ")[0].strip("| "): row for row in re.findall(r"^\| .*\|$", section, re.MULTILINE)}


def row_of(event: type[HookEvent]) -> str:
    """The row of an event, found by its class."""
    [row] = [row for first, row in rows("Events").items() if f"`{event.__name__}`" in first]
    return row


def write_diary(folder: Path) -> None:
    """The hook of the page's first section."""
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(blocks("markdown")[0], encoding="utf-8")
    (folder / "handler.py").write_text(blocks("python")[0], encoding="utf-8")


def test_the_example_is_a_hook_that_is_ready(tmp_path: Path) -> None:
    write_diary(tmp_path / "diary")
    [hook] = discover([("home", tmp_path)], HookSettings())
    assert (hook.name, hook.ready, hook.source) == ("diary", True, "home")


@pytest.mark.long
def test_the_example_passes_its_test(pytester: pytest.Pytester) -> None:
    write_diary(pytester.path / "diary")
    (pytester.path / "test_diary.py").write_text(blocks("python")[1], encoding="utf-8")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_is_told_with_all_its_fields(event: type[HookEvent]) -> None:
    row = row_of(event)
    tag = str(event.__struct_config__.tag)
    assert re.match(rf"\| `{tag}(:NAME)?` ", row)
    own = [field.name for field in msgspec.structs.fields(event) if field.name not in HookEvent.__struct_fields__]
    assert [name for name in own if f"`{name}`" not in row] == []
    assert issubclass(event, AwaitedEvent) is not issubclass(event, PassingEvent)
    assert row.removesuffix(" |").rpartition("| ")[2].startswith("yes") is issubclass(event, AwaitedEvent)
    assert ("**May be" in row) is bool(event.changeable)
    assert [name for name in event.changeable if f"`{name}`" not in row] == []


@pytest.mark.parametrize("field", HookEvent.__struct_fields__)
def test_every_field_that_all_events_have_is_told(field: str) -> None:
    assert any(f"`{field}`" in row for row in rows("Events").values())


def test_nothing_is_told_that_there_is_not() -> None:
    told = re.findall(r"^\| `[\w:-]+` `(\w+)`", TEXT, re.MULTILINE)
    assert sorted(told) == sorted(event.__name__ for event in EVENTS)


def test_all_that_a_hook_can_do_is_told_with_its_parameters() -> None:
    table = " ".join(rows("What a hook can do"))
    methods = {name: method for name, method in vars(Hook).items() if inspect.isfunction(method) and name[0] != "_"}
    for name, method in methods.items():
        found = re.search(rf"`(await )?{name}\((.*?)\)`", table)
        assert found, name
        assert bool(found[1]) is inspect.iscoroutinefunction(method), name
        defaults = dict(part.partition("=")[::2] for part in found[2].split(", ") if part)
        parameters = list(inspect.signature(method).parameters.values())[1:]
        assert len(defaults) == len(parameters), name
        for parameter in parameters if found[1] else ():
            if isinstance(parameter.default, str):
                assert defaults[parameter.name] == f'"{parameter.default}"'
            elif isinstance(parameter.default, tuple):
                assert defaults[parameter.name] == str(parameter.default)
            elif parameter.default is not inspect.Parameter.empty:
                assert defaults[parameter.name] == f"{parameter.default:g}"
            else:
                assert parameter.name in defaults
    hook = Hook("x", {}, cast("Services", None), lambda work: work.close())
    assert [name for name in vars(hook) if name[0] != "_" and f"`{name}`" not in table] == []


def test_every_key_of_hook_md_is_told() -> None:
    table = rows("HOOK.md")
    keys = " ".join(table)
    assert [name for name in Manifest.__struct_fields__ if f"`{name}`" not in keys] == []
    assert [name for name in Requires.__struct_fields__ if f"`{name}`" not in table["`requires`"]] == []
    assert str(Manifest(name="x").order) in table["`order`"]


def test_every_setting_is_told_and_the_example_is_valid() -> None:
    text = blocks("yaml")[0]
    hooks = Settings.model_validate(yaml.safe_load(text)).hooks
    assert hooks.entry("diary").own == {"tone": "dry"}
    usual = HookSettings()
    assert (hooks.timeout, hooks.quit_timeout, hooks.enabled) == (usual.timeout, usual.quit_timeout, usual.enabled)
    keys = set(re.findall(r"(\w+):", text))
    assert keys >= {*HookSettings.model_fields, *HookEntry.model_fields}


def test_every_source_is_told() -> None:
    told = [row.split(" | ")[1].strip("`") for row in rows("Where hooks are found").values()]
    assert sorted(each for each in told if each in get_args(HookSource)) == sorted(get_args(HookSource))


def test_the_entry_point_is_in_the_group_that_is_read() -> None:
    [points] = tomllib.loads(blocks("toml")[0])["project"]["entry-points"].items()
    assert points == (GROUP, {"diary": "acme_clawbot.diary"})
