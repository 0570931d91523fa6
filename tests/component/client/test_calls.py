"""Calls through a registry of real servers: outcomes, errors, timeouts, retries, strategies, messages."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pydantic
import pytest

from fairlead_client import (
    AsyncToolRegistry,
    ExecutionError,
    InvalidArguments,
    Outcome,
    Request,
    Retry,
    Server,
    ToolFailed,
    UnknownFunction,
    parallel_with_limit,
)
from fairlead_formats.messages.call import InvalidCall, ModelCall
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, Timeout
from ports import free_port
from rawserver import RawServer, Reply, raw_server
from rawserver import Request as Raw
from toolservers import LEGACY_STDIO, answer_modern, legacy_server, modern_server, sdk_server, tool

IDEMPOTENT = {"annotations": {"idempotentHint": True}}


def of(server: RawServer, **more: Any) -> Server:
    return Server(name="s", url=server.url, **more)


async def test_a_call_returns_what_the_tool_returned() -> None:
    async with sdk_server() as url, AsyncToolRegistry([Server(name="demo", url=url)]) as registry:
        added = await registry.execute("demo__add", {"a": 1, "b": 2})
        assert (added.ok, added.tool, added.value, added.text, added.attempts) == (
            True,
            "demo__add",
            {"result": 3},
            "3",
            1,
        )
        assert added.unwrap() == {"result": 3}
        assert (await registry.execute("demo__big", '{"n": 3}')).text == "xxx"
        assert (await registry.execute(ModelCall("1", "demo__big", {"n": 2}))).text == "xx"


async def test_an_unknown_name_is_an_error_with_the_nearest_name_that_is_there() -> None:
    async with modern_server([tool("get_weather")]) as server, AsyncToolRegistry([of(server)]) as registry:
        outcome = await registry.execute("s__getweather")
        assert isinstance(outcome.error, UnknownFunction)
        assert (outcome.error.did_you_mean, outcome.error.code) == ("s__get_weather", "UNKNOWN_TOOL")
        assert not outcome.error.retryable
        far = await registry.execute("quite_another")
        assert isinstance(far.error, UnknownFunction)
        assert far.error.did_you_mean is None
        with pytest.raises(UnknownFunction, match="Did you mean s__get_weather"):
            outcome.unwrap()


async def test_the_tools_own_error_comes_unchanged() -> None:
    result = {"content": [{"type": "text", "text": "no such city"}], "isError": True, "x-own": [1]}
    async with (
        legacy_server([tool("a")], call=lambda request: result) as server,
        AsyncToolRegistry([of(server)]) as registry,
    ):
        outcome = await registry.execute("s__a", retry=Retry())
    assert isinstance(outcome.error, ToolFailed)
    assert outcome.error.result == outcome.result == result
    assert (str(outcome.error), outcome.value, outcome.attempts) == ("no such city", None, 1)
    assert outcome.as_result() == result


async def test_arguments_that_cannot_be_read_are_an_error_and_nothing_is_called() -> None:
    async with modern_server([tool("a")]) as server, AsyncToolRegistry([of(server)]) as registry:
        for given in ("{", "[1]", {"a": float("nan")}, {"a": object()}):
            outcome = await registry.execute("s__a", given)
            assert isinstance(outcome.error, InvalidArguments), given
        invalid = await registry.execute(ModelCall("1", "s__a", InvalidCall("the arguments are cut off")))
        assert str(invalid.error) == "the arguments are cut off"
        assert "tools/call" not in server.methods()


async def test_nulls_of_strict_mode_are_taken_out_before_the_call() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}
    weather = tool("weather", inputSchema=schema | {"required": ["city"]})
    async with modern_server([weather]) as server, AsyncToolRegistry([of(server)]) as registry:
        outcome = await registry.execute("s__weather", {"city": "Kiel", "unit": None})
        assert outcome.text == '{"city":"Kiel"}'


async def test_a_tool_of_a_server_that_went_away_is_an_execution_error_with_its_cause() -> None:
    async with modern_server([tool("a")]) as server:
        registry = AsyncToolRegistry([of(server)])
        await registry.start()
    outcome = await registry.execute("s__a")
    assert isinstance(outcome.error, ExecutionError)
    assert isinstance(outcome.error.cause, ConnectFailed)
    assert (outcome.error.code, outcome.error.retryable) == ("CONNECTION_LOST", True)
    assert await registry.get_all_tools() == ()
    assert isinstance((await registry.execute("s__a")).error, ExecutionError)  # a known server that cannot be reached
    await registry.close()


async def test_a_process_that_dies_under_a_call_is_not_called_twice_unless_the_caller_says_so() -> None:
    async with AsyncToolRegistry([Server(name="s", command=[sys.executable, LEGACY_STDIO])]) as registry:
        once = await registry.execute("s__die", retry=Retry(attempts=3, first=0))
        assert isinstance(once.error, ExecutionError)
        assert isinstance(once.error.cause, ConnectionLost)
        assert (once.attempts, once.error.retryable) == (1, False)
        thrice = await registry.execute("s__die", retry=Retry(attempts=3, first=0, repeatable=True))
        assert (thrice.attempts, thrice.error is not None and thrice.error.retryable) == (3, True)
        assert (await registry.execute("s__echo", {"x": 1})).text == '{"x": 1}'


@pytest.mark.parametrize(
    ("hints", "trusted", "attempts"),
    [
        (IDEMPOTENT, True, 2),
        (IDEMPOTENT, None, 1),
        ({"_meta": {"idempotent": True}}, True, 2),
        ({"_meta": {"idempotent": True}}, None, 1),
        ({}, True, 1),
    ],
)
async def test_a_call_that_was_lost_is_made_again_where_the_tool_is_trusted_to_be_idempotent(
    hints: dict[str, Any], trusted: bool | None, attempts: int
) -> None:
    lost: list[str] = []

    async def handle(request: Raw, reply: Reply) -> None:
        if request.method == "tools/call" and not lost:
            lost.append(request.method)
            reply.close()
        else:
            answer_modern(request, reply, [tool("a", **hints)])

    async with raw_server(handle) as server, AsyncToolRegistry([of(server, trust_annotations=trusted)]) as registry:
        outcome = await registry.execute("s__a", retry=Retry(attempts=3, first=0))
    assert (outcome.attempts, outcome.ok) == (attempts, attempts == 2)


async def test_a_refusal_for_now_is_tried_again_after_the_time_that_the_server_asks_for() -> None:
    refusals = [("429", "0"), ("503", "0"), ("429", "3600")]

    async def handle(request: Raw, reply: Reply) -> None:
        if request.method == "tools/call" and refusals:
            status, after = refusals.pop(0)
            reply.send(int(status), b"later", kind="text/plain", retry_after=after)
        else:
            answer_modern(request, reply, [tool("a")])

    async with raw_server(handle) as server, AsyncToolRegistry([of(server)]) as registry:
        outcome = await registry.execute("s__a", retry=Retry(attempts=9, first=0))
        assert outcome.attempts == 3  # an hour is longer than the registry waits
        assert outcome.error is not None
        assert (outcome.error.code, outcome.error.retry_after) == ("RATE_LIMITED", 3600)
        assert (await registry.execute("s__a", retry=Retry(attempts=9, first=0))).attempts == 1


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server() -> None:
    async def handle(request: Raw, reply: Reply) -> None:
        if request.method == "tools/call":
            await asyncio.Event().wait()
        answer_modern(request, reply, [tool("a")])

    async with raw_server(handle) as server, AsyncToolRegistry([of(server)]) as registry:
        outcome = await registry.execute("s__a", timeout=0.5)
        assert isinstance(outcome.error, ExecutionError)
        assert isinstance(outcome.error.cause, Timeout)
        assert (outcome.error.code, outcome.error.retryable, outcome.attempts) == ("TIMEOUT", False, 1)
        await asyncio.wait_for(server.broken_off.wait(), 20)


async def test_cancelling_the_caller_cancels_the_call_at_the_server_and_nothing_else() -> None:
    called = asyncio.Event()

    async def handle(request: Raw, reply: Reply) -> None:
        if request.method == "tools/call" and request.params["arguments"].get("hang"):
            called.set()
            await asyncio.Event().wait()
        answer_modern(request, reply, [tool("a")])

    async with raw_server(handle) as server, AsyncToolRegistry([of(server)]) as registry:
        call = asyncio.create_task(registry.execute("s__a", {"hang": True}))
        await asyncio.wait_for(called.wait(), 20)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(server.broken_off.wait(), 20)
        assert (await registry.execute("s__a")).ok


async def test_closing_the_registry_ends_a_running_call_with_an_error() -> None:
    called = asyncio.Event()

    async def handle(request: Raw, reply: Reply) -> None:
        if request.method == "tools/call":
            called.set()
            await asyncio.Event().wait()
        answer_modern(request, reply, [tool("a")])

    async with raw_server(handle) as server:
        registry = AsyncToolRegistry([of(server)])
        call = asyncio.create_task(registry.execute("s__a", retry=Retry(attempts=3, first=0, repeatable=True)))
        await asyncio.wait_for(called.wait(), 20)
        await registry.close()
        outcome = await asyncio.wait_for(call, 20)
        assert isinstance(outcome.error, ExecutionError)


@pytest.mark.parametrize(("strategy", "most"), [("sequential", 1), ("parallel", 4), (parallel_with_limit(2), 2)])
async def test_a_strategy_decides_how_many_calls_run_and_outcomes_come_in_the_order_of_the_requests(
    strategy: Any, most: int
) -> None:
    running: list[int] = []
    full = asyncio.Event()
    seen = 0

    async def handle(request: Raw, reply: Reply) -> None:
        nonlocal seen
        if request.method == "tools/call":
            running.append(1)
            seen = max(seen, len(running))
            if seen == most:
                full.set()
            await full.wait()
            await asyncio.sleep(0)
            running.pop()
        answer_modern(request, reply, [tool("a")])

    async with raw_server(handle) as server, AsyncToolRegistry([of(server)]) as registry:
        requests = [
            Request("s__a", {"n": 0}),
            Request("nothing"),
            Request("s__a", {"n": 2}),
            Request("s__a", {"n": 3}),
            Request("s__a", {"n": 4}),
        ]
        outcomes = await registry.execute_all(requests, strategy)
    assert [outcome.text for outcome in outcomes] == [
        '{"n":0}',
        "Unknown tool: nothing",
        '{"n":2}',
        '{"n":3}',
        '{"n":4}',
    ]
    assert seen == most


async def test_a_strategy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    async with AsyncToolRegistry() as registry:
        with pytest.raises(ValueError, match=r"use .sequential., .parallel. or parallel_with_limit"):
            await registry.execute_all([], "at random")  # type: ignore[arg-type]  # that is the point
        with pytest.raises(ValueError, match="at least 1"):
            parallel_with_limit(0)


async def test_a_request_may_bring_its_own_timeout_and_retry() -> None:
    calls: list[str] = []

    async def handle(request: Raw, reply: Reply) -> None:
        if request.method == "tools/call":
            calls.append(request.params["name"])
            await asyncio.Event().wait()
        answer_modern(request, reply, [tool("a"), tool("b")])

    async with raw_server(handle) as server, AsyncToolRegistry([of(server)]) as registry:
        retry = Retry(attempts=2, first=0, repeatable=True)
        await registry.execute_all([Request("s__a", timeout=0.5, retry=retry), Request("s__b")], timeout=0.7)
    assert sorted(calls) == ["a", "a", "b"]


async def test_a_models_message_is_answered_in_its_own_form() -> None:
    async with sdk_server() as url, AsyncToolRegistry([Server(name="demo", url=url)]) as registry:
        message = {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "t1", "name": "demo__add", "input": {"a": 1, "b": 2}},
                {"type": "tool_use", "id": "t2", "name": "mine", "input": {}},
            ],
        }
        answered = await registry.execute_message("Anthropic", message)
        blocks = answered.messages[0]["content"]
        assert [(block["tool_use_id"], block.get("is_error", False)) for block in blocks] == [
            ("t1", False),
            ("t2", True),
        ]
        assert answered.pending == ()
        left = await registry.execute_message("anthropic", message, leave_unknown=True)
        assert left.pending == ("t2",)
        assert isinstance(left.outcomes[0], Outcome)


async def test_a_model_reads_an_image_once_that_its_tool_tells_twice() -> None:
    image = {"type": "image", "data": "iVBORw0KGgoAAAANSUhEUgAA" * 4, "mimeType": "image/png"}
    result = {"content": [image], "structuredContent": {"result": image}}
    async with (
        modern_server([tool("draw")], call=lambda _: result) as server,
        AsyncToolRegistry([of(server)]) as registry,
    ):
        message = {"content": [{"type": "tool_use", "id": "t1", "name": "s__draw", "input": {}}]}
        answered = await registry.execute_message("anthropic", message)
        assert json.dumps(answered.messages).count(image["data"]) == 1
        assert answered.outcomes[0].value == {"result": image}


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("openai", {"tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "s__run", "input": "1 + 2"}}]}),
        ("responses", [{"type": "custom_tool_call", "call_id": "c1", "name": "s__run", "input": "1 + 2"}]),
    ],
)
async def test_a_freeform_call_is_left_to_the_caller(form: str, message: object) -> None:
    async with modern_server([tool("run")]) as server, AsyncToolRegistry([of(server)]) as registry:
        answered = await registry.execute_message(form, message)
        assert (answered.pending, answered.messages) == (("c1",), ())
        assert [request.method for request in server.seen if request.method == "tools/call"] == []


class ToolUse(pydantic.BaseModel):
    """A call as the SDKs of providers represent it: a pydantic model with unset members."""

    type: str = "tool_use"
    id: str
    name: str
    input: dict[str, Any]
    cache_control: None = None


class Message(pydantic.BaseModel):
    role: str = "assistant"
    content: list[ToolUse]


async def test_a_models_message_may_be_an_object_of_an_sdk_as_a_whole_or_in_parts() -> None:
    async with sdk_server() as url, AsyncToolRegistry([Server(name="demo", url=url)]) as registry:
        message = Message(content=[ToolUse(id="t1", name="demo__add", input={"a": 1, "b": 2})])
        for form in (message, message.content, {"role": "assistant", "content": message.content}):
            answered = await registry.execute_message("anthropic", form)
            assert answered.outcomes[0].value == {"result": 3}
            assert answered.messages[0]["content"][0]["tool_use_id"] == "t1"


async def test_a_name_means_what_it_meant_in_the_definitions_that_the_model_was_given() -> None:
    tools = [tool("a.b", description="meant")]

    async def handle(request: Raw, reply: Reply) -> None:
        answer_modern(request, reply, tools, call=lambda call: {"content": [], "structuredContent": call.params})

    async with raw_server(handle) as server, AsyncToolRegistry([of(server, prefix="")]) as registry:
        given = (await registry.get_openai_tools()).names
        tools.append(tool("a_b"))
        await registry.refresh_cache()
        message = {"tool_calls": [{"id": "1", "function": {"name": "a_b", "arguments": "{}"}}]}
        now = await registry.execute_message("openai", message)
        then = await registry.execute_message("openai", message, names=given)
        assert [done.outcomes[0].tool for done in (now, then)] == ["a_b", "a.b"]


async def test_a_server_that_asks_for_more_than_a_registry_can_give_is_an_execution_error() -> None:
    def asks(request: Raw) -> dict[str, Any]:
        return {"resultType": "input_required", "inputRequests": {}}

    async with modern_server([tool("a")], call=asks) as server, AsyncToolRegistry([of(server)]) as registry:
        outcome = await registry.execute("s__a")
    assert isinstance(outcome.error, ExecutionError)


async def test_many_calls_to_one_server_run_side_by_side() -> None:
    together = asyncio.Event()
    waiting = []

    async def handle(request: Raw, reply: Reply) -> None:
        if request.method == "tools/call":
            waiting.append(1)
            if len(waiting) == 20:
                together.set()
            await together.wait()
        answer_modern(request, reply, [tool("a")])

    async with raw_server(handle) as server, AsyncToolRegistry([of(server)]) as registry:
        outcomes = await registry.execute_all([Request("s__a")] * 20, timeout=20)
    assert all(outcome.ok for outcome in outcomes)


async def test_calls_beyond_the_number_of_connections_wait_their_turn() -> None:
    async with modern_server([tool("a")]) as server, AsyncToolRegistry([of(server)]) as registry:
        outcomes = await registry.execute_all([Request("s__a", {"n": number}) for number in range(1500)])
        assert [outcome.text for outcome in outcomes] == [f'{{"n":{number}}}' for number in range(1500)]
        assert server.opened <= 65


async def test_a_failed_connection_is_dropped_so_that_the_next_call_makes_a_new_one() -> None:
    port = free_port()

    async def handle(request: Raw, reply: Reply) -> None:
        answer_modern(request, reply, [tool("a")])

    lost: list[tuple[str, McpError | None]] = []
    async with raw_server(handle, port) as server:
        registry = AsyncToolRegistry([of(server)], on_disconnect=lambda name, error: lost.append((name, error)))
        await registry.start()
    assert not (await registry.execute("s__a")).ok
    async with raw_server(handle, port):
        assert (await registry.execute("s__a")).ok
        await registry.close()
    assert [name for name, error in lost if error is not None] == ["s"]
