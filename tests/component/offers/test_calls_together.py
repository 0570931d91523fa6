"""Calls of one message run at the same time, without a task for each: what ends one of them, and what ends all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fairlead_app.gateway import Gateway
from fairlead_formats.messages.call import ModelCall
from fairlead_gateway.calls.path.direct import Origin
from fairlead_gateway.core.identity import ANONYMOUS
from fairlead_offers.run.planned_calls import CallOutcome, PlannedCall, PlannedCalls
from fairlead_offers.run.requested_calls import planned_calls, result_for, run_calls
from gatewayworld import catalog, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_modern, tool

ADD, MISSING = "demo__add", "demo__missing"


class Answers:
    """A server that answers a call when it may, and notes which calls have ended."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[int] = asyncio.Queue()
        self.left: asyncio.Queue[int] = asyncio.Queue()
        self.may_end = asyncio.Event()

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.method == "tools/call":
            number = request.message["params"]["arguments"]["n"]
            self.arrived.put_nowait(number)
            try:
                await self.may_end.wait()
            finally:
                self.left.put_nowait(number)
        answer_modern(request, reply, [tool("add")])


@asynccontextmanager
async def gateway_over(folder: Path, answers: Answers) -> AsyncIterator[Gateway]:
    async with raw_server(answers) as server, running(folder, catalog("demo", server.url, ["add"])) as gateway:
        yield gateway


def run(gateway: Gateway, names: list[str], at_once: int) -> asyncio.Task[list[CallOutcome]]:
    """Start calls of tools with these names, whose arguments are their positions."""
    services = gateway.rest.services
    subject = services.catalogs.seen_by(ANONYMOUS)
    visible = services.catalogs.visible_tools(subject, None)
    calls = [ModelCall(f"call_{n}", name, {"n": n}) for n, name in enumerate(names)]
    planned: PlannedCalls = planned_calls(subject, visible, "openai", calls)
    held_responses = services.caller.hold_responses(Origin())
    return asyncio.ensure_future(run_calls(services, Origin(), planned, held_responses, at_once=at_once))


@pytest.mark.parametrize("at_once", [3, 2])
async def test_cancelling_the_run_cancels_every_call(tmp_path: Path, at_once: int) -> None:
    answers = Answers()
    async with gateway_over(tmp_path, answers) as gateway:
        running_calls = run(gateway, [ADD] * 3, at_once)
        arrived = {await answers.arrived.get() for _ in range(at_once)}
        running_calls.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_calls
        assert {await answers.left.get() for _ in range(at_once)} == arrived


@pytest.mark.parametrize("at_once", [3, 2])
async def test_outcomes_have_the_order_of_the_calls_and_unknown_tools_are_among_them(
    tmp_path: Path, at_once: int
) -> None:
    answers = Answers()
    async with gateway_over(tmp_path, answers) as gateway:
        running_calls = run(gateway, [ADD, MISSING, ADD], at_once)
        await answers.arrived.get()
        answers.may_end.set()
        first, missing, last = await running_calls
    assert missing.result is None
    for number, outcome in ((0, first), (2, last)):
        assert outcome.result is not None
        assert json.loads(outcome.result)["content"][0]["text"] == f'{{"n":{number}}}'
        assert outcome.seconds > 0


def test_a_result_that_is_nested_too_deeply_to_be_read_becomes_a_refusal() -> None:
    deep = b'{"content":[],"structuredContent":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    result = result_for(PlannedCall(ModelCall("1", ADD, {}), None), CallOutcome(deep))
    assert result is not None
    assert result["isError"]
    assert "nested too deeply" in result["content"][0]["text"]
