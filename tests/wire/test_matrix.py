"""The wire matrix: every line of `matrix.yaml` at every vendor, each in a whole turn of `clawbot chat -p`, whose worker
goes to the vendor's own address."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from clawbot.cli.one_turn import run_one_turn
from clawbot.config.paths import Paths, find_home
from clawbot.runtime import RuntimeOptions
from tests.vendors import Asked, Step, Vendors, open_vendors, worker_in
from tests.wire.page import PAGE, page
from tests.wire.protocols import PROTOCOLS
from tests.wire.table import Case, cases

pytestmark = [pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def vendors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Vendors]:
    async with open_vendors(tmp_path_factory.mktemp("vendors")) as vendors, worker_in(vendors.environment):
        yield vendors


def configure(case: Case, vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the settings of the case into the home of the test."""
    for key in case.facts["keys"][:1]:
        monkeypatch.setenv(key, "sk-x")
    settings: dict[str, Any] = {
        "model": case.facts["model"],
        "retries": {"attempts": 3, "first_wait": "1ms"},
        "request_timeout": f"{case.row.get('timeout', 30)}s",
        **({"api_base": vendors.address} if case.vendor == "ollama" else case.facts.get("settings", {})),
    }
    home = Paths(find_home())
    home.home.mkdir(parents=True)
    home.config_file.write_text(json.dumps({"agents": {"defaults": settings}}), encoding="utf-8")


async def requests(case: Case, vendors: Vendors) -> tuple[int, list[Asked]]:
    """The exit code of the turn, and the requests for answers of the model."""
    asked: list[Asked] = []

    def answer(request: Asked) -> list[Step]:
        beside = PROTOCOLS[case.vendor]().beside(request)
        if beside is not None:
            return list(beside)
        asked.append(request)
        return case.answer(len(asked) - 1)

    vendors.answer = answer
    return await run_one_turn(RuntimeOptions().unattended(), "hello", as_json=False), asked


def stored() -> list[list[str]]:
    """The stop reason and the contents of each answer in the transcript."""
    [file] = (find_home() / "agents").rglob("*.jsonl")
    entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    answers = [message for message in messages if message["role"] == "assistant"]
    return [[answer["stopReason"], *filter(None, map(shown, answer["content"]))] for answer in answers]


def used() -> list[int]:
    """The tokens of the last answer: read, read from the vendor's cache, written."""
    [file] = (find_home() / "agents").rglob("*.jsonl")
    usage = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])["message"]["usage"]
    return [usage["input"], usage["cacheRead"], usage["output"]]


def shown(block: dict[str, Any]) -> str:
    """A block as the table has it; "" for one that only the vendor reads."""
    match block["type"]:
        case "text":
            return str(block["text"])
        case "thinking":
            return f"({block['thinking']})" if block["thinking"] else ""
        case _:
            return f"{block['name']} {json.dumps(block['arguments'])}"


def printed(case: Case, vendors: Vendors) -> str:
    """What the table has on stderr."""
    row, title = case.row, case.facts["title"]
    if case.vendor == "ollama":
        title += f" at {vendors.address.removeprefix('http://')}"
    message = case.fill(row.get("message", ""))
    base = vendors.address if case.vendor == "ollama" else case.facts.get("settings", {}).get("api_base", "")
    hint = row.get("hint", "").replace("{base}", base).replace("{key}", (case.facts["keys"] or [""])[0])
    lines = [f"{message} Trying again in 1 s."] * row.get("retried", 0)
    if case.failed:
        lines.append(f"{title}: {message} {hint}")
    if "notice" in row:
        lines.append(case.fill(row["notice"]))
    return "".join(f"clawbot: {line}\n" for line in lines)


async def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.wire.page"


@pytest.mark.few(40)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
async def test_the_matrix(
    vendors: Vendors, case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(case, vendors, monkeypatch)
    code, asked = await requests(case, vendors)
    got = capsys.readouterr()
    row = case.row
    expected, err = printed(case, vendors), got.err
    if "{n}" in expected:  # how many tokens the prompt has, is no matter of the vendors
        expected, err = (re.sub(r"\d(?:[\d,]*\d)?", "{n}", text) for text in (expected, err))
    assert err == expected
    assert got.out == (f"{row['out']}\n" if row.get("out") else "")
    assert stored() == row["stored"]
    assert len(asked) == row.get("asked", 1 + row.get("retried", 0))
    assert code == row.get("exit", 0)
    if "returned" in row:
        assert row["returned"].encode() in asked[-1].body
    if "usage" in row:
        assert used() == row["usage"]
    assert all(PROTOCOLS[case.vendor].path in request.path for request in asked)
