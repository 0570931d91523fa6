"""The pod of `helm test`, run with a real gateway: it passes if all works, and fails otherwise."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from fairlead_app.gateway import Gateway
from gatewayworld import catalog, running
from helmworld import Helm, of_kind

pytestmark = pytest.mark.timeout(120)

SERVICE = "http://fairlead-gateway.fairlead-system.svc:80"
OPERATIONS = "http://fairlead-gateway-ops.fairlead-system.svc:9464"
OPEN = ("--set", "gateway.settings.anonymous=allow")


def command(folder: Path, *words: str) -> list[str]:
    """The command line of the pod."""
    (pod,) = of_kind(Helm(folder).template(*words), "Pod")
    (container,) = pod["spec"]["containers"]
    return [*container.get("command", ["fairlead"]), *container.get("args", ())]


async def outcome(gateway: Gateway, line: list[str]) -> tuple[int | None, str]:
    """Exit code and output, with the addresses of this gateway in place of the Services."""
    own = {SERVICE: f"http://127.0.0.1:{gateway.port}", OPERATIONS: f"http://127.0.0.1:{gateway.metrics_port}"}
    for service, address in own.items():
        line = [word.replace(service, address) for word in line]
    line[0] = str(Path(sys.executable).with_name(line[0]))
    process = await asyncio.create_subprocess_exec(
        *line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, output.decode()


async def test_helm_test_lists_the_tools_of_an_open_gateway(tmp_path: Path) -> None:
    line = command(tmp_path, *OPEN)
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"])) as gateway:
        code, output = await outcome(gateway, line)
    assert code == 0
    assert "one__a" in output


async def test_helm_test_sees_that_a_closed_gateway_is_closed(tmp_path: Path) -> None:
    line = command(tmp_path)
    document = catalog("one", "http://127.0.0.1:1/mcp", ["a"])
    async with running(tmp_path, document, anonymous="deny") as closed:
        assert await outcome(closed, line) == (0, "")
    async with running(tmp_path, document, anonymous="allow") as left_open:
        code, output = await outcome(left_open, line)
    assert code == 1
    assert "shows no credential" in output


async def test_helm_test_over_tls_asks_whether_the_gateway_is_ready(tmp_path: Path) -> None:
    line = command(tmp_path, "--set", "tls.secret=certificate")
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"]), drain=30.0) as gateway:
        assert (await outcome(gateway, line))[0] == 0
        ending = asyncio.create_task(gateway.stop(), name="ending")
        await asyncio.sleep(0)
        code, output = await outcome(gateway, line)
        ending.cancel()
    assert code == 1
    assert "503" in output
