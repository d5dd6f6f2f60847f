"""A kill at any step of an import, and an interruption: the next run completes it, and an undo still takes all back."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.importing import runs
from clawbot.importing.ledger import Ledger
from clawbot.importing.runs import Importer, undo_run
from clawbot.sessions.store import SessionStore
from tests.clocks import StillClock
from tests.faults import kill_at_each
from tests.importing import homes
from tests.importing.test_import import Place, paths, place_of, said

IMPORTS = "import clawbot.importing.runs, clawbot.sessions.store, tests.clocks"
NAMES = """
    from pathlib import Path
    from clawbot.importing.ledger import Ledger
    from clawbot.importing.runs import Importer, undo_run
    from clawbot.sessions.store import SessionStore
    from tests.clocks import StillClock
"""
RUN = f"""{NAMES}
    store = SessionStore(Path("ours/sessions"), StillClock(), cwd=Path("/w"))
    ledger = Ledger(Path("ours/imports"))
    arm()
    Importer(store, Path("ours/workspace"), ledger, StillClock()).run(Path("theirs/.openclaw"))
"""
UNDO = f"""{NAMES}
    store = SessionStore(Path("ours/sessions"), StillClock(), cwd=Path("/w"))
    ledger = Ledger(Path("ours/imports"))
    arm()
    undo_run(store, ledger, *ledger.runs()[0], workspace=Path("ours/workspace"))
"""


def parts(folder: Path) -> tuple[SessionStore, Ledger]:
    return SessionStore(folder / "ours/sessions", StillClock(), cwd=Path("/w")), Ledger(folder / "ours/imports")


def complete(folder: Path) -> None:
    store, ledger = parts(folder)
    Importer(store, folder / "ours/workspace", ledger, StillClock()).run(folder / "theirs/.openclaw")


def whole(folder: Path) -> dict[str, list[str]]:
    """What was said in each conversation, and no rest of a write."""
    store, _ = parts(folder)
    with store.open() as opened:
        main = opened.record.session_id
    assert not list(store.folder.glob("*.tmp"))
    return {each.session_id: said(each.path) for each in store.list() if each.session_id != main}


@pytest.mark.long
def test_an_import_that_was_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    start = tmp_path / "start"
    (start / "theirs").mkdir(parents=True)
    (start / "ours").mkdir()
    homes.openclaw(start / "theirs")
    left = kill_at_each(IMPORTS, RUN, place=start, into=tmp_path / "killed")
    assert len(left) > 20
    expected = whole(left[-1])
    assert len(expected) == 3
    for folder in left:
        complete(folder)
        assert whole(folder) == expected
        store, ledger = parts(folder)
        for run, records in reversed(ledger.runs()):
            assert not undo_run(store, ledger, run, records, workspace=folder / "ours/workspace").stays
        assert whole(folder) == {}
        assert not [path for path in (folder / "ours/workspace").rglob("[!.]*") if path.is_file()]


@pytest.mark.long
def test_an_undo_that_was_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    start = tmp_path / "start"
    (start / "theirs").mkdir(parents=True)
    (start / "ours").mkdir()
    homes.openclaw(start / "theirs")
    complete(start)
    for folder in kill_at_each(IMPORTS, UNDO, place=start, into=tmp_path / "killed"):
        store, ledger = parts(folder)
        for run, records in ledger.runs():
            assert not undo_run(store, ledger, run, records, workspace=start / "ours/workspace").stays
        assert whole(folder) == {}


def test_what_was_imported_before_ctrl_c_stays_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place: Place = place_of("codex", tmp_path)

    def stop(count: int) -> None:
        if count == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.run(progress=stop)
    assert len(place.store.list()) == 2
    monkeypatch.setattr(runs, "BATCH", 1)
    assert place.run().new == 1
    assert len(paths(place)) == 3
