"""Every kind of client that calls through a gateway, with a common interface. `KINDS` has them by name. `Answered` is
the common form of what a client receives.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from askers import PICKED
from fairlead_app.gateway import Gateway
from fairlead_client import AsyncToolRegistry, Server
from fairlead_mcp.methods import TASKS
from gatewayworld import LEGACY, META, MODERN, Ask, Wire, ask, legacy, modern
from restworld import MESSAGES, post

ALL_DECLARED: Final[dict[str, Any]] = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}
WITH_TASKS: Final[dict[str, Any]] = {**ALL_DECLARED, "extensions": {TASKS: {}}}
"""Capabilities with tasks. Legacy clients declare tasks too, without effect."""
STREAM_FIRST: Final = "text/event-stream, application/json"
PARENT: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
"""`traceparent` of every request (W3C Trace Context)."""
ERROR: Final = "fairlead.dev/error"
TOOLS: Final = frozenset({"tools/call"})
ABOUT: Final = frozenset({"tasks/get"})
METHODS: Final = TOOLS | {"prompts/get", "resources/read", "skills/get", "completion/complete"}

Until: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Kind:
    """`declares` are client capabilities. With `token`, the client requests progress; with `streams`, it prefers event
    streams.
    """

    era: str = MODERN
    declares: dict[str, Any] = field(default_factory=dict)
    token: bool = False
    streams: bool = False
    over: str = "mcp"
    methods: frozenset[str] = METHODS

    @property
    def tasks(self) -> bool:
        """Whether the client supports tasks and follows them to their end (SEP-2663)."""
        return self.era == MODERN and "extensions" in self.declares


KINDS: Final[dict[str, Kind]] = {
    **{
        f"{name} {how}": Kind(era, **more)
        for name, era in (("legacy", LEGACY), ("modern", MODERN))
        for how, more in (
            ("bare", {}),
            ("with capabilities", {"declares": ALL_DECLARED}),
            ("with a progress token", {"token": True}),
            ("that prefers streams", {"streams": True}),
            (
                "with all of it",
                {
                    "declares": WITH_TASKS,
                    "token": True,
                    "streams": True,
                    "methods": METHODS | (ABOUT if era == MODERN else frozenset()),
                },
            ),
        )
    },
    "REST": Kind(over="rest", methods=TOOLS),
    "ToolRegistry": Kind(over="python", methods=TOOLS),
}


@dataclass(frozen=True)
class Answered:
    """Answer as a client sees it. `code` is `ok`, `tool_error`, one of `calls.refusals`, or the code of a JSON-RPC
    error.
    """

    code: str
    says: str
    marks: tuple[str, ...] = ()
    """Fairlead's members of `_meta` apart from the error, and `retryAfterMs` if the answer has it."""
    heard: tuple[str, ...] = ()
    """Methods of the messages before the answer."""


GONE: Final = Answered("gone", "")
"""The client closed its connection and received nothing."""


class Client:
    """One client of a kind, for the catalog `name`."""

    def __init__(self, gateway: Gateway, kind: Kind, name: str) -> None:
        self.gateway = gateway
        self.kind = kind
        self.name = name
        self._session: str | None = None
        self._registry: AsyncToolRegistry | None = None

    async def close(self) -> None:
        if self._registry is not None:
            await self._registry.close()

    async def ask(self, method: str, params: dict[str, Any], given_up_after: Until | None = None) -> Answered:
        """Send a request to the catalog, with the server's own names, and answer all questions. With `given_up_after`,
        an awaitable function, cancel the request after that function has returned.
        """
        over = {"mcp": self._over_mcp, "rest": self._over_rest, "python": self._over_python}[self.kind.over]
        return self._without_sizes(await over(method, params, given_up_after))

    def _without_sizes(self, got: Answered) -> Answered:
        says = got.says
        for name in ("g__", f"{self.name}__", self.name):
            says = says.replace(name, "" if name.endswith("__") else "SERVER")
        says = re.sub(r"\b8\d{3} bytes", "8000 bytes", says)  # ids differ in length
        return Answered(got.code, says, got.marks, got.heard)

    # MCP

    async def _over_mcp(self, method: str, params: dict[str, Any], given_up_after: Until | None) -> Answered:
        params = _expose(f"{self.name}__", params)
        if self.kind.era == LEGACY and self._session is None:
            hello = {
                "protocolVersion": LEGACY,
                "capabilities": self.kind.declares,
                "clientInfo": {"name": "c", "version": "1"},
            }
            self._session = (await ask(self.gateway, legacy("initialize", hello))).headers["mcp-session-id"]
        async with await Wire.connect(self.gateway) as wire:
            wire.send(self._request(method, params))
            if given_up_after is not None:
                await given_up_after()
                if self.kind.era == MODERN:
                    return GONE
                await ask(
                    self.gateway,
                    legacy("notifications/cancelled", {"requestId": 7}, number=None, session=self._session),
                )
            heard: list[str] = []
            message = await self._answer(wire, heard)
            while message.get("result", {}).get("resultType") == "input_required":
                heard += [question["method"] for question in message["result"]["inputRequests"].values()]
                given = dict.fromkeys(message["result"]["inputRequests"], PICKED)
                more = {"inputResponses": given, "requestState": message["result"]["requestState"]}
                wire.send(self._request(method, {**params, **more}))
                message = await self._answer(wire, heard)
            if message.get("result", {}).get("resultType") == "task":
                message = await self._follow(wire, message["result"]["taskId"], heard)
        return _common_answer(message, tuple(heard))

    async def _follow(self, wire: Wire, task: str, heard: list[str]) -> dict[str, Any]:
        """Follow a task, and answer its questions. Returns the final answer."""
        while True:
            wire.send(self._request("tasks/get", {"taskId": task}))
            message = await self._answer(wire, heard)
            state = message.get("result", {})
            if "result" in state or "error" in message:
                return state if "result" in state else message
            if questions := state.get("inputRequests"):
                heard += [question["method"] for question in questions.values()]
                given = {"taskId": task, "inputResponses": dict.fromkeys(questions, PICKED)}
                wire.send(self._request("tasks/update", given))
                await self._answer(wire, heard)

    def _request(self, method: str, params: dict[str, Any]) -> Ask:
        kind = self.kind
        meta = {"progressToken": "p"} if kind.token else {}
        if kind.era == LEGACY:
            made = legacy(method, {**params, **({"_meta": meta} if meta else {})}, number=7, session=self._session)
        else:
            made = modern(method, params, number=7, **{META + "clientCapabilities": kind.declares}, **meta)
            named = params.get("name", params.get("uri", params.get("taskId")))
            made = made.with_headers(mcp_name=named)
        return made.with_headers(traceparent=PARENT, **({"accept": STREAM_FIRST} if kind.streams else {}))

    async def _answer(self, wire: Wire, heard: list[str]) -> dict[str, Any]:
        """Wait for the answer to a request, and answer questions that arrive before it."""
        async with asyncio.timeout(20):
            head = await wire.reader.readuntil(b"\r\n\r\n")
            if b"event-stream" not in head:
                length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
                return dict(json.loads(await wire.reader.readexactly(length)))
            while True:
                data = (await wire.reader.readuntil(b"\n\n")).partition(b"data: ")[2].strip()
                message = json.loads(data) if data else {}
                if "method" in message:
                    heard.append(message["method"])
                    if "id" in message:
                        answer = {"jsonrpc": "2.0", "id": message["id"], "result": PICKED}
                        await ask(
                            self.gateway, Ask(answer, {**legacy("x").headers, "mcp-session-id": self._session or ""})
                        )
                elif message.get("id") == 7:
                    if b"chunked" in head:
                        await wire.reader.readuntil(b"0\r\n\r\n")
                    return dict(message)

    # Other clients

    async def _over_rest(self, method: str, params: dict[str, Any], given_up_after: Until | None) -> Answered:
        calls = MESSAGES["mcp"]([("1", f"{self.name}__{params['name']}", params.get("arguments", {}))])
        request = post(
            self.gateway, "/v1/tool-calls", {"format": "mcp", "message": calls, "tools": []}, traceparent=PARENT
        )
        answer = await _unless_given_up(request, given_up_after)
        if answer is None:
            return GONE
        if answer.status != 200:
            problem = answer.message
            marks = ("retryAfterMs",) if "retryAfterMs" in problem else ()
            return Answered(problem["code"], problem["detail"], marks)
        (message,) = answer.message["messages"]
        (call,) = answer.message["calls"]
        got = _common_answer(message)
        return Answered("UNKNOWN_TOOL", got.says) if call["state"] == "unknown" else got

    async def _over_python(self, method: str, params: dict[str, Any], given_up_after: Until | None) -> Answered:
        if self._registry is None:
            url = f"http://127.0.0.1:{self.gateway.port}/servers/default/{self.name}/mcp"
            self._registry = AsyncToolRegistry([Server(name="g", url=url, headers={"traceparent": PARENT})])
            await self._registry.start()
        execution = self._registry.execute(f"g__{params['name']}", params.get("arguments", {}))
        outcome = await _unless_given_up(execution, given_up_after)
        if outcome is None:
            return GONE
        if outcome.result is not None:
            got = _common_answer({"result": outcome.result})
            marks = {*got.marks, *(("fairlead.dev/warning",) if outcome.warning else ())}
            return Answered(got.code, got.says, tuple(sorted(marks)))
        assert outcome.error is not None
        return Answered(outcome.error.code, str(outcome.error))


def _expose(prefix: str, params: dict[str, Any]) -> dict[str, Any]:
    """Params with the names that the merged endpoint exposes."""
    if "ref" in params:
        return {**params, "ref": _expose(prefix, params["ref"])}
    return {**params, "name": prefix + params["name"]} if "name" in params else params


async def _unless_given_up(awaitable: Awaitable[Any], given_up_after: Until | None) -> Any:
    if given_up_after is None:
        return await awaitable
    task = asyncio.ensure_future(awaitable)
    await given_up_after()
    task.cancel()
    await asyncio.wait([task])
    return None


def _common_answer(message: dict[str, Any], heard: tuple[str, ...] = ()) -> Answered:
    """A JSON-RPC answer in the form that all kinds of clients share."""
    if "error" in message:
        error = message["error"]
        code = str(error["code"])
        word = (error.get("data") or {}).get(ERROR, {}).get("code") if isinstance(error.get("data"), dict) else None
        if error["message"].startswith("Unknown tool") or " is not allowed for you" in error["message"]:
            code = "UNKNOWN_TOOL"
        return Answered(word or code, error["message"], heard=heard)
    result = message["result"]
    text = "".join(part.get("text", "") for part in result.get("content", ())) or str(result.get("saw", ""))
    meta = {key: value for key, value in result.get("_meta", {}).items() if key.startswith("fairlead.dev/")}
    error = meta.pop(ERROR, {})
    marks = (*sorted(meta), *(("retryAfterMs",) if "retryAfterMs" in error else ()))
    code = error.get("code") or ("tool_error" if result.get("isError") else "ok")
    return Answered(code, text, marks, heard)
