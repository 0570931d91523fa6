"""All bad servers of the table at once, next to healthy ones, on a real API server and through a gateway."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest

from badservers import TABLE, lists
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.reasons import EXPLANATIONS
from fairlead_app.gateway import Gateway
from gatewayworld import Wire, calling
from operatorworld import World, running
from rawserver import RawServer, raw_server
from shownconditions import cause
from togetherworld import serving, shows
from toolservers import SDK_TOOLS, legacy_server, sdk_server, tool
from waiting import eventually, until_async

HEALTHY = ("healthy-legacy", "healthy-modern", "healthy-sdk")


async def _start(stack: AsyncExitStack) -> tuple[dict[str, str], RawServer]:
    """Start all servers. Returns their URLs by name, and the server that closes connections after each answer."""
    bad = {name: await stack.enter_async_context(raw_server(bad.handler)) for name, bad in TABLE.items()}
    urls = {name: server.url for name, server in bad.items()}
    urls["healthy-modern"] = (await stack.enter_async_context(raw_server(lists()))).url
    urls["healthy-legacy"] = (await stack.enter_async_context(legacy_server([tool("good")]))).url
    urls["healthy-sdk"] = await stack.enter_async_context(sdk_server())
    return urls, bad["closes-after-each"]


def _conditions(world: World) -> dict[str, dict[str, Any]]:
    _, listing = world.request("GET", f"/apis/fairlead.dev/v1alpha1/namespaces/{world.namespace}/mcpservers")
    return {
        item["metadata"]["name"]: {c["type"]: c for c in item.get("status", {}).get("conditions", ())}
        for item in listing["items"]
    }


def _failures(conditions: dict[str, dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {name: (c["Ready"]["status"], cause(c["Ready"])) for name, c in conditions.items() if "Ready" in c}


@pytest.mark.timeout(240)
async def test_every_bad_server_ends_in_a_reason_of_its_own_and_harms_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fairlead_operator")
    async with AsyncExitStack() as stack:
        urls, closing = await _start(stack)
        async with running(world, discovery_timeout=8.0, lease_seconds=30.0), serving(world) as gateway:
            for name in HEALTHY:
                world.create(name, {"url": urls[name]})
            await world.until(
                "healthy", lambda: _failures(_conditions(world)) == dict.fromkeys(HEALTHY, GOOD), seconds=30
            )
            before = {name: _conditions(world)[name] for name in HEALTHY}
            for name in TABLE:
                await asyncio.to_thread(world.create, name, {"url": urls[name]})
            wanted = {name: (bad.ready, bad.reason) for name, bad in TABLE.items()} | dict.fromkeys(HEALTHY, GOOD)
            await world.until("a reason each", lambda: _failures(_conditions(world)) == wanted, seconds=90)
            after = _conditions(world)
            assert {name: after[name] for name in HEALTHY} == before
            _say_what_to_do(after)
            _are_logged(world, caplog)
            _are_counted(world)
            await until_async("the lists", shows(gateway, *_offered_names()), seconds=30)
            await _answer_calls(gateway, closing)


GOOD = ("True", "Verified")


def _say_what_to_do(conditions: dict[str, dict[str, Any]]) -> None:
    for name, bad in TABLE.items():
        message = conditions[name]["Verified"]["message"]
        assert message.endswith(EXPLANATIONS[Cause(bad.reason)].remedy), name
        assert message.isprintable(), name


def _are_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lines = [record.getMessage() for record in caplog.records]
    for name, bad in TABLE.items():
        if bad.reason not in ("Verified", "VerifiedInPart"):
            assert any(f"{world.namespace}/{name}: " in line and f": {bad.reason}: " in line for line in lines), name


def _are_counted(world: World) -> None:
    for name, bad in TABLE.items():
        status = world.server(name)["status"]
        assert status.get("tools", 0) == len(bad.offered), name
    assert world.server("all-of-it")["status"]["toolsLeftOut"] == 3
    assert "toolsLeftOut" not in world.server("slashes")["status"]


def _offered_names() -> list[str]:
    names = [f"{name}__{offered}" for name, bad in TABLE.items() for offered in bad.offered]
    return sorted(
        [*names, "healthy-legacy__good", "healthy-modern__good", *(f"healthy-sdk__{name}" for name in SDK_TOOLS)]
    )


async def _answer_calls(gateway: Gateway, closing: RawServer) -> None:
    """Call each server twice, so that a second answer to the first call would disturb the second call."""
    async with await Wire.connect(gateway) as wire:
        for server, offered in [(name, bad.offered[:3]) for name, bad in TABLE.items() for _ in range(2)]:
            for name in offered:
                answer = await wire.ask(calling(f"{server}__{name}").with_headers(mcp_name=f"{server}__{name}"))
                content = answer.message["result"]["content"]
                assert content == [{"type": "text", "text": name}], (server, name)
                await eventually(lambda: len(closing.open) <= 1)  # the operator has one idle connection
        for server in HEALTHY[:2]:
            result = (await wire.ask(calling(f"{server}__good"))).message["result"]
            assert result["isError"] is False
