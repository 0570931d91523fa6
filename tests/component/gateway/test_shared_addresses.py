"""Requests of different principals to the same address share no connection and no session."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import CredentialRef
from gatewayworld import LEGACY, MODERN, ask, calling, catalog, running
from rawserver import Reply, Request, raw_server

PRINCIPALS = ("ada", "bob")


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}], ids=["plain", "with progress"])
async def test_servers_at_one_address_with_other_credentials_share_no_connection_and_no_session(
    tmp_path: Path, era: str, more: dict[str, Any]
) -> None:
    on_connection = defaultdict[int, set[str]](set)
    in_session = defaultdict[str, set[str]](set)
    writers: list[Any] = []

    async def handle(request: Request, reply: Reply) -> None:
        who = request.headers["x-key"]
        writers.append(reply.writer)  # so that no other writer gets the same id
        on_connection[id(reply.writer)].add(who)
        if request.method == "initialize":
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            return reply.result(request, hello, mcp_session_id=f"of {who}")
        if request.method != "tools/call":
            return reply.send(202)
        in_session[request.headers.get("mcp-session-id", f"of {who}")].add(who)
        await asyncio.sleep(0.005)
        return reply.result(request, {"content": [{"type": "text", "text": who}], "resultType": "complete"})

    (tmp_path / "credentials").mkdir()
    for who in PRINCIPALS:
        (tmp_path / "credentials" / f"{who}.json").write_text(json.dumps({"headers": {"X-Key": who}}))
    async with raw_server(handle) as server:
        documents = [
            catalog(who, server.url, ["x"], version=era, credential=CredentialRef(secret=who, key="k", hash="1"))
            for who in PRINCIPALS
        ]
        async with running(tmp_path, *documents) as gateway:
            for _ in range(5):
                requests = [calling(f"{who}__x", {}, **more) for who in PRINCIPALS * 4]
                answers = await asyncio.gather(*(ask(gateway, request) for request in requests))
                told = [answer.message["result"]["content"][0]["text"] for answer in answers]
                assert told == [*PRINCIPALS * 4]
    assert len(on_connection) >= 2
    assert all(len(whose) == 1 for whose in on_connection.values())
    assert in_session == {f"of {who}": {who} for who in PRINCIPALS}
