"""The models that the screen offers: one that is here is taken, another is got; a stopped download stays a part."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.local_model import store
from clawbot.local_model.offers import LocalModels
from clawbot.local_model.store import Offer
from tests.local_model.hosts import SMALL, FileHost, serving, small_model


async def test_what_is_here_is_taken_and_what_is_not_is_got(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Paths(find_home())
    small_model(paths.models / "tiny.gguf")
    models, host, seen = LocalModels(paths), FileHost(SMALL + os.urandom(2_000_000)), list[int]()
    with serving(host):
        monkeypatch.setattr(store, "OFFERS", (Offer("other", host.url, "MIT", 4, 2e6),))
        assert [(each.name, each.here) for each in await models.offers()] == [("tiny", True), ("other", False)]
        await models.pull("tiny", lambda done, _: seen.append(done))
        assert (host.asked, seen) == ([], [])
        host.hold = (1_000_000, threading.Event())
        stopped = asyncio.create_task(models.pull("other", lambda done, _: seen.append(done)))
        await asyncio.to_thread(host.cut.wait)
        stopped.cancel()
        await asyncio.wait([stopped])
        host.hold[1].set()
        host.hold = None
        with pytest.raises(ClawbotError, match="no name of a model"):
            await models.pull("none", lambda *_: None)
