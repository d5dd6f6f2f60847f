"""A real Milvus: Lite in an environment of its own, or the server of $CLAWBOT_MILVUS_URI."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.milvus.machines import URI, Machines

ENVIRONMENT = Path(__file__).parents[2] / ".venv-milvus"


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One database for all tests. Its packages come after the program's own."""
    packages = next(ENVIRONMENT.glob("lib/python3.*/site-packages"), None)
    if packages is None:
        pytest.skip("Milvus is not installed: make test-milvus")
    sys.path.append(str(packages))
    yield os.environ.get(URI) or str(tmp_path_factory.mktemp("milvus") / "memory.db")
    sys.path.remove(str(packages))


@pytest.fixture
async def machines(tmp_path: Path, uri: str) -> AsyncIterator[Machines]:
    """Machines with a collection of their own, which is deleted at the end."""
    made = Machines(tmp_path, uri, f"test_{uuid.uuid4().hex[:12]}")
    yield made
    await made.drop()
