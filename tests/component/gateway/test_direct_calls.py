"""Calls of tools from within the gateway, as REST, models and speech make them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead_gateway.calls.path.direct import DirectCall, Origin
from gatewayworld import catalog, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_modern, tool


async def test_a_call_that_is_cancelled_ends_so_and_is_told_to_its_server(tmp_path: Path) -> None:
    """It has no refusal as its result, with which its caller would go on."""
    arrived, left = asyncio.Event(), asyncio.Event()

    async def hang(request: Request, reply: Reply) -> None:
        if request.method != "tools/call":
            return answer_modern(request, reply, [tool("add")])
        arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async with raw_server(hang) as server, running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        caller, view = gateway.rest.services.caller, gateway.endpoint.selection.targets[b"/mcp"]
        calling = asyncio.create_task(caller.call(Origin(), view, DirectCall("demo__add", b"{}")))
        await arrived.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await left.wait()
