"""What a model that orders the first results brings and costs: recall without one, with each, and with one that knows
the answer (the most that can be had).

Run: .venv/bin/python benchmarks/reranking.py DIR [DIR ...] [--every N] [--onnx FOLDER] [--server] [--answers FILE]

DIR is as for retrieval.py. `--every`: only each N-th question. `--onnx`: a folder with model.onnx and tokenizer.json.
`--server`: the model of `make test-real`, SmolLM2-135M on llama.cpp, without a time limit. `--answers`: what a model
answered, one object a line with id and answer; `--prompts FILE` writes what it is asked, so that any can be recorded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.retrieval import FIRST, Question, QuestionClock, Texts, lines_of, read_questions, recall_within
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.config.schema_memory import OnnxSettings
from clawbot.deadline import Cancellation
from clawbot.indexing import open_index
from clawbot.llm.factory import open_model
from clawbot.llm.protocol import ChatModel, ChatRequest, ask
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import Reranker, SearchRequest
from clawbot.messages import UserMessage
from clawbot.plugins.reranker.model import ModelReranker, parse_order, rerank_prompt
from clawbot.plugins.reranker.onnx import OnnxReranker
from tests.real.server import MISSING, PYTHON, ModelServer, whole_model

BUDGET = 2_500
WINDOW = 16_384
UNLIMITED = 3_600.0
ANSWER_TOKENS = 64


@dataclass
class Cost:
    """What the orders of a reader took: seconds of the clock and of this process's processor, and tokens."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


class Nobody:
    """Leaves the order as it is."""

    async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int] | None:
        """Nothing."""
        return None

    async def problem(self) -> str:
        """None."""
        return ""


class Oracle(Nobody):
    """Knows which lines answer the question."""

    def __init__(self) -> None:
        self.gold: frozenset[str] = frozenset()

    async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int]:
        """Those that hold such a line, or are a part of one, first."""
        return sorted(range(len(texts)), key=lambda number: not self._answers(texts[number]))

    def _answers(self, text: str) -> bool:
        return any(line in text or (len(text) > FIRST and text in line) for line in self.gold)


class Recorded(Nobody):
    """Answers as recorded by question; writes down what would be asked."""

    def __init__(self, file: Path | None) -> None:
        rows = map(json.loads, file.read_text(encoding="utf-8").splitlines()) if file is not None else ()
        self._answers = {row["id"]: row["answer"] for row in rows}
        self.id = ""
        self.prompts: dict[str, str] = {}

    async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int] | None:
        """The order in the answer."""
        self.prompts[self.id] = rerank_prompt(queries, texts)
        return parse_order(self._answers.get(self.id, ""), len(texts))


class Chosen(Nobody):
    """The reader of the moment, and what each has cost."""

    def __init__(self, readers: dict[str, Reranker]) -> None:
        self.readers = readers
        self.name = ""
        self.costs = {name: Cost() for name in readers}

    def ask(self, question: Question, gold: frozenset[str]) -> None:
        """The next question, and the lines that answer it."""
        for reader in self.readers.values():
            if isinstance(reader, Oracle):
                reader.gold = gold
            if isinstance(reader, Recorded):
                reader.id = question.id

    async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int] | None:
        """What the reader of the moment says."""
        began, used = time.perf_counter(), time.process_time()
        try:
            return await self.readers[self.name].order(queries, texts)
        finally:
            self.costs[self.name].seconds.append(time.perf_counter() - began)
            self.costs[self.name].cpu.append(time.process_time() - used)


def gold_lines(workspace: Path, question: Question) -> frozenset[str]:
    """The lines that answer a question, without the marks of Markdown. Blocks."""
    texts = {path: (workspace / path).read_text(encoding="utf-8").split("\n") for path, _ in question.gold}
    return frozenset(filter(None, (texts[path][line - 1].strip("-*# ") for path, line in question.gold)))


Recalls = dict[str, list[tuple[float, float]]]


async def ask_workspace(workspace: Path, questions: list[Question], chosen: Chosen) -> Recalls:
    """R@6 and R@2500 of each question, by reader."""
    found: Recalls = {name: [] for name in chosen.readers}
    with tempfile.TemporaryDirectory() as home:
        paths = Paths(Path(home))
        search = {"query": {"rerank": "model", "timeout": UNLIMITED}}
        here = {"workspace": str(workspace), "timezone": "UTC", "memory_search": search}
        settings = load_settings(paths, overrides={"agents": {"defaults": here}}).settings
        clock = QuestionClock()
        index = open_index(settings, MAIN_AGENT, paths, clock, long_lived=True, rerank=chosen)
        if index is None:
            raise SystemExit("memory_search.enabled is off")
        texts = Texts(workspace)
        try:
            await index.sync()
            for question in questions:
                clock.day = question.day
                chosen.ask(question, gold_lines(workspace, question))
                for name in chosen.readers:
                    chosen.name = name
                    found[name].append(await recalls(index, question, texts))
        finally:
            await index.close()
    return found


async def recalls(index: MemoryBackend, question: Question, texts: Texts) -> tuple[float, float]:
    """R@6 and R@2500 of what a model would get."""
    hits = (await index.search(SearchRequest(queries=(question.text,)))).hits
    seen = {line for hit in hits[:FIRST] for line in lines_of(hit)}
    return len(seen & question.gold) / len(question.gold), recall_within(question, hits, texts, BUDGET)


def ask_folder(folder: Path, every: int, chosen: Chosen) -> Recalls:
    """The same of a folder with questions, in copies of its workspaces."""
    questions = [each for each in read_questions(folder / "questions.jsonl") if each.counts][::every]
    found: Recalls = {name: [] for name in chosen.readers}
    for name in dict.fromkeys(question.workspace for question in questions):
        mine = [question for question in questions if question.workspace == name]
        with tempfile.TemporaryDirectory() as copy:
            workspace = Path(copy) / "workspace"
            shutil.copytree(folder / name, workspace, copy_function=shutil.copyfile)
            for reader, scores in asyncio.run(ask_workspace(workspace, mine, chosen)).items():
                found[reader] += scores
    return found


class Asked:
    """Asks a model of a server, opened anew in each event loop, and counts its tokens in `cost`."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self.cost = Cost()

    async def __call__(self, system: str, prompt: str) -> str:
        """The model's answer."""
        model = await self._open()
        message = UserMessage(content=prompt, timestamp=0)
        request = ChatRequest(system=system, messages=(message,), purpose="rerank", max_tokens=ANSWER_TOKENS)
        try:
            answer = await ask(model, request, Cancellation())
        finally:
            await model.aclose()
        if answer.usage is not None:
            self.cost.tokens.append(answer.usage.prompt_tokens + answer.usage.output)
        return answer.text

    async def _open(self) -> ChatModel:
        with tempfile.TemporaryDirectory() as home:
            here = {"api_base": self._server.base, "api_key": "none", "model": "openai/small"}
            settings = load_settings(Paths(Path(home)), overrides={"agents": {"defaults": here}}).settings
            return await open_model(settings.agent(MAIN_AGENT).model, settings.agent(MAIN_AGENT), clock=QuestionClock())


@contextmanager
def readers_of(options: argparse.Namespace) -> Iterator[tuple[dict[str, Reranker], Asked | None]]:
    """The readers that were asked for."""
    readers: dict[str, Reranker] = {"no model": Nobody(), "one that knows": Oracle()}
    asked = None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if options.onnx:
            settings = OnnxSettings(model=str(options.onnx), timeout=UNLIMITED)
            readers[f"onnx, {options.onnx.name}"] = OnnxReranker(settings, folder)
        if options.server:
            if not PYTHON.exists():
                raise SystemExit(MISSING)
            asked = Asked(stack.enter_context(ModelServer(whole_model(), folder, window=WINDOW)))
            readers["model, SmolLM2-135M"] = ModelReranker(asked, UNLIMITED)
        if options.answers or options.prompts:
            readers["model, recorded"] = Recorded(options.answers)
        yield readers, asked


def print_rows(folder: Path, found: Recalls, costs: dict[str, Cost], tokens: Cost | None) -> None:
    """The table of one folder."""
    for name, scores in found.items():
        first, within = (statistics.fmean(each[at] for each in scores) for at in (0, 1))
        cost = costs[name]
        seconds, cpu = statistics.median(cost.seconds), statistics.median(cost.cpu)
        count = f"{statistics.median(tokens.tokens):,.0f}" if tokens and tokens.tokens and "SmolLM" in name else ""
        shown = f"| {folder.name} | {name} | {len(scores)} | {first:.3f} | {within:.3f}"
        print(f"{shown} | {seconds:.2f} | {cpu:.2f} | {count} |", flush=True)


def main() -> None:
    """Ask every folder with every reader, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--onnx", type=Path)
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--prompts", type=Path)
    options = parser.parse_args()
    print(f"| | reader | questions | R@{FIRST} | R@{BUDGET} | median s | s of processor here | tokens |")
    print("|---|---|---|---|---|---|---|---|")
    with readers_of(options) as (readers, asked):
        for folder in options.folders:
            chosen = Chosen(readers)
            found = ask_folder(folder, options.every, chosen)
            print_rows(folder, found, chosen.costs, asked.cost if asked else None)
            recorded = readers.get("model, recorded")
            if options.prompts and isinstance(recorded, Recorded):
                with options.prompts.open("w", encoding="utf-8") as out:
                    for name, prompt in recorded.prompts.items():
                        out.write(json.dumps({"id": name, "prompt": prompt}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
