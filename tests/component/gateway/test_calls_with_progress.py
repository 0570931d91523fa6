"""Progress restarts the timeout of a call, up to a maximum, but never extends a budget.

The tests take real time, because they have connections and processes. Ten steps fit into the shortest timeout.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from askers import PICKED, QUESTION, LegacyAsker
from fairlead_api.documents.catalog import ChildEndpoint, DeclaredLatency, ToolEntry
from fairlead_api.documents.rules import Rules, Tier
from fairlead_mcp.host import ChildHost
from gatewayworld import LEGACY, META, MODERN, Ask, ask, calling, catalog, entry, limits, running
from rawserver import Reply, Request, raw_server
from toolservers import answer_handshake

pytestmark = pytest.mark.timing

ERAS = (MODERN, LEGACY)
STEP = 0.1
"""Seconds between two reports of progress."""
TIMEOUT_MS = 1000
LONG = 12
"""Number of reports of a call that takes longer than TIMEOUT_MS, but reports at short intervals."""
SLOW: ToolEntry = entry("slow")


def call_with_progress(steps: int, era: str = MODERN) -> Ask:
    """A call that requests progress. The server reports `steps` steps and then answers. 0: it reports forever.
    Negative: it becomes silent after `-steps` steps.
    """
    made = calling("demo__slow", {"steps": steps}, era=era)
    made.message["params"].setdefault("_meta", {})["progressToken"] = "p"
    return made


class Steps:
    """A server in either era whose tool takes a while and reports progress."""

    def __init__(self) -> None:
        self.at_once = self.most = 0

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.params.get("name") != "slow":
            if not answer_handshake(request, reply):
                reply.result(request, {"resultType": "complete"})
            return
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self._work(request, reply)
        finally:
            self.at_once -= 1

    async def _work(self, request: Request, reply: Reply) -> None:
        token = request.params["_meta"]["progressToken"]
        steps = request.params["arguments"]["steps"]
        reply.open_stream()
        for number in count(1):
            params = {"progressToken": token, "progress": number}
            reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await reply.flush()
            if number == abs(steps):
                break
            await asyncio.sleep(STEP)
        if steps < 0:
            await asyncio.Event().wait()
        result = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        reply.end_stream()


def result_text(answer: Any) -> str:
    """The text of the result, which is the last event."""
    return str(answer.events[-1]["result"]["content"][0]["text"])


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_progress_restarts_the_timeout_of_a_call(tmp_path: Path, client: str, server_era: str) -> None:
    async with raw_server(Steps()) as server:
        demo = catalog("demo", server.url, [SLOW], version=server_era, limits=limits(timeout_ms=TIMEOUT_MS))
        async with running(tmp_path, demo) as gateway:
            assert result_text(await ask(gateway, call_with_progress(LONG, client))) == "done"
            ((_, attempts),) = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
            (attempt,) = attempts
            assert (attempt.outcome, attempt.duration_ms > TIMEOUT_MS) == ("ok", True), "all its time counts"


async def test_a_call_that_reports_no_more_progress_ends_after_the_time_of_a_call(tmp_path: Path) -> None:
    async with raw_server(Steps()) as server:
        demo = catalog("demo", server.url, [SLOW], limits=limits(timeout_ms=TIMEOUT_MS))
        async with running(tmp_path, demo) as gateway:
            wanted = "slow of default/demo reported no progress for 1 s, the time of a call (limits.timeout of the "
            assert result_text(await ask(gateway, call_with_progress(-1))).startswith(wanted)


BOUNDS: dict[str, tuple[dict[str, Any], ToolEntry, tuple[Tier, ...], str]] = {
    "maxTimeout": (
        {"timeout_ms": TIMEOUT_MS, "max_timeout_ms": 1300},
        SLOW,
        (),
        "within 1.3 s, the most for calls that report progress (limits.maxTimeout of the server)",
    ),
    "a maxTimeout that is no longer": (
        {"timeout_ms": 400, "max_timeout_ms": 300},
        SLOW,
        (),
        "within 0.4 s, the time of a call (limits.timeout of the server, or FAIRLEAD_CALL_TIMEOUT)",
    ),
    "latency.max": (
        {"timeout_ms": TIMEOUT_MS},
        entry("slow", latency=DeclaredLatency(max_duration_ms=1300)),
        (),
        "within 1.3 s, the maximum of the tool (maxDurationMs)",
    ),
    "latency.max, and shorter": (
        {"timeout_ms": 5000},
        entry("slow", latency=DeclaredLatency(max_duration_ms=300)),
        (),
        "within 0.3 s, the maximum of the tool (maxDurationMs)",
    ),
    "callTimeout": (
        {"timeout_ms": TIMEOUT_MS},
        SLOW,
        (Tier(name="fast", call_timeout_ms=1300, default=True),),
        "within 1.3 s, the time that the caller or its latency tier allows",
    ),
    "callTimeout, and shorter": (
        {"timeout_ms": 5000},
        SLOW,
        (Tier(name="fast", call_timeout_ms=300, default=True),),
        "within 0.3 s, the time that the caller or its latency tier allows",
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
async def test_progress_moves_no_bound_but_limits_timeout_and_the_message_says_which_it_was(
    tmp_path: Path, name: str
) -> None:
    bounds, tool, tiers, words = BOUNDS[name]
    async with raw_server(Steps()) as server:
        demo = catalog("demo", server.url, [tool], limits=limits(**bounds))
        async with running(tmp_path, demo, Rules(tiers=tiers)) as gateway:
            assert (
                result_text(await ask(gateway, call_with_progress(0))) == f"slow of default/demo did not answer {words}"
            )
            seen = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
            outcomes = {attempt.outcome for _, attempts in seen for attempt in attempts}
            assert outcomes == {"neutral" if "callTimeout" in name else "bad"}


async def test_a_call_that_reports_progress_keeps_its_place_at_the_server(tmp_path: Path) -> None:
    steps = Steps()
    async with raw_server(steps) as server:
        demo = catalog("demo", server.url, [SLOW], limits=limits(timeout_ms=2 * TIMEOUT_MS, concurrency=1))
        async with running(tmp_path, demo) as gateway:
            answers = await asyncio.gather(ask(gateway, call_with_progress(LONG)), ask(gateway, call_with_progress(1)))
            assert [result_text(answer) for answer in answers] == ["done", "done"]
    assert steps.most == 1


async def test_the_bound_of_a_call_that_asked_its_client_counts_from_its_first_request(tmp_path: Path) -> None:
    """The client's answer arrives in another request, half of the call's time later."""

    class Asker(LegacyAsker):
        """After the client's answer, reports progress forever."""

        async def _call(self, request: Request, reply: Reply) -> None:
            ident = "question"
            self.answers[ident] = asyncio.get_running_loop().create_future()
            reply.open_stream()
            reply.event({"jsonrpc": "2.0", "id": ident, "method": "elicitation/create", "params": QUESTION})
            await reply.flush()
            await self.answers[ident]
            for number in count(1):
                params = {"progressToken": request.params["_meta"]["progressToken"], "progress": number}
                reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                await reply.flush()
                await asyncio.sleep(STEP)

    async with raw_server(Asker().handle) as server:
        bounds = limits(timeout_ms=TIMEOUT_MS, max_timeout_ms=1300)
        async with running(tmp_path, catalog("demo", server.url, [SLOW], version=LEGACY, limits=bounds)) as gateway:
            call = call_with_progress(0)
            call.message["params"]["_meta"][META + "clientCapabilities"] = {"elicitation": {}}
            first = (await ask(gateway, call)).message["result"]
            await asyncio.sleep(TIMEOUT_MS / 2000)
            answers = dict.fromkeys(first["inputRequests"], PICKED)
            call.message["params"] |= {"inputResponses": answers, "requestState": first["requestState"]}
            assert (
                result_text(await ask(gateway, call))
                == f"slow of default/demo did not answer {BOUNDS['maxTimeout'][-1]}"
            )


STDIO = """\
import json, sys, time
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}

def put(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        put({"id": message["id"], "result": HELLO})
    elif message.get("method") == "tools/call":
        token = message["params"]["_meta"]["progressToken"]
        for number in range(1, 13):
            put({"method": "notifications/progress", "params": {"progressToken": token, "progress": number}})
            time.sleep(0.1)
        put({"id": message["id"], "result": {"content": [{"type": "text", "text": "done"}]}})
    elif "id" in message:
        put({"id": message["id"], "error": {"code": -32601, "message": "no"}})
"""


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}], ids=["shared process", "of a client that answers"])
async def test_progress_of_a_child_process_restarts_the_timeout_of_a_call(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    script = tmp_path / "server.py"
    script.write_text(STDIO)
    children = ChildHost()
    try:
        demo = catalog(
            "demo",
            ChildEndpoint(command=sys.executable, args=(str(script),)),
            [SLOW],
            version=LEGACY,
            limits=limits(timeout_ms=TIMEOUT_MS),
            session="PerClient" if capabilities else "Shared",
        )
        async with running(tmp_path, demo, children=children, shared_children=False) as gateway:
            made = call_with_progress(LONG)
            made.message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities
            await ask(gateway, made)  # the server's process starts meanwhile
            assert result_text(await ask(gateway, made)) == "done"
    finally:
        await children.aclose()
