"""The gateway as a process: its start, failures to start, and its end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from controlplane import ControlPlane
from gatewayprocess import started
from gatewayworld import Wire, ask, calling, catalog, modern, publish, wait_for_requests
from ports import free_port
from rawserver import Reply, Request, raw_server
from toolservers import modern_server
from waiting import eventually


async def startup_error(**environment: str) -> str:
    """Last line of output of a gateway that cannot start. Asserts exit code 1 and no traceback."""
    async with started(**environment) as gateway, asyncio.timeout(30):
        _, error = await gateway.process.communicate()
        assert gateway.process.returncode == 1
        assert b"Traceback" not in error
        return error.decode().splitlines()[-1]


async def test_sigterm_finishes_the_call_in_flight_and_ends_with_0(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await release.wait()
        reply.result(request, {"content": [], "resultType": "complete"})

    async with raw_server(handle) as server:
        publish(tmp_path, catalog("demo", server.url, ["x"]))
        async with started(FAIRLEAD_DOCUMENTS=str(tmp_path)) as gateway:
            await gateway.line("up to date: 1 documents")
            gateway.port = int((await gateway.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
            assert (await ask(gateway, modern("tools/list"))).message["result"]["tools"] != []
            async with await Wire.connect(gateway) as wire:
                wire.send(calling("demo__x"))
                await wait_for_requests(server, 1)
                gateway.process.send_signal(signal.SIGTERM)
                await gateway.line("Stopping")
                release.set()
                assert (await wire.answer()).message["result"]["content"] == []
            async with asyncio.timeout(10):
                assert await gateway.process.wait() == 0


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    async with modern_server() as server:
        error = await startup_error(FAIRLEAD_DOCUMENTS="/", FAIRLEAD_PORT=str(server.port))
    assert error.startswith(f"fairlead gateway: port {server.port} of 127.0.0.1 is already in use: --port ")
    assert error.endswith((" is free", " are free"))


async def test_a_directory_that_is_not_there_is_one_sentence() -> None:
    assert "/nowhere/at/all is not a directory" in await startup_error(FAIRLEAD_DOCUMENTS="/nowhere/at/all")


async def test_no_cluster_is_one_sentence(tmp_path: Path) -> None:
    error = await startup_error(HOME=str(tmp_path))
    assert error.startswith("fairlead gateway: no cluster to connect to: set KUBECONFIG")
    assert error.endswith("name a directory of documents with --documents")


async def test_a_kubeconfig_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("{nonsense")
    error = await startup_error(KUBECONFIG=str(tmp_path / "config"))
    assert error.startswith(f"fairlead gateway: {tmp_path / 'config'} cannot be used to connect to a cluster")


async def test_a_lack_of_rights_is_one_sentence(control_plane: ControlPlane, namespace: str) -> None:
    nobody = control_plane.kubeconfig_for("nobody")
    error = await startup_error(KUBECONFIG=str(nobody), FAIRLEAD_NAMESPACE=namespace)
    assert "(403)" in error
    assert "Grant the gateway's service account" in error


async def test_an_api_server_that_is_away_is_waited_for(tmp_path: Path) -> None:
    from planepki import Pki

    config = tmp_path / "config"
    config.write_text(Pki(tmp_path / "pki").kubeconfig("admin", ["system:masters"], f"https://127.0.0.1:{free_port()}"))
    async with started(KUBECONFIG=str(config), FAIRLEAD_ANONYMOUS="allow") as gateway:
        gateway.port = int((await gateway.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
        answer = await ask(gateway, modern("tools/list"))
        assert answer.message["result"]["tools"] == []
        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            assert await gateway.process.wait() == 0


async def test_the_audit_log_is_a_stream_of_its_own_and_what_rotates_it_may_send_sighup(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    moved = tmp_path / "audit.log.1"

    async def wait_for_text(path: Path, text: str) -> None:
        await eventually(lambda: path.exists() and text in path.read_text())

    publish(tmp_path / "documents", catalog("demo", "http://127.0.0.1:9/mcp", ["add"]))
    async with started(FAIRLEAD_DOCUMENTS=str(tmp_path / "documents"), FAIRLEAD_AUDIT_FILE=str(log)) as gateway:
        gateway.port = int((await gateway.line(r"http://127\.0\.0\.1:(\d+)/mcp"))[1])
        await ask(gateway, calling("demo__first"))
        await wait_for_text(log, "demo__first")
        log.rename(moved)
        gateway.process.send_signal(signal.SIGHUP)
        await ask(gateway, calling("demo__second"))
        await wait_for_text(log, "demo__second")
        gateway.process.terminate()
        assert await asyncio.wait_for(gateway.process.wait(), 30) == 0
    assert "demo__second" not in moved.read_text()


async def test_an_audit_log_that_cannot_be_set_up_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    publish(tmp_path / "documents", catalog("demo", "http://127.0.0.1:9/mcp", ["add"]))
    error = await startup_error(FAIRLEAD_DOCUMENTS=str(tmp_path / "documents"), FAIRLEAD_AUDIT_ARGUMENTS="redact")
    assert "set FAIRLEAD_AUDIT_REDACT to the paths" in error
