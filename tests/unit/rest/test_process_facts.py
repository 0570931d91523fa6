"""Facts about servers that are child processes, in virtual time and without processes."""

from __future__ import annotations

import asyncio

from fairlead_api.meta import ServerKey
from fairlead_mcp.stdio import ChildSpec
from fairlead_rest.process_facts import collect_facts
from fakeprocesses import FakeLauncher, host_of, modern, mute, now
from virtualtime import in_virtual_time

pytestmark = in_virtual_time
KEY = ServerKey("default", "a")
WORDS = "Error: KEY is missing"


async def test_a_failed_server_is_shown_with_its_last_words_while_it_is_started_again() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    host.get(KEY, ChildSpec("server"))
    await asyncio.sleep(0)
    launcher.launched[0].events.on_stderr(WORDS)
    launcher.launched[0].die()
    await asyncio.sleep(1)
    assert len(launcher.launched) == 2
    assert collect_facts(host, [KEY])[KEY].last_words == WORDS, "the second run has said nothing yet"
    launcher.launched[1].events.on_stderr("Error: KEY is empty")
    assert collect_facts(host, [KEY])[KEY].last_words == "Error: KEY is empty"
    await host.aclose()


async def test_a_server_that_runs_again_has_no_words_of_the_run_that_failed() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get(KEY, ChildSpec("server"))
    await asyncio.sleep(0)
    launcher.launched[0].events.on_stderr(WORDS)
    launcher.launched[0].die()
    launcher.answer = modern
    await asyncio.sleep(1)
    await child.wait_until_ready(now() + 30)
    assert collect_facts(host, [KEY])[KEY].last_words == ""
    await host.aclose()
