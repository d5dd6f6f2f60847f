"""Hooks that are to check tool calls and can't: the user is told where they would have run, and no call passes a
required one."""

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
        assert found[f"guard-{name}"]["fix"].startswith(("check", "install no-such-bin"))


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


RUNS = "---\nevents: [tool:before]\ntimeout: 1\n---\n"
# HOOK.md, handler.py, the settings of hooks, and what the model is told; None: the call runs.
GUARD = "entries: {guard: {required: true}}"
REQUIRED: dict[str, tuple[str | None, str | None, str, str | None]] = {
    "bad YAML": (BROKEN["yaml"][0], WORKS, GUARD, "HOOK.md line 2: no YAML"),
    "unknown event": (BROKEN["typo"][0], WORKS, GUARD, "there is no 'tool:befor'"),
    "no such hook": (None, None, GUARD, "no hook has this name"),
    "unmet": (BROKEN["bin"][0], WORKS, GUARD, "missing bin: no-such-bin"),
    "syntax error": (RUNS, BROKEN["syntax"][1], GUARD, "SyntaxError"),
    "import error": (RUNS, BROKEN["import"][1], GUARD, "no_such_module"),
    "off by the settings": (RUNS, WORKS, "entries: {guard: {required: true, enabled: false}}", "off"),
    "hooks off": (RUNS, WORKS, f"{GUARD}, enabled: false", "off"),
    "raises": (
        RUNS,
        "async def handle(event):\n    raise ValueError('broken 坏了')\n",
        GUARD,
        "ValueError: broken 坏了",
    ),
    "exits": (RUNS, "import os\nasync def handle(event):\n    os._exit(3)\n", GUARD, "ended with status 3"),
    "hangs": (RUNS, "import time\nasync def handle(event):\n    time.sleep(99)\n", GUARD, "took longer than 1 s"),
    "hangs at loading": (RUNS, f"import time\ntime.sleep(99)\n{WORKS}", GUARD, " took "),
    "refuses": (RUNS, "async def handle(event):\n    event.refuse('今天不行')\n", GUARD, "refused by a hook: 今天不行"),
    "allows": (RUNS, WORKS, GUARD, None),
    "broken, for messages": ("---\nevents: message\nrequires: {bins: [no-such-bin]}\n---\n", WORKS, GUARD, None),
}


@pytest.mark.parametrize("form", REQUIRED)
def test_no_call_passes_a_required_hook_that_did_not_check_it(
    machine: Machine, script: Callable[[str], Path], form: str
) -> None:
    manifest, handler, settings, told = REQUIRED[form]
    machine.configure(f"agents: {{defaults: {{model: offline}}}}\nhooks: {{{settings}}}\n")
    if manifest or handler:
        write_hook(machine, "guard", manifest, handler)
    done = machine.run("chat", "-p", "keep this", "--model", f"script:{script(CALL)}")
    assert (done.returncode, done.stdout) == (0, "That was it.\n"), done.stderr
    assert (machine.workspace / "memory" / "kept.md").exists() is (told is None)
    if told is None:
        assert "Tool calls are refused" not in done.stderr
        return
    (transcript,) = (machine.state / "agents/main/sessions").glob("*.jsonl")
    messages = [json.loads(line).get("message", {}) for line in transcript.read_text("utf-8").splitlines()]
    [result] = [message for message in messages if message.get("role") == "toolResult"]
    assert result["isError"]
    assert told in json.dumps(result["content"], ensure_ascii=False)
    lines = [line for line in done.stderr.splitlines() if "without the hook guard, which is required" in line]
    # A call that comes while the handler is still loading ends with its process, which is told as well.
    expected = {"refuses": [0], "hangs at loading": [1, 2]}.get(form, [1])
    assert len(lines) in expected, done.stderr
    assert all(told in line for line in lines), done.stderr
