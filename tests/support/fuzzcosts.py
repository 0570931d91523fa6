"""Costs of a client's bytes for a gateway, in memory and CPU: floods for each state of a parser.

    async with costly_gateway(folder) as gateway:
        cost = await gateway.cost_of(flood, TOTAL)

The gateway is a process of its own, whose CPU time and memory the kernel measures: other load of the machine has no
effect on the first, and little on the second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from commands import fairlead
from fairlead_api.documents.rules import Policy, Rule, Rules
from gatewayprocess import Process, interpreted
from gatewayworld import Ask, ask, calling, catalog, entry, legacy, publish
from toolservers import tool

BLOCK: Final = 64 << 10
ANSWER_SECONDS: Final = 60.0
_NOWHERE: Final = "http://127.0.0.1:9/mcp"


@dataclass(frozen=True)
class Flood:
    """Bytes of a client: one message without end, which is sent for as long as the gateway reads it, or messages of
    `size` bytes. `opening` receives the number of the connection, so that connections can differ.
    """

    name: str
    opening: Callable[[int], bytes]
    unit: bytes
    closing: bytes = b""
    size: int = 0
    """Bytes of a message; 0 for a message without end."""


@dataclass(frozen=True)
class Cost:
    """Cost of `sent` bytes on `connections`: CPU time in nanoseconds, and memory in bytes, at the peak and
    afterwards.
    """

    sent: int
    connections: int
    loop_ns: int
    """CPU time of the event loop's thread, which handles all calls."""
    peak: int
    retained: int

    def __str__(self) -> str:
        return (
            f"{self.sent >> 10} kB on {self.connections} connections: {self.loop_ns / self.sent:.0f} ns a byte, "
            f"peak {self.peak / self.sent:.2f} and kept {self.retained / self.sent:.2f} bytes a byte"
        )


@dataclass
class CostlyGateway:
    """A gateway that is measured."""

    process: Process
    numbers: count[int] = field(default_factory=count)

    @property
    def pid(self) -> int:
        return self.process.process.pid

    async def cost_of(self, flood: Flood, total: int) -> Cost:
        """Send about `total` bytes, on one connection after the other."""
        await self._await_settled()
        _reset_peak(self.pid)
        before = _memory(self.pid)
        began = _loop_ns(self.pid)
        sent = connections = 0
        while sent < total:
            sent += await _pour(self.process.port, flood, next(self.numbers), total - sent)
            connections += 1
        await self._await_settled()
        after = _memory(self.pid)
        return Cost(
            sent,
            connections,
            _loop_ns(self.pid) - began,
            after["VmHWM"] - before["VmRSS"],
            after["VmRSS"] - before["VmRSS"],
        )

    async def _await_settled(self) -> None:
        """Wait until all sent bytes were read, and other clients are served."""
        answer = await ask(self.process, legacy("ping"))
        assert answer.status == 200


@contextlib.asynccontextmanager
async def costly_gateway(folder: Path) -> AsyncIterator[CostlyGateway]:
    """A gateway that accepts every host and every caller, has API keys and a policy about arguments, but no server."""
    constrained = Rule(action="Allow", tools=("constrained",), arguments={"properties": {"x": {"type": "integer"}}})
    policy = Policy(
        namespace="default", name="p", every=True, rules=(constrained, Rule(action="Allow", tools=("free",)))
    )
    documents = folder / "documents"
    definitions = [entry({**tool(name), "inputSchema": {"type": "object"}}) for name in ("constrained", "free")]
    publish(documents, catalog("demo", _NOWHERE, definitions), Rules(policies=(policy,)))
    keys = folder / "keys.json"
    await fairlead("keys", "create", "npc", "--file", str(keys))
    async with interpreted(
        FAIRLEAD_DOCUMENTS=str(documents),
        FAIRLEAD_ALLOWED_HOSTS="*",
        FAIRLEAD_API_KEYS=str(keys),
        FAIRLEAD_ANONYMOUS="allow",
        FAIRLEAD_AUDIT_FILE=str(folder / "audit.log"),
    ) as process:
        await process.line("up to date")
        process.port = int((await process.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1])
        assert process.process.stderr is not None
        reading = asyncio.ensure_future(process.process.stderr.read())  # a full pipe would stop it
        await ask(process, calling("demo__free"))
        await ask(process, Ask(verb="GET", target="/v1/tiers", body=b""))  # REST is made with its first request
        try:
            yield CostlyGateway(process)
        finally:
            reading.cancel()


async def _pour(port: int, flood: Flood, number: int, most: int) -> int:
    """Send a flood on one connection until it ends, is refused, or `most` bytes are sent. Returns the number of
    bytes.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = asyncio.ensure_future(reader.read(1))
    opening = flood.opening(number)
    unit = flood.unit
    sent = 0
    size = flood.size or most
    block = unit * max(1, min(BLOCK, size) // max(len(unit), 1))
    try:
        writer.write(opening)
        while sent < size and not answer.done():
            writer.write(block[: size - sent] if flood.size else block)
            sent += len(block)
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.wait({draining, answer}, return_when=asyncio.FIRST_COMPLETED)
            draining.cancel()
            await asyncio.gather(draining, return_exceptions=True)
        if flood.size:
            writer.write(flood.closing)
        elif not answer.done():
            writer.write_eof()
        await asyncio.wait_for(asyncio.shield(answer), ANSWER_SECONDS)
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
        await asyncio.gather(answer, return_exceptions=True)
    return len(opening) + sent + 1


def _reset_peak(pid: int) -> None:
    """Reset VmHWM, the peak of memory (proc(5), `clear_refs`)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _memory(pid: int) -> dict[str, int]:
    """Memory in bytes: VmRSS is the current size, VmHWM the peak since its reset."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {
        name: int(value.split()[0]) << 10
        for name, _, value in (line.partition(":") for line in lines)
        if name in ("VmRSS", "VmHWM")
    }


def _loop_ns(pid: int) -> int:
    """CPU time in nanoseconds of the process's first thread, which runs the event loop."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0])
