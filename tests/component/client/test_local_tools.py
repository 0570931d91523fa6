"""Tools of this process in a registry: results of calls, and precedence over servers' tools."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fairlead_client import (
    AsyncToolRegistry,
    CustomTool,
    ExecutionError,
    InvalidArguments,
    Retry,
    Server,
    ToolFailed,
    ToolRegistry,
    UnknownFunction,
    tool,
)
from fairlead_tools.handlers.problems import BadTool
from rawserver import RawServer
from toolservers import modern_server
from toolservers import tool as raw_tool


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="greet")
async def greet_async(name: str) -> str:
    """Say hello."""
    return f"Hello {name}"


def bare(server: RawServer) -> Server:
    return Server(name="s", url=server.url, prefix="")


async def test_functions_and_coroutine_functions_are_tools_with_a_schema_from_their_hints() -> None:
    async with AsyncToolRegistry(local_tools=[add, greet_async]) as registry:
        assert [(each.name, each.server, each.id, each.local) for each in registry.tools] == [
            ("add", "local", "mcp.local.add", True),
            ("greet", "local", "mcp.local.greet", True),
        ]
        assert registry.tools[0].description == "Add two numbers."
        assert registry.tools[0].input_schema["required"] == ["a"]
        assert (await registry.execute("add", {"a": 1})).text == "2"
        assert (await registry.execute("mcp.local.greet", {"name": "Ada"})).value == "Hello Ada"
        offered = await registry.get_openai_tools()
        assert [definition["function"]["name"] for definition in offered] == ["add", "greet"]


async def test_a_function_without_the_decorator_and_one_with_a_schema_of_its_own_can_be_added_later() -> None:
    def itself(given: dict[str, Any]) -> dict[str, Any]:
        return given

    def twice(text: str) -> str:
        return text * 2

    async with AsyncToolRegistry() as registry:
        registry.add_tool(twice)
        registry.add_tool(CustomTool(name="raw", handler=itself, input_schema={"type": "object"}))
        assert [each.name for each in registry.tools] == ["raw", "twice"]
        assert (await registry.execute("raw", {"x": [1]})).value == {"x": [1]}
        with pytest.raises(BadTool, match="another tool has this name"):
            registry.add_tool(twice)


async def test_a_local_tool_shadows_one_of_a_server_and_no_call_falls_through_when_it_fails() -> None:
    @tool(name="both")
    def fails() -> str:
        raise LookupError("not here")

    async with (
        modern_server([raw_tool("both"), raw_tool("other")]) as server,
        AsyncToolRegistry([bare(server)], [fails]) as registry,
    ):
        assert [(each.name, each.local) for each in await registry.get_all_tools()] == [
            ("both", True),
            ("other", False),
        ]
        outcome = await registry.execute("both", retry=Retry(attempts=3, first=0))
        assert isinstance(outcome.error, ExecutionError)
        assert (str(outcome.error), outcome.attempts) == ("LookupError: not here", 1)
        assert "tools/call" not in server.methods()


async def test_a_local_tool_is_called_without_any_connection() -> None:
    async with (
        modern_server([raw_tool("a")]) as server,
        AsyncToolRegistry([bare(server)], [add], initialize_on_startup=False) as registry,
    ):
        assert (await registry.execute("add", {"a": 1})).ok
        assert server.opened == 0


async def test_an_exception_of_a_handler_is_the_cause_of_the_error() -> None:
    raised = KeyError("k")

    def broken() -> None:
        raise raised

    async def broken_async() -> None:
        raise raised

    async with AsyncToolRegistry(local_tools=[broken, broken_async]) as registry:
        for name in ("broken", "broken_async"):
            outcome = await registry.execute(name)
            assert isinstance(outcome.error, ExecutionError)
            assert outcome.error.cause is raised
            assert (outcome.error.retryable, outcome.attempts) == (False, 1)


async def test_an_error_of_the_system_is_tried_again_and_another_is_not() -> None:
    left = [ConnectionResetError("reset"), TimeoutError("late"), FileNotFoundError("gone")]

    def flaky() -> str:
        if left:
            raise left.pop()
        return "there"

    async with AsyncToolRegistry(local_tools=[flaky]) as registry:
        first = await registry.execute("flaky")
        assert isinstance(first.error, ExecutionError)
        assert (first.error.retryable, first.attempts) == (True, 1)
        again = await registry.execute("flaky", retry=Retry(attempts=5, first=0))
        assert (again.text, again.attempts) == ("there", 3)


async def test_an_error_that_the_tool_itself_makes_comes_unchanged() -> None:
    own = UnknownFunction("inner")

    def asks_another() -> None:
        raise own

    def reports() -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "no"}], "isError": True}

    async with AsyncToolRegistry(local_tools=[asks_another, reports]) as registry:
        assert (await registry.execute("asks_another")).error is own
        reported = await registry.execute("reports")
        assert isinstance(reported.error, ToolFailed)
        assert reported.result == {"content": [{"type": "text", "text": "no"}], "isError": True}


async def test_a_result_that_is_not_json_is_an_execution_error() -> None:
    def odd() -> object:
        return threading.Lock()

    async with AsyncToolRegistry(local_tools=[odd]) as registry:
        assert isinstance((await registry.execute("odd")).error, ExecutionError)


async def test_arguments_that_do_not_fit_are_told_with_their_place_and_nothing_runs() -> None:
    ran: list[int] = []

    def takes(count: int) -> None:
        ran.append(count)

    async with AsyncToolRegistry(local_tools=[takes]) as registry:
        for given in ({"count": "many"}, {}, {"count": 1, "more": 2}):
            outcome = await registry.execute("takes", given)
            assert isinstance(outcome.error, InvalidArguments), given
            assert outcome.error.problems
        assert "count" in str((await registry.execute("takes", {"count": "many"})).error)
    assert ran == []


async def test_the_arguments_of_a_servers_tool_are_checked_against_its_own_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    async with (
        modern_server([raw_tool("a", inputSchema=schema)]) as server,
        AsyncToolRegistry([bare(server)]) as registry,
    ):
        outcome = await registry.execute("a", {"n": 0})
        assert isinstance(outcome.error, InvalidArguments)
        assert "n" in outcome.error.problems[0]
        assert "tools/call" not in server.methods()
        assert (await registry.execute("a", {"n": 1})).ok


async def test_structured_content_that_does_not_fit_is_returned_with_a_warning() -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    result = {"content": [], "structuredContent": {"n": "many"}}
    async with (
        modern_server([raw_tool("a", outputSchema=output)], call=lambda request: result) as server,
        AsyncToolRegistry([bare(server)]) as registry,
    ):
        outcome = await registry.execute("a")
    assert (outcome.ok, outcome.value) == (True, {"n": "many"})
    assert outcome.warning is not None
    assert "n" in outcome.warning


async def test_a_handler_that_takes_too_long_is_given_up_after_the_shorter_of_both_times() -> None:
    @tool(max_duration_ms=50)
    async def slow() -> None:
        await asyncio.Event().wait()

    @tool
    async def slower() -> None:
        await asyncio.Event().wait()

    async with AsyncToolRegistry(local_tools=[slow, slower]) as registry:
        for name, timeout in (("slow", 30.0), ("slower", 0.05)):
            outcome = await registry.execute(name, timeout=timeout)
            assert outcome.error is not None
            assert outcome.error.code == "TIMEOUT"


async def test_closing_all_connections_leaves_local_tools_alone() -> None:
    async with modern_server([raw_tool("a")]) as server, AsyncToolRegistry([bare(server)], [add]) as registry:
        await registry.close_mcp_clients()
        registry.clear_cache()
        assert [each.name for each in registry.tools] == ["add"]
        assert (await registry.execute("add", {"a": 1})).ok


async def test_closing_the_registry_ends_a_running_handler_with_an_error() -> None:
    began = asyncio.Event()

    async def hangs() -> None:
        began.set()
        await asyncio.Event().wait()

    registry = AsyncToolRegistry(local_tools=[hangs])
    call = asyncio.create_task(registry.execute("hangs"))
    await asyncio.wait_for(began.wait(), 20)
    await registry.close()
    outcome = await asyncio.wait_for(call, 20)
    assert isinstance(outcome.error, ExecutionError)


def test_a_blocking_handler_may_use_the_registry_that_runs_it() -> None:
    def outer() -> str:
        return registry.execute("add", {"a": 2}).text

    with ToolRegistry(local_tools=[add, outer]) as registry:
        assert registry.execute("outer").text == "3"
        registry.add_tool(CustomTool(name="late", handler=lambda: "late"))
        assert registry.execute("late").text == "late"


def test_closing_while_another_thread_waits_answers_that_thread() -> None:
    began = threading.Event()
    go = threading.Event()
    outcomes: list[Any] = []

    def hangs() -> None:
        began.set()
        go.wait(20)

    registry = ToolRegistry(local_tools=[hangs])
    user = threading.Thread(target=lambda: outcomes.append(registry.execute("hangs")))
    user.start()
    assert began.wait(20)
    registry.close()
    user.join(20)
    go.set()
    assert isinstance(outcomes[0].error, ExecutionError)
