"""What the fixture `scripted_llm` gives: one script, reached in three ways, and checked at the end of the test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clawbot.llm.scripted import ScriptEngine, load_script
from clawbot.testing.model import ScriptedModel
from clawbot.testing.serving import ServerThread

Turns = Sequence[Mapping[str, Any]]


class ScriptedLLM:
    """One script for a test, read from `path`. `model` and `serve()` share one engine and its turns.

    What `ref` names is played where the model is opened, maybe in another process: closing that model is what raises
    for unmet expectations and unused turns there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = ScriptEngine(load_script(path))
        self.model = ScriptedModel(self.engine)
        self._named = False
        self._server: ServerThread | None = None

    @property
    def ref(self) -> str:
        """The model's name in settings: `script:FILE`."""
        self._named = True
        return f"script:{self.path}"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What `model` and the server were asked, as OpenAI chat requests, in order."""
        return self.engine.requests

    def serve(self) -> str:
        """Serve the script on loopback until the test ends. The address goes into `api_base`."""
        if self._server is None:
            self._server = ServerThread(self.engine)
        return self._server.url

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def problems(self) -> list[str]:
        """What did not fit and what was left; nothing for a script that was reached by its `ref` alone."""
        if self._named and not self.requests:
            return []
        return [problem.message for problem in self.engine.problems()]


def scripted(source: str | Path | Turns, folder: Path) -> ScriptedLLM:
    """Make a script from turns, from YAML text (several lines) or from a file; the first two are kept in `folder`."""
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source):
        return ScriptedLLM(Path(source).resolve())
    path = folder / f"script-{len(list(folder.glob('script-*.yaml'))) + 1}.yaml"
    path.write_text(source if isinstance(source, str) else _as_yaml(source), encoding="utf-8")
    return ScriptedLLM(path)


def _as_yaml(turns: Turns) -> str:
    plain = json.loads(json.dumps({"turns": list(turns)}))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=float("inf"))
