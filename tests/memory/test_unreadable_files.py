"""What searches, syncs and the status say of files that can't be looked at, and that nothing is lost by them."""

from __future__ import annotations

import os
import shutil

import pytest

from clawbot.errors import ClawbotError

from .index_host import House, WordEmbedder, find, paths


async def test_a_workspace_that_is_away_empties_nothing_and_is_told(house: House) -> None:
    house.write("MEMORY.md", "the proxy listens on 8443")
    house.write("memory/茶.md", "喜欢乌龙茶")
    await house.sync(WordEmbedder())
    away = house.workspace.rename(house.workspace.with_name("away"))
    async with house.opened(WordEmbedder()) as index:
        found = await find(index, "proxy")
        assert paths(found)[0] == "MEMORY.md"
        assert [note for note in found.warnings if "the workspace does not exist" in note]
        report = await index.sync()
        assert (report.removed, report.unchanged) == (0, 2)
        assert [issue.path for issue in report.issues] == [str(house.workspace)]
        status = await index.status()
        assert (status.files, status.dirty, status.issues) == (2, False, report.issues)
        # Nor does what builds anew or repairs.
        with pytest.raises(ClawbotError, match=r"not rebuilt: .*the workspace does not exist"):
            await index.sync(force=True)
        verified = await index.verify(fix=True)
        assert not verified.clean
        assert "the workspace does not exist" in verified.problems[0]
        assert paths(await find(index, "乌龙茶"))[0] == "memory/茶.md"
    assert len(house.stored()) == 2
    away.rename(house.workspace)
    async with house.opened(WordEmbedder()) as index:
        assert (await find(index, "proxy")).warnings == ()
        assert (await index.status()).issues == ()
        assert (await index.sync(force=True)).rebuilt


async def test_a_folder_that_was_deleted_takes_its_files_along(house: House) -> None:
    house.write("MEMORY.md", "alpha")
    house.write("memory/a.md", "beta")
    async with house.opened() as index:
        await index.sync()
        shutil.rmtree(house.workspace / "memory")
        assert (await index.sync()).removed == 1
        assert (await find(index, "beta")).hits == ()
    assert set(house.stored()) == {"MEMORY.md"}


async def test_many_places_that_cannot_be_looked_at_are_summed_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        house.write(f"memory/{number}/a.md", f"alpha {number}")
    async with house.opened() as index:
        await index.sync()
        real = os.open

        def refuse(path: str, *more: int, **named: int) -> int:
            if str(path).isdigit():
                raise OSError(5, "Input/output error")
            return real(path, *more, **named)

        monkeypatch.setattr(os, "open", refuse)
        found = await find(index, "alpha")
        assert len(found.hits) == 6
        assert len(found.warnings) == 4
        assert found.warnings[0].startswith("memory/0 could not be read (it can't be read: Input/output error)")
        assert found.warnings[-1] == "3 more places could not be read."


async def test_files_that_could_not_be_read_are_in_the_status_of_a_later_process(house: House) -> None:
    house.write("memory/gbk.md", "备忘".encode("gbk"))
    house.write("memory/good.md", "fine")
    async with house.opened() as index:
        report = await index.sync()
        assert len(report.issues) == 1
    async with house.opened() as index:
        status = await index.status()
        assert (status.issues, status.dirty) == (report.issues, False)
        assert (status.files, status.total_files) == (1, 2)
        house.write("memory/gbk.md", "备忘")
        status = await index.status()
        assert (status.issues, status.dirty) == ((), True)


async def test_the_status_of_an_index_of_nothing_but_an_unreadable_file(house: House) -> None:
    house.write("MEMORY.md", b"\xff\xfe\xff")
    async with house.opened() as index:
        assert (await index.status()).dirty
        report = await index.sync()
    async with house.opened() as index:
        status = await index.status()
        assert (status.issues, status.dirty) == (report.issues, False)
