"""Many clients over shared connections: each counts its own requests from 1, as real clients do, and checks answers.

The servers here answer late, out of order, twice, and report progress in between; `play` returns what went wrong.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from fairlead_mcp.errors import McpError
from fairlead_mcp.multiplex import Multiplexer

PATIENCE = 60.0


class WithoutRewriting(Multiplexer):
    """A multiplexer that hands on the ids of its callers, as a naive one would."""

    async def request(self, method: str, params: Any, **more: Any) -> bytes:
        arguments = json.loads(bytes(params)).get("arguments", {}) if params is not None else {}
        if "number" in arguments:
            self._ids = itertools.count(arguments["number"])
        return await super().request(method, params, **more)


@dataclass
class Shuffler:
    """A server on a stream of messages: keeps requests for a while and answers them in an order that `random` gives.

    Some are answered twice, some never although they were given up, and each reports progress first.
    """

    random: random.Random
    write: Callable[[bytes], object]
    window: int = 32
    _held: list[Any] = field(default_factory=list)

    def take(self, line: bytes) -> None:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            self._held.append(message)
            if len(self._held) >= self.window:
                self.release(self.random.randint(1, len(self._held)))

    def release(self, count: int) -> None:
        for _ in range(min(count, len(self._held))):
            message = self._held.pop(self.random.randrange(len(self._held)))
            arguments, ident = message["params"]["arguments"], message["id"]
            token = message["params"].get("_meta", {}).get("progressToken")
            if token is not None:
                progress = {"progressToken": token, "progress": 1, "message": json.dumps(arguments)}
                self._say({"method": "notifications/progress", "params": progress})
            result = {"content": [{"type": "text", "text": json.dumps(arguments)}], "isError": False}
            for _ in range(2 if self.random.random() < 0.1 else 1):
                self._say({"id": ident, "result": result})

    def _say(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())


@dataclass
class Crowd:
    """Clients that call through `multiplexer`, and their findings."""

    multiplexer: Multiplexer
    random: random.Random
    patience: float = PATIENCE
    """Seconds that a call may take."""
    wrong: list[str] = field(default_factory=list)
    mixed_up: int = 0
    """Answers that were another's."""
    answered: int = 0

    async def play(self, clients: int, calls: int) -> None:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for client in range(clients):
                group.create_task(self._client(client, calls), name=f"client {client}")

    async def _client(self, client: int, calls: int) -> None:
        for number in range(1, calls + 1):
            call = self._call(client, number)
            if self.random.random() < 0.1:
                await self._given_up(call)
            else:
                await call

    async def _given_up(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(call)
        for _ in range(self.random.randint(1, 4)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    async def _call(self, client: int, number: int) -> None:
        mine = {"client": client, "number": number}

        def heard(line: bytes) -> None:
            said = json.loads(line)["params"]
            if json.loads(said["message"]) != mine or said["progressToken"] != number:
                self.wrong.append(f"{mine} heard of the progress {said}")

        params = json.dumps({"name": "x", "arguments": mine, "_meta": {"progressToken": number}}).encode()
        deadline = asyncio.get_running_loop().time() + self.patience
        try:
            async with asyncio.timeout(2 * self.patience):
                line = await self.multiplexer.request("tools/call", params, deadline=deadline, on_progress=heard)
        except (McpError, TimeoutError, KeyError) as error:
            self.wrong.append(f"{mine} was not answered: {error!r}")
            return
        self.answered += 1
        got = json.loads(json.loads(line)["result"]["content"][0]["text"])
        if got != mine:
            self.mixed_up += 1
            self.wrong.append(f"{mine} got the answer of {got}")
