"""Events reach handlers in both kinds of hosts alike, and what a handler does wrong stays its own problem."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from clawbot.config.schema_extensions import HookSettings
from clawbot.hooks import dispatch
from clawbot.hooks.dispatch import LastRun
from clawbot.text.secrets import MARK
from tests.hooks.stage import HOSTS, Services, bootstrap, command, dispatching, places, settings, tool, write_handler
from tests.hooks.stage import write_hook as write
from tests.said_secrets import LOOK_ALIKES, SECRETS
from tests.tables import load_table

TELLING = "async def handle(event):\n    await event.hook.tell({!r})\n"


@pytest.mark.parametrize("source", HOSTS)
async def test_no_hook_is_told_a_secret(tmp_path: Path, source: str) -> None:
    handler = """
        async def handle(event):
            await event.hook.tell(event.text if event.topic == "command:new" else str(event.arguments))
        """
    write(tmp_path / source, "listener", handler)
    services = Services()
    async with dispatching(places(tmp_path), settings()) as hooks:
        for secret in SECRETS:
            await hooks.run(command(secret.text), services)
            arguments = {"command": secret.text, "env": {"DB_PASSWORD": secret.secret}}
            await hooks.run(structs.replace(tool(), arguments=arguments), services)
        for text in LOOK_ALIKES:
            await hooks.run(command(text), services)
    told = services.told
    assert len(told) == 2 * len(SECRETS) + len(LOOK_ALIKES)
    assert not [secret for secret in SECRETS for line in told[: 2 * len(SECRETS)] if secret.secret in line]
    assert told[2 * len(SECRETS) :] == list(LOOK_ALIKES)


@pytest.mark.parametrize("source", HOSTS)
async def test_what_a_hook_may_change_comes_as_it_is(tmp_path: Path, source: str) -> None:
    write(tmp_path / source, "reader", "async def handle(event):\n    event.files[0].text += ' changed'\n")
    async with dispatching(places(tmp_path), settings()) as hooks:
        event = await hooks.run(bootstrap("my PIN is 4711"), Services())
    assert [file.text for file in event.files] == ["text of my PIN is 4711 changed"]


@pytest.mark.parametrize("source", HOSTS)
async def test_a_handler_is_told_everything_and_reaches_all_services(tmp_path: Path, source: str) -> None:
    handler = """
        from clawbot.hooks import HookServiceError
        from . import words

        async def handle(event):
            hook, out = event.hook, []
            out.append([hook.name, hook.settings["greeting"], event.topic, event.text, event.workspace])
            out.append([event.timestamp.hour, event.timestamp.tzname(), event.zone])
            out.append([(said.role, said.text) for said in await hook.said(3)])
            out.append([(said.role, said.text) for said in await hook.overview()])
            out.append(await hook.ask("什么？", system="kurz", seconds=2.5))
            out.append(await hook.keep_note("# 笔记", "slug"))
            out.append(await hook.run("los", session="boot"))
            try:
                await hook.rename_note("memory/x.md", "y")
            except HookServiceError as error:
                out.append(str(error))
            out.append(words.GOODBYE)
            for line in out:
                await hook.tell(str(line))
        """
    folder = write(tmp_path / source, "greeter", handler)
    folder.joinpath("words.py").write_text("GOODBYE = '再见'\n", encoding="utf-8")
    services = Services()
    async with dispatching(places(tmp_path), settings(greeter={"greeting": "你好"})) as hooks:
        event = command("明天 \ud83d 继续")
        assert await hooks.run(event, services) == event
        assert hooks.results["greeter"].status == "ok", hooks.results["greeter"].error
    local = source == "shipped"
    assert services.asked == [("ask", "什么？", "kurz", 2.5), ("keep_note", "# 笔记", "slug")]
    assert services.told[:1] + services.told[2:] == [
        str(["greeter", "你好", "command:new", event.text if local else "明天 � 继续", "/work/空间"]),
        str([("user", "最近 3 条"), ("assistant", f"好的 {chr(0xD83D) if local else '�'}")]),
        str([("user", "最初"), ("user", "最后")]),
        "answer to 什么？",
        "memory/2026-03-04-slug.md",
        "boot: los",
        "memory/x.md 不存在",
        "再见",
    ]
    assert services.told[1] == (str([12, "UTC", "Asia/Shanghai"]) if local else str([20, "CST", "Asia/Shanghai"]))


@pytest.mark.parametrize("source", HOSTS)
async def test_hooks_change_files_one_after_the_other_and_nothing_else(tmp_path: Path, source: str) -> None:
    adding = """
        from clawbot.hooks import InjectedFile

        async def handle(event):
            names = "+".join(file.name for file in event.files)
            event.files.append(InjectedFile({!r}, names))
            event.session_id = event.agent_id = "another"
        """
    write(tmp_path / source, "b", adding.format("二"), head="events: agent\norder: 2")
    write(tmp_path / source, "a", adding.format("一"), head="events: agent:bootstrap\norder: 1")
    async with dispatching(places(tmp_path)) as hooks:
        event = bootstrap("AGENTS.md")
        left = await hooks.run(event, Services())
    assert [(file.name, file.text) for file in left.files[1:]] == [("一", "AGENTS.md"), ("二", "AGENTS.md+一")]
    assert (left.session_id, left.agent_id, left.timestamp) == ("s1", "main", event.timestamp)
    assert len(event.files) == 1


@pytest.mark.parametrize("source", HOSTS)
async def test_a_tool_is_refused_and_its_call_stays_as_it_was(tmp_path: Path, source: str) -> None:
    write(
        tmp_path / source,
        "guard",
        """
        async def handle(event):
            if event.arguments.pop("command").startswith("rm"):
                event.refuse("这里不许删除")
        """,
    )
    async with dispatching(places(tmp_path)) as hooks:
        left = await hooks.run(tool(), Services())
    assert (left.refusal, left.arguments) == ("这里不许删除", {"command": "rm -rf /"})


FAILURES = load_table(__file__, "FAILURES")


@pytest.mark.parametrize("source", HOSTS)
@pytest.mark.parametrize("kind", FAILURES)
async def test_a_failing_hook_is_reported_and_the_next_one_runs(
    tmp_path: Path, source: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler, error = FAILURES[kind]
    write(tmp_path / source, "bad", handler, head="events: agent\norder: 1")
    # In this process, so that a case costs one other process and not two.
    write(tmp_path / "shipped", "good", "async def handle(event): event.files.pop()", head="events: agent\norder: 2")
    told: list[tuple[str, LastRun]] = []
    async with dispatching(places(tmp_path)) as hooks:
        hooks.on_failure = lambda name, last: told.append((name, last))
        left = await hooks.run(bootstrap("A", "B"), Services())
        assert [file.name for file in left.files] == ["A"]
        (name, last) = told[0]
        assert (name, last.status, last.topic, len(told)) == ("bad", "failed", "agent:bootstrap", 1)
        assert error in last.error
        assert "\n" not in last.error
        assert hooks.results["bad"] == last
        assert hooks.results["good"].status == "ok"
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("source", HOSTS)
async def test_a_handler_that_waits_too_long_is_ended(tmp_path: Path, source: str) -> None:
    write(
        tmp_path / source,
        "slow",
        """
        import asyncio
        async def handle(event):
            await asyncio.Event().wait()
        """,
    )
    async with dispatching(places(tmp_path), settings(slow={"timeout": 0.2})) as hooks:
        await hooks.run(command(), Services())
        last = hooks.results["slow"]
        await hooks.settled()
    assert last.status == "timeout"
    assert "0.2 s" in last.error
    assert "hooks.entries.slow.timeout" in last.error


@pytest.mark.parametrize("way_out", ["return", "raise ValueError('mine') from None"])
async def test_a_handler_that_keeps_its_end_by_time_to_itself_was_too_slow_all_the_same(
    tmp_path: Path, way_out: str
) -> None:
    write(
        tmp_path / "shipped",
        "slow",
        f"""
        import asyncio
        async def handle(event):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                {way_out}
        """,
    )
    async with dispatching(places(tmp_path), limit=0.01) as hooks:
        await hooks.run(command(), Services())
        assert hooks.results["slow"].status == "timeout"


@pytest.mark.parametrize("source", HOSTS)
@pytest.mark.parametrize("stubborn", [False, True])
async def test_cancelling_breaks_off_the_handler_and_skips_the_next_hook(
    tmp_path: Path, source: str, stubborn: bool
) -> None:
    write(
        tmp_path / source,
        "long",
        f"""
        import asyncio
        async def handle(event):
            if event.text:
                return
            await event.hook.tell("begun")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not {stubborn}:
                    raise
        """,
        head="events: command\norder: 1",
    )
    write(tmp_path / "shipped", "next", TELLING.format("next"), head="events: command\norder: 2")
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        running = asyncio.create_task(hooks.run(command(), services))
        await services.heard(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (services.told, "next" in hooks.results) == (["begun"], False)
        assert hooks.results["long"].status != "ok" or stubborn
        await hooks.run(command("again"), services)
        assert hooks.results["long"].status == "ok"
        assert services.told == ["begun", "next"]


@pytest.mark.parametrize("source", HOSTS)
async def test_a_changed_handler_is_loaded_anew(tmp_path: Path, source: str) -> None:
    folder = write(tmp_path / source, "greeter", TELLING.format("一"))
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        for change in (TELLING.format("zwei"), "async def handle(", "from . import words\n" + TELLING.format("drei")):
            await hooks.run(command(), services)
            write_handler(folder, change)
        await hooks.run(command(), services)
        assert "words" in hooks.results["greeter"].error
        folder.joinpath("words.py").write_text("")
        await hooks.run(command(), services)
        folder.joinpath("words.py").write_text("raise ValueError('四')")
        await hooks.run(command(), services)
        assert hooks.results["greeter"].error == "ValueError: 四 (words.py:1)"
    assert services.told == ["一", "zwei", "drei"]


@pytest.mark.parametrize("source", HOSTS)
async def test_a_changed_head_counts_from_the_next_event_on(tmp_path: Path, source: str) -> None:
    write(tmp_path / source, "greeter", TELLING.format("x"))
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command(), services)
        write(tmp_path / source, "greeter", TELLING.format("x"), head="events: tool:before")
        await hooks.run(command(), services)
        assert len(services.told) == 1
        assert (hooks.wants("command:new"), hooks.wants("tool:before")) == (False, True)


@pytest.mark.parametrize("source", HOSTS)
async def test_later_work_goes_on_behind_the_event(tmp_path: Path, source: str) -> None:
    write(
        tmp_path / source,
        "greeter",
        """
        async def handle(event):
            async def work():
                await event.hook.tell("later")
                await event.hook.tell(await event.hook.ask("still there?"))
                raise ValueError("晚了")
            event.hook.later(work())
        """,
    )
    services = Services()
    services.gate.clear()
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command(), services)
        assert hooks.results["greeter"].status == "ok"
        await services.heard(1)
        services.gate.set()
        await hooks.settled()
        assert services.told == ["later", "answer to still there?"]
        last = hooks.results["greeter"]
        assert (last.status, last.error) == ("failed", "later work failed: ValueError: 晚了 (handler.py:6)")


@pytest.mark.parametrize("source", HOSTS)
async def test_the_end_waits_for_what_is_under_way(tmp_path: Path, source: str) -> None:
    write(
        tmp_path / source,
        "greeter",
        "async def handle(event):\n    event.hook.later(event.hook.tell(event.text))\n",
    )
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        hooks.notify(command("一"), services)
        hooks.notify(command("二"), services)
        await hooks.close(60)
        assert services.told == ["一", "二"]
        hooks.notify(command("三"), services)
        event = bootstrap("A")
        assert await hooks.run(event, services) is event
    assert services.told == ["一", "二"]


@pytest.mark.parametrize("source", HOSTS)
async def test_the_end_does_not_wait_for_ever(tmp_path: Path, source: str) -> None:
    write(
        tmp_path / source,
        "greeter",
        """
        import asyncio
        async def handle(event):
            await event.hook.tell(event.text)
            if event.text == "later":
                event.hook.later(asyncio.Event().wait())
            else:
                await asyncio.Event().wait()
        """,
    )
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        await hooks.run(command("later"), services)
        hooks.notify(command("now"), services)
        hooks.notify(command("never"), services)
        await services.heard(2)
        await hooks.close(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert services.told == ["later", "now"]


async def test_events_of_notify_keep_their_order_and_nobody_waits(tmp_path: Path) -> None:
    write(tmp_path / "home", "a", "async def handle(event):\n    await event.hook.tell('a' + event.text)\n")
    write(tmp_path / "home", "b", "async def handle(event):\n    await event.hook.tell('b' + event.text)\n")
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        for text in "123":
            hooks.notify(command(text), services)
        assert services.told == []
        await hooks.settled()
    assert services.told == ["a1", "b1", "a2", "b2", "a3", "b3"]


async def test_of_too_many_events_the_oldest_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dispatch, "QUEUE", 3)
    write(tmp_path / "shipped", "a", "async def handle(event):\n    await event.hook.tell(event.text)\n")
    services = Services()
    async with dispatching(places(tmp_path)) as hooks:
        for text in "12345":
            hooks.notify(command(text), services)
        await hooks.settled()
    assert services.told == ["3", "4", "5"]
    assert caplog.text.count("was dropped") == 2


async def test_nothing_runs_that_may_not(tmp_path: Path) -> None:
    write(tmp_path / "shipped", "off", TELLING.format("off"))
    write(tmp_path / "shipped", "lacking", TELLING.format("lacking"), head="events: command\nrequires: {bins: no-such}")
    write(tmp_path / "shipped", "deaf", TELLING.format("deaf"), head="events: tool")
    services = Services()
    async with dispatching(places(tmp_path), settings(off={"enabled": False})) as hooks:
        assert not hooks.wants("command:new")
        await hooks.run(command(), services)
        hooks.notify(command(), services)
        await hooks.settled()
    assert services.told == []


async def test_a_hook_without_the_settings_that_give_it_work_is_idle(tmp_path: Path) -> None:
    write(tmp_path / "shipped", "idler", TELLING.format("x"), head="events: agent\nidle_without: [paths, files]")
    entries: list[dict[str, Any]] = [{}, {"paths": []}, {"others": ["a"]}, {"files": ["a"]}]
    given: dict[str, Any] = {}
    services = Services()
    async with dispatching(places(tmp_path), lambda: settings(idler=given)) as hooks:
        for entry in entries:
            given.clear()
            given.update(entry)
            await hooks.load()
            assert hooks.hooks[0].ready
            assert hooks.wants("agent:bootstrap") == bool(entry.get("files"))
            await hooks.run(bootstrap("AGENTS.md"), services)
    assert services.told == ["x"]


async def test_loading_again_takes_new_hooks_settings_and_removals(tmp_path: Path) -> None:
    handler = "async def handle(event):\n    await event.hook.tell(event.hook.settings.get('word', '-'))\n"
    write(tmp_path / "shipped", "a", handler)
    services = Services()
    config = [HookSettings()]
    async with dispatching(places(tmp_path), lambda: config[0]) as hooks:
        await hooks.run(command(), services)
        write(tmp_path / "shipped", "b", handler)
        config[0] = settings(a={"word": "新"})
        await hooks.load()
        await hooks.run(command(), services)
        config[0] = settings(a={"enabled": False})
        await hooks.load()
        await hooks.run(command(), services)
    assert services.told == ["-", "新", "-", "-"]


async def test_an_observer_that_raises_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "shipped", "bad", "async def handle(event): raise ValueError")

    def raising(name: str, last: LastRun) -> None:
        raise RuntimeError("no screen")

    async with dispatching(places(tmp_path)) as hooks:
        hooks.on_failure = raising
        await hooks.run(command(), Services())
        assert hooks.results["bad"].status == "failed"
    assert "no screen" in caplog.text


async def test_secrets_of_an_entry_are_shown_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(
        tmp_path / "home",
        "leaky",
        """
        import os
        async def handle(event):
            raise ValueError("key " + os.environ["ACME_API_KEY"])
        """,
    )
    caplog.set_level(logging.INFO)
    async with dispatching(places(tmp_path), settings(leaky={"env": {"ACME_API_KEY": "geheimes-wort-77"}})) as hooks:
        await hooks.run(command(), Services())
        assert hooks.results["leaky"].error == f"ValueError: key {MARK} (handler.py:4)"
