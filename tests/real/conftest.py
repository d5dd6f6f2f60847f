"""A model server for each test that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import conftest as e2e
from tests.real.server import MISSING, PYTHON, ModelServer, small_model, whole_model

Serve = Callable[..., ModelServer]
machine = e2e.machine


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model with two layers."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def serve(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Start a server; `whole`: of the model with all its layers; `model`: of another one."""
    with ExitStack() as stack:

        def start(*, whole: bool = False, model: Path | None = None, **options: Any) -> ModelServer:
            chosen = model or (whole_model() if whole else small)
            return stack.enter_context(ModelServer(chosen, tmp_path_factory.mktemp("server"), **options))

        yield start
