"""The chat under a shell's job control, in a real terminal: Ctrl+Z gives the shell back, `fg` brings the chat back."""

from __future__ import annotations

import sys

import pytest

from tests.e2e.conftest import Machine
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e

SHELL = ["bash", "--norc", "--noprofile", "-i"]


@pytest.mark.parametrize("command", ["make --no-print-directory chat", f"{sys.executable} -m clawbot"])
def test_ctrl_z_gives_the_shell_back_and_fg_the_chat(machine: Machine, command: str) -> None:
    (machine.folder / "Makefile").write_text(f"chat:\n\t@{sys.executable} -m clawbot\n")
    with Terminal(SHELL, env={**machine.env, "PS1": "shell>"}, cwd=machine.folder) as shell:
        shell.wait_for("shell>")
        shell.send(command, "enter")
        shell.wait_for("offline")
        shell.send("\x1a")
        shell.wait_for(lambda text: "Stopped" in text)
        shell.send("echo $((6 * 7)) is typed to the shell", "enter")
        shell.wait_for("42 is typed to the shell")
        shell.send("fg", "enter")
        shell.wait_for(lambda text: "offline" in text and "42 is typed" not in text)
        shell.send("I am back")
        shell.wait_for("❯ I am back")
        shell.send("ctrl+c", "ctrl+d")
        shell.wait_for("Resume with")
        shell.send("exit", "enter")
        shell.wait_end(None)


def test_ctrl_z_without_a_shell_leaves_the_chat_running(machine: Machine) -> None:
    chat = machine.open()
    chat.wait_for("offline")
    chat.send("\x1a", "ctrl+d")
    chat.wait_end()
