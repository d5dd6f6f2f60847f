"""Hooks that are to check tool calls and can't: the user is told where they would have run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Machine

pytestmark = pytest.mark.e2e

HEAD = "---\nevents: [tool:before]\n---\n"
WORKS = "async def handle(event):\n    pass\n"
# HOOK.md, handler.py, and what the line about the hook says.
BROKEN: dict[str, tuple[str | None, str | None, str]] = {
    "yaml": ("---\nevents: [tool:before\n---\n", WORKS, "HOOK.md line 2: no YAML"),
    "typo": ("---\nevents: [tool:befor]\n---\n", WORKS, "there is no 'tool:befor'; did you mean 'tool:before'?"),
    "openclaw": ("---\nevents: [before_tool_call]\n---\n", WORKS, "there is no 'before_tool_call'"),
    "no": ("---\nname: no\nevents: [tool:before]\n---\n", WORKS, "name: expected str, got bool"),
    "events": ("---\ndescription: A guard\n---\n", WORKS, "events: expected at least one"),
    "handler": (HEAD, None, "there is no handler.py"),
    "manifest": (None, WORKS, "there is no HOOK.md"),
    "bin": ("---\nevents: [tool:before]\nrequires: {bins: [no-such-bin]}\n---\n", WORKS, "missing bin: no-such-bin"),
    "syntax": (HEAD, "async def handle(event)\n    pass\n", "SyntaxError: expected ':' (handler.py:1)"),
    "import": (HEAD, f"import no_such_module\n{WORKS}", "No module named 'no_such_module'"),
    "sibling": (HEAD, f"from . import absent\n{WORKS}", "cannot import name 'absent'"),
    "raises": (HEAD, f"1 / 0\n{WORKS}", "ZeroDivisionError: division by zero (handler.py:1)"),
    "sync": (HEAD, "def handle(event):\n    pass\n", "must be a coroutine function"),
}
CALL = """
turns:
  - reply: {tool_calls: [{name: append, arguments: {path: memory/kept.md, content: "- kept"}}]}
  - reply: That was it.
"""


def write_hook(machine: Machine, name: str, manifest: str | None, handler: str | None) -> None:
    folder = machine.state / "hooks" / name
    folder.mkdir(parents=True)
    for file, text in (("HOOK.md", manifest), ("handler.py", handler)):
        if text is not None:
            (folder / file).write_text(text, "utf-8")


def test_each_hook_that_can_t_be_loaded_is_told_at_each_start_and_by_the_doctor(
    machine: Machine, script: Callable[[str], Path]
) -> None:
    machine.configure("agents: {defaults: {model: offline}}\n")
    for name, (manifest, handler, _) in BROKEN.items():
        write_hook(machine, f"guard-{name}", manifest, handler)
    write_hook(machine, "guard-of-mac", "---\nevents: [tool:before]\nrequires: {os: darwin}\n---\n", WORKS)
    write_hook(machine, "guard-off", "---\nevents: [tool:befor]\ndefault: false\n---\n", None)

    for calls in (False, True):
        done = machine.run("chat", "-p", "hello", *(["--model", f"script:{script(CALL)}"] if calls else []))
        lines = done.stderr.splitlines()
        assert done.returncode == 0
        for name, (_, _, why) in BROKEN.items():
            told = [line for line in lines if f" guard-{name} " in line]
            assert [why in line for line in told] == [True], (name, done.stderr)
        assert not any("guard-of-mac" in line for line in lines)

    checked = machine.run("doctor", "--no-ping", "--json")
    findings = [each for each in json.loads(checked.stdout)["findings"] if each["check"] == "hooks"]
    found = {each["message"].partition(" ")[0]: each for each in findings}
    assert checked.returncode == 1
    for name, (_, _, why) in BROKEN.items():
        assert why in found[f"guard-{name}"]["message"]
        assert found[f"guard-{name}"]["fix"].startswith(("look into", "install no-such-bin"))


@pytest.mark.parametrize("plain", [False, True])
def test_the_chat_tells_of_them_at_its_start(machine: Machine, plain: bool) -> None:
    machine.configure("agents: {defaults: {model: offline}}\n")
    for name in ("typo", "import"):
        manifest, handler, _ = BROKEN[name]
        write_hook(machine, f"guard-{name}", manifest, handler)
    chat = machine.open(*(["--plain"] if plain else []), columns=200)
    chat.wait_for("The hook guard-typo does not run")
    chat.wait_for("The hook guard-import failed at start: ModuleNotFoundError")
    chat.send("ctrl+d")
    assert chat.wait_end() == 0
