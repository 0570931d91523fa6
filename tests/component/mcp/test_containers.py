"""Servers in containers, which are processes of the container engine, not of the client that started them."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from containerengine import ContainerEngine
from fairlead_mcp.host import ChildHost
from fairlead_mcp.stdio import ChildSpec
from upprocess import alive, all_dead
from waiting import eventually, soon

HASTY = partial(ChildHost, stop_seconds=0.2)
"""Host with a short wait before SIGKILL, because the servers of these tests end neither with their input nor by
SIGTERM."""


@pytest.mark.parametrize(
    "words",
    [("docker", "run", "-i", "--rm"), ("podman", "container", "run", "-i"), ("docker", "--context", "there", "run")],
    ids=lambda words: " ".join(words),
)
async def test_a_container_ends_with_its_server(words: tuple[str, ...], tmp_path: Path) -> None:
    engine = ContainerEngine(tmp_path)
    host = HASTY()
    child = host.get("contained", ChildSpec.of(str(engine.bin / words[0]), [*words[1:], *engine.image]))
    await child.wait_until_ready(soon())
    (container,) = engine.containers()
    assert alive(container)
    await host.aclose()
    assert await all_dead([container], 5) == []


async def test_a_container_whose_client_was_killed_ends_before_the_next_one_starts(tmp_path: Path) -> None:
    engine = ContainerEngine(tmp_path)
    host = HASTY(random=lambda: 0.0)
    child = host.get("contained", ChildSpec.of(str(engine.bin / "docker"), ["run", "-i", *engine.image]))
    await child.wait_until_ready(soon())
    (first,) = engine.containers()
    os.kill(child.program.pid or 0, signal.SIGKILL)
    await eventually(lambda: child.starts == 2 and child.negotiated is not None)
    assert await all_dead([first], 5) == []
    assert [alive(container) for container in engine.containers() if container != first] == [True]
    await host.aclose()
    assert await all_dead(engine.containers(), 5) == []


async def test_an_engine_that_does_not_answer_holds_no_end_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = ContainerEngine(tmp_path)
    host = HASTY()
    child = host.get("contained", ChildSpec.of(str(engine.bin / "docker"), ["run", "-i", *engine.image]))
    await child.wait_until_ready(soon())
    (container,) = engine.containers()
    (engine.bin / "docker").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    async with asyncio.timeout(30):
        await host.aclose()
    assert "docker did not kill a container within 5 s" in caplog.text
    os.kill(container, signal.SIGKILL)
