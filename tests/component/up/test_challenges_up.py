"""Servers in an `mcp.json` with only a URL that refuse `fairlead up` without credentials."""

from __future__ import annotations

import json
from pathlib import Path

from rawserver import Reply, Request, raw_server
from upprocess import fairlead_up

METADATA = "/.well-known/oauth-protected-resource/mcp"


def configuration(folder: Path, url: str) -> str:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"tools": {"url": url}}}))
    return "mcp.json"


async def test_a_server_that_challenges_wants_a_sign_in_and_says_how(tmp_path: Path) -> None:
    async def challenge(request: Request, reply: Reply) -> None:
        reply.send(401, b"", www_authenticate='Bearer error="invalid_token"')

    async with (
        raw_server(challenge) as server,
        fairlead_up(configuration(tmp_path, server.url), cwd=tmp_path) as up,
    ):
        event = await up.server("default/tools", "sign-in")

    assert (event["cause"], event["message"]) == ("SignInRequired", "fairlead login tools")


async def test_a_server_that_refuses_without_any_challenge_wants_a_credential(tmp_path: Path) -> None:
    async def refuse(request: Request, reply: Reply) -> None:
        reply.send(401 if request.verb == "POST" else 404, b"")

    async with (
        raw_server(refuse) as server,
        fairlead_up(configuration(tmp_path, server.url), cwd=tmp_path) as up,
    ):
        event = await up.server("default/tools", "failed")

    assert event["cause"] == "Unauthorized"
    assert 'Add a credential to headers, such as "Authorization"' in event["message"]


async def test_metadata_of_a_protected_resource_is_as_good_as_a_challenge(tmp_path: Path) -> None:
    async def refuse(request: Request, reply: Reply) -> None:
        if request.path == METADATA:
            document = {"resource": server.url, "authorization_servers": [server.url.removesuffix("/mcp")]}
            reply.send(200, json.dumps(document).encode())
        else:
            reply.send(401 if request.verb == "POST" else 404, b"")

    async with (
        raw_server(refuse) as server,
        fairlead_up(configuration(tmp_path, server.url), cwd=tmp_path) as up,
    ):
        await up.server("default/tools", "sign-in")
