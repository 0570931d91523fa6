"""Our client code as the subject of the conformance suite's client scenarios.

    python tests/support/conformance_driver.py session|gateway URL

The suite serves one server at URL and checks the requests that the server receives. `session` runs the client code of
discovery and the command line. `gateway` runs `fairlead up` over that server, with a client that writes every byte of
its requests itself. The environment has the scenario, the revision, and what to call.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from conformance import await_endpoint, gateway_over
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession
from gatewayworld import LEGACY, META, Ask, Wire, ask, legacy, modern
from ports import free_port

READY_SECONDS: Final = 20.0
CALLS: Final[dict[str, dict[str, Any]]] = {
    "add_numbers": {"a": 5, "b": 3},
    "valid_tool": {"region": "us-east1"},
}
"""Arguments of tools that require certain ones."""
VALUES: Final[dict[str, Any]] = {"number": 1, "integer": 1, "boolean": True, "object": {}, "array": [], "null": None}
HEADERS_OF_ARGUMENTS: Final = frozenset({"http-custom-headers", "http-invalid-tool-headers"})
"""Scenarios with a legacy client: the gateway derives the headers from the arguments."""
ANSWER: Final = {"action": "accept", "content": {"confirmed": True}}


class Peer(Protocol):
    """Client that calls the server, directly or through a gateway."""

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result. Raises if there is no result."""
        ...


@dataclass
class SessionPeer:
    session: McpSession

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return dict(json.loads(bytes(await self.session.request(method, json.dumps(params).encode()))))


@dataclass
class Place:
    """A gateway's endpoint for the server."""

    port: int
    target: str = "/servers/default/subject/mcp"


@dataclass
class ModernPeer:
    """A client of 2026-07-28, which answers questions in results."""

    endpoint: Place
    number: int = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        capabilities: dict[str, Any] = {META + "clientCapabilities": {"elicitation": {"form": {}}}}
        ask_message = modern(method, params, number=self.number, **capabilities).to(self.endpoint.target)
        named = params.get("name") or params.get("uri")
        answer = await ask(self.endpoint, ask_message.with_headers(mcp_name=named))
        message = answer.events[-1] if "event-stream" in answer.headers["content-type"] else answer.message
        result = dict(message["result"])
        if result.get("resultType") != "input_required":
            return result
        again = {"inputResponses": dict.fromkeys(result.get("inputRequests", {}), ANSWER)}
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        return await self.request(method, {**params, **again})


@dataclass
class LegacyPeer:
    """A client of 2025-11-25, which answers questions during calls, with the defaults of each question."""

    endpoint: Place
    session: str
    number: int = 10

    @classmethod
    async def connect(cls, endpoint: Place) -> LegacyPeer:
        hello = {
            "protocolVersion": LEGACY,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }
        answer = await ask(endpoint, legacy("initialize", hello).to(endpoint.target))
        return cls(endpoint, answer.headers["mcp-session-id"])

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        ask_message = legacy(method, params, number=self.number, session=self.session).to(self.endpoint.target)
        async with await Wire.connect(self.endpoint) as wire:
            wire.send(ask_message)
            head = await wire.reader.readuntil(b"\r\n\r\n")
            if b"event-stream" not in head:
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                return dict(json.loads(await wire.reader.readexactly(length))["result"])
            while True:
                event = await wire.reader.readuntil(b"\n\n")
                data = event.partition(b"data: ")[2].strip()
                message = json.loads(data) if data else {}
                if message.get("method") == "elicitation/create":
                    await self._answer(message)
                elif message.get("id") == self.number:
                    return dict(message["result"])

    async def _answer(self, message: dict[str, Any]) -> None:
        wanted = message["params"]["requestedSchema"]["properties"]
        content = {name: schema["default"] for name, schema in wanted.items() if "default" in schema}
        response = {"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept", "content": content}}
        headers = {**legacy("x").headers, "mcp-session-id": self.session}
        await ask(self.endpoint, Ask(response, headers, target=self.endpoint.target))


def some(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that match a simple schema: its required properties."""
    properties = schema.get("properties", {})
    return {name: VALUES.get(properties[name].get("type"), "x") for name in schema.get("required", ())}


async def call_everything(peer: Peer) -> None:
    """List the tools and call each, with the scenario's arguments or generated ones."""
    listed = (await peer.request("tools/list", {}))["tools"]
    tools = {tool["name"]: tool for tool in listed}
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    calls = context.get("toolCalls") or [
        {"name": name, "arguments": CALLS.get(name) or some(tool["inputSchema"])} for name, tool in tools.items()
    ]
    for call in calls:
        if call["name"] == "json_schema_echo":
            call["arguments"] = {"schema": tools["json_schema_2020_12_tool"]["inputSchema"]}
        if call["name"] in tools:
            await peer.request("tools/call", dict(call))


async def ask_the_rest(peer: Peer) -> None:
    for resource in (await peer.request("resources/list", {})).get("resources", []):
        await peer.request("resources/read", {"uri": resource["uri"]})
    for prompt in (await peer.request("prompts/list", {})).get("prompts", []):
        await peer.request("prompts/get", {"name": prompt["name"]})


async def drive(peer: Peer, scenario: str) -> None:
    await call_everything(peer)
    if scenario == "http-standard-headers":
        await ask_the_rest(peer)


async def as_session(url: str, scenario: str) -> None:
    async with McpSession.over_http(Target.from_url(url)) as session:
        await drive(SessionPeer(session), scenario)


async def as_gateway(url: str, scenario: str, revision: str) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        port = free_port()
        if scenario == "http-custom-headers":
            os.environ["FAIRLEAD_VALIDATE"] = "false"  # it calls with a null that the tool's schema forbids
        stack.enter_context(gateway_over(url, port, folder))
        endpoint = Place(port)
        await asyncio.to_thread(await_endpoint, f"http://localhost:{port}{endpoint.target}", folder / "up.log")
        if scenario != "tools_call" and (revision == LEGACY or scenario in HEADERS_OF_ARGUMENTS):
            await drive(await LegacyPeer.connect(endpoint), scenario)
        else:
            await drive(ModernPeer(endpoint), scenario)


def main(subject: str, url: str) -> None:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if subject == "session":
        asyncio.run(as_session(url, scenario))
    else:
        asyncio.run(as_gateway(url, scenario, os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
