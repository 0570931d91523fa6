"""Servers with special requirements: a private certificate, a Host name, a credential."""

from __future__ import annotations

import json
import shlex
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.transport_security import TransportSecuritySettings

from certificates import Authority
from commands import fairlead
from rawserver import raw_server
from sdk_tools import make_server
from serverprocesses import sse_server
from toolservers import Guarded, sdk_server, serve_asgi
from upprocess import DEMO, fairlead_up, started_up
from waiting import until_async

ANY_HOST = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def server(name: str, **spec: Any) -> str:
    document = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}, "spec": spec}
    return f"---\n{json.dumps(document)}\n"


def secret(value: str) -> str:
    metadata = {"name": "key", "labels": {"fairlead.dev/credential": "true"}}
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": value}}
    return f"---\n{json.dumps(document)}\n"


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_a_certificate_is_verified_against_the_bundle_of_the_spec_and_nothing_else(
    transport: str, tmp_path: Path
) -> None:
    authority = Authority()
    stranger = Authority("a stranger")
    async with AsyncExitStack() as servers:
        context = authority.server_context(tmp_path)
        if transport == "sse":
            url = await servers.enter_async_context(sse_server(tmp_path / "server.pem"))
        else:
            app = make_server().streamable_http_app(transport_security=ANY_HOST)
            url = f"https://127.0.0.1:{await servers.enter_async_context(serve_asgi(app, tls=context))}/mcp"
        reached = {"transport": transport}
        (tmp_path / "a.yaml").write_text(
            server("known", url=url, remote={**reached, "caBundle": authority.bundle})
            + server("strange", url=url, remote={**reached, "caBundle": stranger.bundle})
            + server("unknown", url=url, remote=reached)
        )
        async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path) as up:
            states = await up.states(3)
            assert states["default/known"].startswith("ready")
            assert "TLSFailed" in states["default/strange"]
            assert "TLSFailed" in states["default/unknown"]
            async with Client(up.url) as client:
                result = await client.call_tool("known__add", {"a": 2, "b": 3})
                assert result.structured_content == {"result": 5}


async def test_a_server_that_answers_to_one_name_is_called_by_it(tmp_path: Path) -> None:
    async with sdk_server(allowed_hosts=["tools.internal"]) as url:
        (tmp_path / "a.yaml").write_text(
            server("plain", url=url) + server("named", url=url, remote={"hostHeader": "tools.internal"})
        )
        async with fairlead_up(tmp_path / "a.yaml", cwd=tmp_path) as up:
            states = await up.states(2)
            assert states["default/named"].startswith("ready")
            assert "MisdirectedRequest" in states["default/plain"]
            async with Client(up.url) as client:
                assert not (await client.call_tool("named__add", {"a": 2, "b": 3})).is_error


async def test_a_credential_that_is_renewed_is_used_without_a_restart(tmp_path: Path) -> None:
    guard = Guarded("Bearer first")
    async with raw_server(guard) as guarded:
        auth = {"bearer": {"secretRef": {"name": "key"}}}
        folder = tmp_path / "manifests"
        folder.mkdir()
        (folder / "server.yaml").write_text(server("demo", url=guarded.url, auth=auth))
        (folder / "secret.yaml").write_text(secret("first"))
        async with fairlead_up(folder, cwd=tmp_path) as up:
            await up.ready("default/demo")
            async with Client(up.url) as client:
                assert not (await client.call_tool("demo__add", {})).is_error
                guard.credential = "Bearer second"
                (folder / "secret.yaml").write_text(secret("second"))

                async def answers() -> bool:
                    return not (await client.call_tool("demo__add", {})).is_error

                await until_async("calls with the new credential", answers)
    assert (guard.called[0], guard.called[-1]) == ("Bearer first", "Bearer second")


async def test_the_printed_command_makes_a_key_in_the_gateways_own_file(tmp_path: Path) -> None:
    state = tmp_path / "my state"
    state.mkdir()
    file = ("--file", str(state / "keys.json"))
    assert (await fairlead("keys", "create", "me", *file))[0] == 0
    (tmp_path / "demo.yaml").write_text(server("demo", command=DEMO))
    words = ("demo.yaml", "--state-dir", state, "--port", "0", "--metrics-port", "0", "--plain")
    async with started_up(*words, cwd=tmp_path) as up:
        assert up.process.stdout is not None
        line = b""
        while b"Key:" not in line:
            line = await up.process.stdout.readline()
            assert line, await up.errors()
    command = shlex.split(line.decode().split("`")[1].replace("NAME", "other"))
    assert (await fairlead(*command[1:]))[0] == 0
    assert "other" in (await fairlead("keys", "list", *file))[1]


async def test_a_gateway_that_makes_no_keys_says_how_they_get_into_a_file(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"demo": {"command": DEMO[0], "args": DEMO[1:]}}}))
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path) as up:
        code, _, refusal = await fairlead("keys", "create", "me", "--url", up.url)
        made = await fairlead("keys", "create", "me", "--file", str(tmp_path / "keys.json"))
    assert (code, made[0]) == (1, 0)
    assert refusal.rstrip().endswith("put keys into a file: fairlead keys create NAME --file keys.json")
