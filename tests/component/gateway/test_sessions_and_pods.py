"""Sessions with legacy servers that have several pods or low limits: routing of questions and answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from askers import PICKED, QUESTION, LegacyAsker, conversation, session_of, text_result
from fairlead_app.gateway import Gateway
from gatewayworld import LEGACY, META, MODERN, ask, calling, catalog, limits, modern, running
from rawserver import Reply, Request, raw_server
from waiting import eventually

OFFER: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {"form": {}}}}


@pytest.mark.parametrize("client", [LEGACY, MODERN])
async def test_the_answer_to_a_question_needs_no_place_among_the_calls(tmp_path: Path, client: str) -> None:
    """The only slot is taken by the call that waits for the answer."""
    asker = LegacyAsker()
    document = catalog("demo", "http://x", ["x"], version=LEGACY)
    async with raw_server(asker.handle) as server:
        document = catalog("demo", server.url, ["x"], version=LEGACY, limits=limits(concurrency=1, timeout_ms=8000))
        async with running(tmp_path, document) as gateway:
            if client == LEGACY:
                session = await session_of(gateway, {"elicitation": {}})
                _, last = await conversation(gateway, session, {"result": PICKED})
            else:
                x = {"name": "demo__x", "arguments": {}}
                first = (await ask(gateway, modern("tools/call", x, **OFFER))).message["result"]
                more = {"inputResponses": dict.fromkeys(first["inputRequests"], PICKED)}
                again = {**x, **more, "requestState": first["requestState"]}
                last = (await ask(gateway, modern("tools/call", again, number=2, **OFFER))).message
    assert json.loads(last["result"]["content"][0]["text"]) == [PICKED]


class Pod(LegacyAsker):
    """Pod that knows only its own sessions."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.lost = 0

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.method == "server/discover" or "mcp-method" in request.headers:
            return reply.error(request, 404, -32601, "Method not found")
        if request.method == "initialize":
            self.sessions += 1
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            return reply.result(request, hello, mcp_session_id=f"{self.name}-{self.sessions}")
        if not request.headers.get("mcp-session-id", "").startswith(self.name):
            self.lost += 1
            return reply.error(request, 404, -32600, "Session not found")
        return await super().handle(request, reply)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_session_that_is_asked_stays_with_the_pod_that_asks(tmp_path: Path, version: str) -> None:
    """The server supports both eras or only the legacy era. The gateway's sessions with it are legacy ones."""
    pod_one = Pod("one")
    pod_two = Pod("two")
    async with raw_server(pod_one.handle) as first, raw_server(pod_two.handle) as second:

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", first.port), ("127.0.0.1", second.port)]

        document = catalog("demo", "http://demo.tools.svc:80/mcp", ["x"], version=version)
        async with running(tmp_path, document, resolve=resolve, call_timeout=60.0) as gateway:
            sessions = [await session_of(gateway, {"elicitation": {}}) for _ in range(6)]
            for _ in range(2):
                ended = await asyncio.gather(*(conversation(gateway, s, {"result": PICKED}) for s in sessions))
                for questions, last in ended:
                    assert questions == [("elicitation/create", QUESTION)]
                    assert json.loads(last["result"]["content"][0]["text"]) == [PICKED]
    assert (pod_one.lost, pod_two.lost) == (0, 0)


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}], ids=["plain", "with progress"])
async def test_each_pod_has_a_shared_session_of_its_own(tmp_path: Path, more: dict[str, Any]) -> None:
    """This also holds if pods come and go: no call reaches a pod in a session of another pod."""
    together = asyncio.Barrier(4)

    class Slow(Pod):
        async def _call(self, request: Request, reply: Reply) -> None:
            await together.wait()  # so that each of four calls needs a connection of its own
            reply.result(request, text_result(self.name))

    pods = [Slow("one"), Slow("two")]
    async with raw_server(pods[0].handle) as first, raw_server(pods[1].handle) as second:
        there = [second.port]

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", port) for port in there]

        async def four(gateway: Gateway) -> list[str]:
            answers = await asyncio.gather(*(ask(gateway, calling("demo__x", {}, **more)) for _ in range(4)))
            return sorted(answer.message["result"]["content"][0]["text"] for answer in answers)

        document = catalog("demo", "http://demo.tools.svc:80/mcp", ["x"], version=LEGACY)
        async with running(tmp_path, document, resolve=resolve, call_timeout=10.0) as gateway:
            assert await four(gateway) == ["two"] * 4
            there.append(first.port)
            second.cut()  # the next connection looks up the pods again
            await eventually(lambda: not second.open)
            await four(gateway)
            for _ in range(3):
                assert await four(gateway) == ["one", "one", "two", "two"]
            assert [(pod.lost, pod.sessions) for pod in pods] == [(0, 1), (0, 1)]
            second.refuse()
            await eventually(lambda: not second.open)
            for _ in range(3):
                assert await four(gateway) == ["one"] * 4
    assert [(pod.lost, pod.sessions) for pod in pods] == [(0, 1), (0, 1)]


@pytest.mark.parametrize("hang_up", [False, True], ids=["kept", "closed"])
async def test_a_legacy_clients_answers_reach_the_modern_pod_that_asked(tmp_path: Path, hang_up: bool) -> None:
    """As MCP 2026-07-28 recommends, the pod seals the state of the call, so that no other pod can read it."""

    def pod(name: str) -> Any:
        async def handle(request: Request, reply: Reply) -> None:
            if request.method != "tools/call":
                return reply.error(request, 404, -32601, "Method not found")
            more = {"connection": "close"} if hang_up else {}
            if hang_up:
                reply.close()
            state = request.params.get("requestState")
            if state is None:
                questions = {"k": {"method": "elicitation/create", "params": QUESTION}}
                result = {"resultType": "input_required", "inputRequests": questions, "requestState": name}
                return reply.result(request, result, **more)
            return reply.result(request, {"resultType": "complete", **text_result(f"{state} at {name}")}, **more)

        return handle

    async with raw_server(pod("one")) as first, raw_server(pod("two")) as second:

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", first.port), ("127.0.0.1", second.port)]

        document = catalog("demo", "http://demo.tools.svc:80/mcp", ["x"])
        async with running(tmp_path, document, resolve=resolve) as gateway:
            sessions = [await session_of(gateway, {"elicitation": {}}) for _ in range(8)]
            ended = await asyncio.gather(*(conversation(gateway, s, {"result": PICKED}) for s in sessions * 2))
        assert "tools/call" in first.methods()
        assert "tools/call" in second.methods()
    assert {last["result"]["content"][0]["text"] for _, last in ended} <= {"one at one", "two at two"}
