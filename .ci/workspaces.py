"""Finds calls that open a file by its path in modules that work in a workspace, where commands plant links.

python .ci/workspaces.py, a part of `make check`. What runs is watched as well: tests/workspace_watch.py.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
# What works in a workspace: folders, and single modules.
ROOMS = (
    "agent", "attachments", "background.py", "cli/feedback.py", "context", "forget",
    "importing/habits.py", "memory/documents", "sessions/export.py", "tools", "tui/pasting.py",
)  # fmt: skip
# What opens, creates or removes by path: in `os` (unless relative to a descriptor), as a method of Path, in files.py.
SYSTEM = {
    "link", "makedirs", "mkdir", "open", "remove", "rename", "replace", "rmdir", "symlink", "truncate", "unlink",
    "walk",
}  # fmt: skip
METHODS = {
    "glob", "hardlink_to", "iterdir", "mkdir", "read_bytes", "read_text", "rglob", "rmdir", "symlink_to", "touch",
    "unlink", "write_bytes", "write_text",
}  # fmt: skip
PLAIN = {"create_complete", "ensure_private_dir", "erase", "open", "read_plain", "write_atomic"}
# Modules that need such calls, each with the calls, "" for all, and what for.
ALLOWED = {
    "agent/idle_requests.py": ((".touch",), "no file, the time of the last use"),
    "agent/request_builder.py": ((".touch",), "no file, the time of a prompt"),
    "context/workspace.py": ((".read_bytes",), "the templates, which are shipped"),
    "forget/forgetting.py": ((".glob", ".rglob"), "sessions, index and history, in the state folder"),
    "forget/transcripts.py": ((".glob", ".unlink"), "the sessions, in the state folder"),
    "memory/documents/indexed_text.py": ((".glob", ".read_text"), "the templates, which are shipped"),
    "memory/documents/kept_listing.py": ((".read_bytes", "os.open"), "the mounts of the system"),
    "tools/paths.py": (("os.open",), "what is shut, to know its hard links; nothing is read"),
    "tools/process.py": ((".read_text",), "the processes of the system"),
    "tools/risks.py": ((".read_text",), "a table of the program"),
    "tools/sandbox/": ("", "binds and puts back what is there, by its own journal"),
    "tools/shell_calls.py": ((".read_text",), "a table of the program"),
    "tools/shell_reading.py": ((".read_text",), "a table of the program"),
    "tools/shell_policy.py": ((".glob",), "what a command would read, by real path"),
}


def findings(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each forbidden call in a module."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(name) if name in PLAIN:
                yield node.lineno, name
            case ast.Attribute(ast.Name("os"), name) if name in SYSTEM:
                if not any(word.arg and word.arg.endswith("dir_fd") for word in node.keywords):
                    yield node.lineno, f"os.{name}"
            case ast.Attribute(_, name) if name in METHODS:
                yield node.lineno, f".{name}"


def modules(top: Path) -> Iterator[Path]:
    """Yield the modules that are checked."""
    for room in ROOMS:
        yield from sorted((top / room).rglob("*.py")) if (top / room).is_dir() else [top / room]


def is_allowed(module: str, name: str) -> bool:
    """Return whether a module may call `name`."""
    return any(module.startswith(each) and (not calls or name in calls) for each, (calls, _) in ALLOWED.items())


def main() -> int:
    """Print what is forbidden; return the number of such calls."""
    top, count = CHECKOUT / "clawbot", 0
    for file in modules(top):
        for line, name in findings(file):
            if is_allowed(file.relative_to(top).as_posix(), name):
                continue
            count += 1
            where = f"{file.relative_to(CHECKOUT)}:{line}"
            sys.stdout.write(f"{where}: {name}: use GuardedFolder (clawbot/guarded.py) in a workspace\n")
    return count


if __name__ == "__main__":
    sys.exit(bool(main()))
