"""What the same work costs in other programs: a prompt answered once by pi and llm, an index over notes by qmd.

Run: make .venv-peers/.ready .venv-qmd/.ready, then .venv/bin/python benchmarks/peers.py [--runs N] [--files N]

A prompt goes to `clawbot script serve` on loopback, which answers at once: whole commands, medians, after one that is
not counted. CPU and memory are those of the command and what ended with it: the client that stays after `chat -p` adds
what `real_client.py oneshot` prints. The notes are made up (`daily_notes.py`); all search by words alone. In each run
the programs take turns. What is not installed is left out; without any of them the command ends with 77.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from check import MISSING, ROOT
from daily_notes import NoteWriter
from index import House
from processes import Cost, median_of, weigh
from tables import Table

from clawbot.llm.worker_reuse import end_reusable_worker

CLAWBOT = (sys.executable, "-m", "clawbot")
SCRIPT = "turns:\n  - {repeat: forever, reply: All is well.}\n"
MODEL = "scripted"
PEERS, QMD = ROOT / ".venv-peers", ROOT / ".venv-qmd" / "node_modules"

Work = Callable[[], Cost]


@contextmanager
def scripted_server(folder: Path) -> Iterator[str]:
    """Serve a script that answers at once, in a process of its own; yields its address."""
    script = folder / "script.yaml"
    script.write_text(SCRIPT)
    server = subprocess.Popen([*CLAWBOT, "script", "serve", str(script)], stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().split()[-1] if server.stdout else ""
    finally:
        server.terminate()
        server.wait()


def node_environment(modules: Path) -> dict[str, str]:
    """Return the variables with which programs of `modules` find the Node there."""
    nodes = [str(node.parent) for node in modules.glob("node-*/bin/node")]
    return {"PATH": os.pathsep.join([*nodes, os.environ["PATH"]])}


# -- a prompt ----------------------------------------------------------------------------------------------------------


def ask_clawbot(home: Path, url: str, *, keep: int) -> Work:
    """Return `chat -p`, whose model client stays `keep` seconds."""
    chosen = {"model": f"openai/{MODEL}", "api_base": url, "api_key": "none", "keep_client": keep}
    (home / "config.yaml").write_text(json.dumps({"agents": {"defaults": chosen}}))
    return lambda: weigh((*CLAWBOT, "chat", "-p", "hi", "--new"), home, CLAWBOT_HOME=str(home))


def ask_pi(home: Path, url: str) -> Work | None:
    """Return `pi -p`."""
    modules = PEERS / "node_modules"
    if not (modules / ".bin" / "pi").exists():
        return None
    models = home / ".pi" / "agent" / "models.json"
    models.parent.mkdir(parents=True)
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "none", "models": [{"id": MODEL}]}
    models.write_text(json.dumps({"providers": {"bench": provider}}))
    command = (str(modules / ".bin" / "pi"), "--offline", "--provider", "bench", "--model", MODEL, "-p", "hi")
    return lambda: weigh(command, home, **node_environment(modules))


def ask_llm(home: Path, url: str) -> Work | None:
    """Return `llm`."""
    program = PEERS / "llm" / "bin" / "llm"
    if not program.exists():
        return None
    model = {"model_id": "bench", "model_name": MODEL, "api_base": url}
    (home / "extra-openai-models.yaml").write_text(json.dumps([model]))
    return lambda: weigh((str(program), "-m", "bench", "hi"), home, LLM_USER_PATH=str(home), OPENAI_API_KEY="none")


def prompts(runs: int, folder: Path, table: Table) -> None:
    """Print the rows of a prompt."""
    homes = {name: folder / name for name in ("first", "again", "pi", "llm")}
    for home in homes.values():
        home.mkdir(mode=0o700)
    with scripted_server(folder) as url:
        works = {
            "`clawbot chat -p`, the first": ask_clawbot(homes["first"], url, keep=0),
            "`clawbot chat -p`, again within five minutes": ask_clawbot(homes["again"], url, keep=600),
            "`pi -p`": ask_pi(homes["pi"], url),
            "`llm`": ask_llm(homes["llm"], url),
        }
        there = {name: work for name, work in works.items() if work}
        compare("a prompt", there, runs, table)
        os.environ["CLAWBOT_HOME"] = str(homes["again"])
        end_reusable_worker()


# -- an index ----------------------------------------------------------------------------------------------------------


class Qmd:
    """A home with notes that qmd indexes."""

    def __init__(self, folder: Path, files: int) -> None:
        self.house = House(folder, files)
        self._own = node_environment(QMD) | {
            "INDEX_PATH": str(folder / "qmd.sqlite"),
            "QMD_CONFIG_DIR": str(folder / "qmd"),
        }

    def run(self, *arguments: str) -> Cost:
        """Run qmd with `arguments` and weigh it."""
        return weigh((str(QMD / "@tobilu" / "qmd" / "bin" / "qmd"), *arguments), self.house.home, **self._own)

    def index(self) -> Cost:
        """Index all notes, which are new to it."""
        return self.run("collection", "add", str(self.house.workspace / "memory"), "--name", "notes")


def indexes(files: int, runs: int, folder: Path, table: Table) -> None:
    """Print the rows of an index over so many notes, and of a search."""
    ours = House(folder / "clawbot", files)
    ours.set_provider("none")
    cold = {"`clawbot memory index`": lambda: ours.run("index")}
    warm: dict[str, Work] = {"`clawbot memory index`": lambda: ours.run("index")}
    question = NoteWriter().question()
    search: dict[str, Work] = {"`clawbot memory search`": lambda: ours.run("search", question)}
    if QMD.exists():
        qmd = Qmd(folder / "qmd", files)
        cold["`qmd collection add`"] = qmd.index
        warm["`qmd update`"] = lambda: qmd.run("update")
        search["`qmd search`"] = lambda: qmd.run("search", question)
    compare(f"{files:,} notes, all new", cold, 1, table, fresh=True)
    compare(f"{files:,} notes, none changed", warm, runs, table)
    compare(f"a search in {files:,} notes", search, runs, table)


def compare(title: str, works: dict[str, Work], runs: int, table: Table, *, fresh: bool = False) -> None:
    """Print a row for each of `works`, which take turns; unless they start `fresh`, after a run that is not counted."""
    for work in () if fresh else works.values():
        work()
    costs = [{name: work() for name, work in works.items()} for _ in range(runs)]
    for name in works:
        cost = median_of(each[name] for each in costs)
        table.row(title, name, f"{cost.wall:.2f} s", f"{cost.cpu:.2f} s", f"{cost.memory:.0f} MB")


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=1_000)
    options = parser.parse_args()
    if not PEERS.exists() and not QMD.exists():
        print("no peer is installed: make .venv-peers/.ready .venv-qmd/.ready", file=sys.stderr)
        sys.exit(MISSING)
    with tempfile.TemporaryDirectory() as folder, Table("work", "by", "wall", "CPU", "memory of a process") as table:
        prompts(options.runs, Path(folder), table)
        indexes(options.files, options.runs, Path(folder), table)


if __name__ == "__main__":
    main()
