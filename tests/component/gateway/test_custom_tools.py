"""Custom tools through a whole gateway: listed, called, shadowing, refused, and never in the way of each other."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from fairlead_gateway import Context, CustomTools, tool
from fairlead_gateway.app import Gateway, build
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.settings import Settings
from gatewayworld import LEGACY, MODERN, Wire, ask, calling, catalog, modern, running
from restworld import MESSAGES, get, post
from toolservers import modern_server
from toolservers import tool as served_tool

LOCAL = "/servers/fairlead-system/local/mcp"


def lookup_user() -> CustomTools:
    """The example of the documentation: an asynchronous handler that answers in MCP's own form."""
    users = {"ada@example.com": {"id": 7, "name": "Ada"}}

    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        user = users[arguments["email"]]
        return {"content": [{"type": "text", "text": f"{user['id']} {user['name']}"}]}

    tools = CustomTools()
    tools.register(
        name="lookup_user",
        description="Look up a user by email address",
        input_schema={
            "type": "object",
            "properties": {"email": {"type": "string", "description": "The user's email address"}},
            "required": ["email"],
        },
        handler=handler,
    )
    return tools


def of(*handlers: Any) -> CustomTools:
    tools = CustomTools()
    for handler in handlers:
        tools.add(handler)
    return tools


def text(answer: Any) -> str:
    return str(answer.message["result"]["content"][0]["text"])


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_custom_tool_is_called_like_any_other_in_both_eras(tmp_path: Path, era: str) -> None:
    async with running(tmp_path, custom=lookup_user()) as gateway:
        answer = await ask(gateway, calling("lookup_user", {"email": "ada@example.com"}, era=era))
        assert answer.message["result"]["content"] == [{"type": "text", "text": "7 Ada"}]
        assert "isError" not in answer.message["result"]


async def test_a_custom_tool_is_listed_under_its_own_name_on_the_merged_endpoint_and_on_that_of_local(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, custom=lookup_user()) as gateway:
        for target in ("/mcp", LOCAL):
            listing = await ask(gateway, modern("tools/list").to(target))
            (listed,) = listing.message["result"]["tools"]
            assert listed["name"] == "lookup_user"
            assert listed["inputSchema"]["required"] == ["email"]
        alone = calling("lookup_user", {"email": "ada@example.com"}).to(LOCAL)
        assert text(await ask(gateway, alone)) == "7 Ada"


async def test_a_custom_tool_shadows_the_tool_of_a_server_that_is_shown_under_its_name(tmp_path: Path) -> None:
    @tool(name="demo__add")
    def ours() -> str:
        return "ours"

    async with (
        modern_server([served_tool("add"), served_tool("subtract")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add", "subtract"]), custom=of(ours)) as gateway,
    ):
        listing = await ask(gateway, modern("tools/list"))
        assert [one["name"] for one in listing.message["result"]["tools"]] == ["demo__add", "demo__subtract"]
        assert text(await ask(gateway, calling("demo__add"))) == "ours"
        alone = await ask(gateway, calling("add").to("/servers/default/demo/mcp"))
        assert text(alone) != "ours"


async def test_a_custom_tool_that_fails_does_not_fall_through_to_the_tool_that_it_shadows(tmp_path: Path) -> None:
    @tool(name="demo__add")
    def ours() -> str:
        raise ConnectionRefusedError("Connection refused")

    async with (
        modern_server([served_tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), custom=of(ours)) as gateway,
    ):
        result = (await ask(gateway, calling("demo__add"))).message["result"]
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": "Connection refused"}]
        assert not [request for request in server.seen if request.method == "tools/call"]


async def test_a_handler_that_blocks_holds_up_nobody_else(tmp_path: Path) -> None:
    begun, released = threading.Event(), threading.Event()

    @tool
    def blocking() -> str:
        begun.set()
        released.wait(30)
        return "at last"

    @tool
    async def quick() -> str:
        return "here"

    async with running(tmp_path, custom=of(blocking, quick)) as gateway:
        slow = asyncio.create_task(ask(gateway, calling("blocking")))
        await asyncio.to_thread(begun.wait, 20)
        assert text(await ask(gateway, calling("quick"))) == "here"
        assert not slow.done()
        released.set()
        assert text(await slow) == "at last"


async def test_a_handler_that_takes_longer_than_its_tool_may_is_told_as_a_timeout(tmp_path: Path) -> None:
    ended = asyncio.Event()

    @tool(max_duration_ms=50)
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(tmp_path, custom=of(endless)) as gateway:
        assert (await ask(gateway, calling("endless"))).refusal == "TIMEOUT"
        await asyncio.wait_for(ended.wait(), 20)


async def test_a_handler_in_a_thread_learns_that_its_call_was_given_up(tmp_path: Path) -> None:
    learned = threading.Event()

    @tool(max_duration_ms=50)
    def patient(context: Context) -> None:
        if context.wait_cancelled(30):
            learned.set()

    async with running(tmp_path, custom=of(patient)) as gateway:
        assert (await ask(gateway, calling("patient"))).refusal == "TIMEOUT"
        assert await asyncio.to_thread(learned.wait, 20)


async def test_a_client_that_hangs_up_cancels_an_asynchronous_handler(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(tmp_path, custom=of(endless)) as gateway:
        wire = await Wire.connect(gateway)
        wire.send(calling("endless"))
        await asyncio.wait_for(begun.wait(), 20)
        wire.close()
        await asyncio.wait_for(ended.wait(), 20)


async def test_no_more_handlers_run_at_once_than_allowed_also_after_their_calls_have_ended(tmp_path: Path) -> None:
    released = threading.Event()

    @tool(max_duration_ms=50)
    def stuck() -> None:
        released.wait(30)

    async with running(tmp_path, custom=of(stuck), upstream_connections=2) as gateway:
        try:
            for _ in range(2):
                assert (await ask(gateway, calling("stuck"))).refusal == "TIMEOUT"
            assert (await ask(gateway, calling("stuck"))).refusal == "RATE_LIMITED"
        finally:
            released.set()


async def test_progress_of_a_handler_in_a_thread_reaches_a_client_that_asked_for_it(tmp_path: Path) -> None:
    @tool
    def walking(steps: int, context: Context) -> str:
        for step in range(steps):
            context.progress(step + 1, steps, "walking")
        return "there"

    async with running(tmp_path, custom=of(walking)) as gateway:
        answer = await ask(gateway, calling("walking", {"steps": 2}, progressToken="mine"))
        *progress, result = answer.events
        assert [one["params"] for one in progress] == [
            {"progressToken": "mine", "progress": step, "total": 2, "message": "walking"} for step in (1, 2)
        ]
        assert result["result"]["content"][0]["text"] == "there"


async def test_log_messages_of_a_handler_reach_a_client_that_asked_for_their_level(tmp_path: Path) -> None:
    @tool
    async def talking(context: Context) -> str:
        context.log("debug", "unheard")
        context.log("warning", {"heard": True})
        return "said"

    async with running(tmp_path, custom=of(talking)) as gateway:
        call = calling("talking", {}, **{"io.modelcontextprotocol/logLevel": "info"})
        *said, _ = (await ask(gateway, call)).events
        assert [one["params"] for one in said] == [{"level": "warning", "logger": "talking", "data": {"heard": True}}]


async def test_arguments_that_a_handler_does_not_take_are_refused_before_it_is_called(tmp_path: Path) -> None:
    called = False

    @tool
    def add(left: int, right: int = 0) -> int:
        nonlocal called
        called = True
        return left + right

    async with running(tmp_path, custom=of(add)) as gateway:
        assert (await ask(gateway, calling("add", {"left": "x"}))).refusal == "INVALID_ARGUMENTS"
        assert (await ask(gateway, calling("add", {"left": 1, "middle": 2}))).refusal == "INVALID_ARGUMENTS"
        assert not called
        assert text(await ask(gateway, calling("add", {"left": 1}))) == "1"


async def test_a_result_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    @tool
    def large() -> str:
        return "x" * 5000

    async with running(tmp_path, custom=of(large), max_result_bytes=4000) as gateway:
        assert (await ask(gateway, calling("large"))).refusal == "RESULT_TOO_LARGE"


async def test_a_handler_that_exits_ends_its_call_and_not_the_gateway(tmp_path: Path) -> None:
    @tool
    async def leaving() -> None:
        raise SystemExit(3)

    @tool
    def leaving_too() -> None:
        raise SystemExit(3)

    async with running(tmp_path, custom=of(leaving, leaving_too)) as gateway:
        for name in ("leaving", "leaving_too"):
            assert (await ask(gateway, calling(name))).message["result"]["isError"] is True


async def test_a_handler_that_cancels_itself_has_failed(tmp_path: Path) -> None:
    @tool
    async def cancelling() -> None:
        raise asyncio.CancelledError

    async with running(tmp_path, custom=of(cancelling)) as gateway:
        assert text(await ask(gateway, calling("cancelling"))) == "the tool canceled itself"


async def test_a_handler_that_ignores_its_cancellation_keeps_nobody_waiting(tmp_path: Path) -> None:
    released = asyncio.Event()

    @tool(max_duration_ms=50)
    async def stubborn() -> None:
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    async with running(tmp_path, custom=of(stubborn)) as gateway:
        try:
            assert (await ask(gateway, calling("stubborn"))).refusal == "TIMEOUT"
        finally:
            released.set()


async def test_a_function_that_returns_something_to_await_is_awaited(tmp_path: Path) -> None:
    async def later(number: int) -> int:
        return number + 1

    @tool
    def indirect(number: int) -> Any:
        return later(number)

    async with running(tmp_path, custom=of(indirect)) as gateway:
        assert text(await ask(gateway, calling("indirect", {"number": 1}))) == "2"


async def test_custom_tools_are_in_rest_with_their_tags_and_in_the_metrics_under_local(tmp_path: Path) -> None:
    @tool(tags=("crm",), meta={"owner": "sales"}, annotations={"readOnlyHint": True})
    def lookup(email: str) -> str:
        return email

    async with running(tmp_path, custom=of(lookup)) as gateway:
        offered = (await get(gateway, "/v1/tools?format=anthropic&tags=crm")).message
        assert [one["name"] for one in offered["tools"]] == ["lookup"]
        shown = (await get(gateway, "/v1/tools/mcp.local.lookup")).message
        assert shown["server"] == "fairlead-system/local"
        assert shown["definition"]["annotations"] == {"readOnlyHint": True}
        assert shown["definition"]["_meta"] == {"owner": "sales"}
        calls = {"format": "anthropic", "message": MESSAGES["anthropic"]([("1", "lookup", {"email": "a@b"})])}
        (outcome,) = (await post(gateway, "/v1/tool-calls", calls)).message["calls"]
        assert outcome["state"] == "done"
        metrics = await _metrics(gateway)
        assert any('gen_ai_tool_name="lookup"' in line and "fairlead-system/local" in line for line in metrics)


async def test_a_server_declared_under_the_name_of_the_custom_tools_is_told_and_not_served(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/mcp"
    intruder = catalog("local", url, ["lookup_user", "other"], namespace="fairlead-system")
    async with running(tmp_path, intruder, custom=lookup_user()) as gateway:
        listing = await ask(gateway, modern("tools/list"))
        assert [one["name"] for one in listing.message["result"]["tools"]] == ["lookup_user"]
        (why,) = gateway.keeper.broken.values()
        assert "rename the server" in why


async def test_custom_tools_are_never_kept_in_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    async with running(tmp_path, custom=lookup_user(), cache_dir=cache) as gateway:
        assert "lookup_user" in gateway.snapshot.merged
    async with running(tmp_path, cache_dir=cache) as gateway:
        assert "lookup_user" not in gateway.snapshot.merged


async def test_custom_tools_are_served_while_the_source_of_the_documents_is_away_from_the_start(
    tmp_path: Path,
) -> None:
    gateway = build(
        Settings(port=0, metrics_port=0),
        source=DirectorySource(tmp_path / "not" / "there"),
        credentials=DirectoryCredentials(tmp_path),
        custom=lookup_user(),
    )
    await gateway.start()
    try:
        await asyncio.wait_for(gateway.keeper.first_snapshot.wait(), 20)
        assert text(await ask(gateway, calling("lookup_user", {"email": "ada@example.com"}))) == "7 Ada"
        assert gateway.readiness().stale
    finally:
        await gateway.stop(0.5)


async def _metrics(gateway: Gateway) -> list[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    async with asyncio.timeout(20):
        body = await reader.read()
    writer.close()
    return body.decode().splitlines()
