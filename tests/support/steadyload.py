"""Calls a gateway at a constant rate, checks every answer, and records every failure with its time.

    python steadyload.py --url http://HOST:8080/mcp --rate 40 --tool alpha__add --listen 127.0.0.1:9300

The program is one file that needs only Python, so it can run outside of the cluster as a process and inside as a pod.
Each call adds two numbers that no other call has, which shows an answer that belongs to another call. `GET /?since=T`
on the listening port returns the outcomes of calls that began after T, and with `&at=T` the number of calls that were
open at that time (in seconds of the wall clock).

The rate does not depend on answers. A refused connection is retried for `PATIENCE` seconds, because nothing was sent
yet. A request that was sent is never repeated.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

CONNECTIONS: Final = 8
"""Number of connections, used in turn, so that each replica has some."""
PATIENCE: Final = 5.0
"""Seconds of attempts to connect before a call counts as lost."""
PAUSE: Final = 0.02
ANSWER_SECONDS: Final = 30.0
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
LISTING: Final = "tools/list"
META: Final = "io.modelcontextprotocol/"

OK: Final = "ok"
WRONG: Final = "wrong answer"
BROKEN: Final = "connection broke"
REFUSED: Final = "not connected"
TIMEOUT: Final = "no answer"


@dataclass
class Call:
    """One call. Times are seconds of the wall clock."""

    tool: str
    began: float
    ended: float = 0.0
    outcome: str = ""
    """`ok`, or the failure: one of the constants above, `HTTP 503`, `-32602`, `CONNECTION_LOST`."""
    detail: str = ""
    attempts: int = 0
    """Number of refused connections before the successful one."""


@dataclass
class Connection:
    """One connection to a replica."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def usable(self) -> bool:
        return not (self.reader.at_eof() or self.writer.is_closing())


class Closed(Exception):
    """The connection ended before the answer."""


@dataclass
class SteadyLoad:
    """Load at a constant rate. `session` belongs to the legacy protocol version; all connections use it."""

    url: str
    rate: float
    tools: list[str]
    era: str = MODERN
    calls: collections.deque[Call] = field(default_factory=lambda: collections.deque(maxlen=200_000))
    in_flight: set[int] = field(default_factory=set)
    session: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._path = parts.path
        self._idle: collections.deque[Connection] = collections.deque()
        self._numbers = itertools.count(1)

    async def run(self) -> None:
        """Make calls until cancelled."""
        if self.era == LEGACY:
            await self._initialize()
        loop = asyncio.get_running_loop()
        due = loop.time()
        turn = itertools.cycle([*self.tools, LISTING])
        tasks: set[asyncio.Task[None]] = set()
        while True:
            task = loop.create_task(self.call(next(turn)), name="call")
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            due += 1 / self.rate
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def call(self, tool: str) -> None:
        """Make one call and record it."""
        number = next(self._numbers)
        call = Call(tool, time.time())
        self.in_flight.add(number)
        connection: Connection | None = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                connection = await self._connection(call)
                keep = await self._exchange(connection, call, number)
            if keep:
                self._idle.append(connection)
                connection = None
        except TimeoutError:
            call.outcome = TIMEOUT
        except ConnectionRefusedError as error:
            call.outcome = REFUSED
            call.detail = str(error)
        except (OSError, asyncio.IncompleteReadError, Closed) as error:
            call.outcome = BROKEN
            call.detail = f"{type(error).__name__}: {error}"
        finally:
            if connection is not None:
                connection.writer.close()
            self.in_flight.discard(number)
            call.ended = time.time()
            self.calls.append(call)

    async def _connection(self, call: Call) -> Connection:
        while len(self._idle) >= CONNECTIONS:
            connection = self._idle.popleft()
            if connection.usable:
                return connection
            connection.writer.close()
        end = time.monotonic() + PATIENCE
        while True:
            try:
                async with asyncio.timeout(1.0):  # a SYN to a deleted pod gets no answer
                    return Connection(*await asyncio.open_connection(self._host, self._port, limit=16 << 20))
            except OSError as error:  # includes TimeoutError
                call.attempts += 1
                if time.monotonic() > end:
                    raise ConnectionRefusedError(f"{type(error).__name__}: {error}") from error
                await asyncio.sleep(PAUSE)

    async def _exchange(self, connection: Connection, call: Call, number: int) -> bool:
        """Send a request and check the answer. Returns whether the connection can be used again."""
        status, headers, answer = await self._ask(connection, self._request(call.tool, number))
        if status != 200:
            call.outcome = f"HTTP {status}"
            call.detail = str(answer)[:300]
        elif answer.get("id") != number:
            call.outcome = WRONG
            call.detail = f"the id is {answer.get('id')!r} and not {number}"
        elif "error" in answer:
            call.outcome = str(answer["error"].get("code"))
            call.detail = str(answer["error"])[:300]
        elif call.tool == LISTING:
            self._judge_list(call, answer["result"])
        else:
            _judge(call, answer["result"], number)
        return headers.get("connection", "").lower() != "close"

    def _judge_list(self, call: Call, result: dict[str, Any]) -> None:
        missing = set(self.tools) - {tool["name"] for tool in result["tools"]}
        call.outcome = f"not listed: {', '.join(sorted(missing))}" if missing else OK

    def _request(self, tool: str, number: int) -> dict[str, Any]:
        params: dict[str, Any] = {}
        if tool != LISTING:
            params = {"name": tool, "arguments": {"a": number, "b": 1_000_000_000}}
        method = LISTING if tool == LISTING else "tools/call"
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

    async def _ask(self, connection: Connection, message: dict[str, Any]) -> tuple[int, dict[str, str], dict[str, Any]]:
        host = f"[{self._host}]" if ":" in self._host else self._host
        headers = {"host": f"{host}:{self._port}", "content-type": "application/json"}
        headers |= {"accept": "application/json, text/event-stream", "mcp-protocol-version": self.era}
        if self.era == MODERN:
            params = message["params"]
            params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
            headers["mcp-method"] = message["method"]
            if "name" in params:
                headers["mcp-name"] = params["name"]
        elif self.session:
            headers["mcp-session-id"] = self.session
        body = json.dumps(message).encode()
        lines = [f"POST {self._path} HTTP/1.1", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        connection.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await _answer(connection.reader)

    async def _initialize(self) -> None:
        """Open a session. The gateway's session ids are signed and valid at every replica."""
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "steadyload", "version": "1"}}
        connection = await self._connection(Call("", 0))
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        _, headers, _ = await self._ask(connection, hello)
        self.session = headers.get("mcp-session-id", "")
        await self._ask(connection, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._idle.append(connection)

    def report(self, since: float, at: float = 0.0) -> dict[str, Any]:
        """Results of the finished calls that began at `since` or later, the number of unfinished ones, and the number
        of calls that were open at the time `at`.
        """
        calls = [call for call in self.calls if call.began >= since]
        good = sorted(call.ended - call.began for call in calls if call.outcome == OK)
        return {
            "calls": len(calls),
            "good": len(good),
            "in_flight": len(self.in_flight),
            "open_then": sum(call.began <= at <= call.ended for call in self.calls),
            "p50_ms": round(good[len(good) // 2] * 1000, 1) if good else 0.0,
            "longest_ms": round(good[-1] * 1000, 1) if good else 0.0,
            "longest_by_tool_ms": _longest(calls),
            "reconnects": sum(call.attempts for call in calls),
            "bad": [asdict(call) for call in calls if call.outcome != OK],
        }


def _longest(calls: list[Call]) -> dict[str, float]:
    """Milliseconds of the longest answered call of each tool."""
    longest: dict[str, float] = {}
    for call in calls:
        if call.outcome == OK:
            longest[call.tool] = max(longest.get(call.tool, 0.0), round((call.ended - call.began) * 1000, 1))
    return longest


def _judge(call: Call, result: dict[str, Any], number: int) -> None:
    if result.get("isError"):
        told = result.get("_meta", {}).get("fairlead.dev/error", {})
        call.outcome = str(told.get("code", "tool error"))
        call.detail = str(told.get("message", result))[:300]
    elif result.get("structuredContent", {}).get("result") != number + 1_000_000_000:
        call.outcome = WRONG
        call.detail = str(result)[:300]
    else:
        call.outcome = OK


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Status, headers in lower case, and the message from a JSON body or the last event of a stream."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError as error:
        raise Closed("closed in the middle of a head" if error.partial else "closed without an answer") from error
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readline() or b"0", 16):
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
        data = [block.partition(b"data: ")[2] for block in body.split(b"\n\n") if b"data: " in block]
        body = data[-1] if data else b""
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    try:
        message = json.loads(body) if body else {}
    except ValueError:
        message = {"text": body.decode("latin-1")[:300]}
    return int(head[0].split(" ")[1]), headers, message


async def serve(load: SteadyLoad, host: str, port: int) -> None:
    """Run the load, and serve its results over HTTP."""

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split(" ")[1]
        except asyncio.IncompleteReadError:  # a TCP probe without a request
            writer.close()
            return
        query = parse_qs(urlsplit(target).query)
        body = json.dumps(load.report(*(float(query.get(name, ["0"])[0]) for name in ("since", "at")))).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(tell, host, port)
    async with server:
        await load.run()


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--rate", type=float, default=20.0, help="requests per second")
    parser.add_argument("--tool", action="append", required=True, help="adds `a` and `b`; may be given again")
    parser.add_argument("--era", choices=(MODERN, LEGACY), default=MODERN)
    parser.add_argument("--listen", default="127.0.0.1:9300")
    words = parser.parse_args()
    host, _, port = words.listen.rpartition(":")
    load = SteadyLoad(words.url, words.rate, words.tool, words.era)
    asyncio.run(serve(load, host, int(port)))


if __name__ == "__main__":
    main()
