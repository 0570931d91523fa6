"""No answer reaches another caller, in whatever order shared connections deliver answers.

Many clients number their requests from 1, as real clients do, and check their answers. The servers answer late, out of
order or twice, and report progress in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_api.documents.catalog import TcpEndpoint
from fairlead_mcp.errors import McpError
from fairlead_mcp.multiplex import Multiplexer
from fuzzed_gateway import marker_of, profile
from gated_stdio_server import CREDENTIAL, write_token
from gatewayworld import LEGACY, MODERN, Wire, calling, catalog, running

PATIENCE = 60.0


class WithoutRewriting(Multiplexer):
    """A naive multiplexer that forwards its callers' ids."""

    async def request(self, method: str, params: Any, **more: Any) -> bytes:
        arguments = json.loads(bytes(params)).get("arguments", {}) if params is not None else {}
        if "number" in arguments:
            self._ids = itertools.count(arguments["number"])
        return await super().request(method, params, **more)


@dataclass
class Shuffler:
    """A server on a message stream that delays requests and answers them in random order, each after progress. Some
    requests are answered twice, and cancelled ones sometimes not at all.
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
            arguments = message["params"]["arguments"]
            ident = message["id"]
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
    """Clients that call through `multiplexer`, and the wrong answers that they got."""

    multiplexer: Multiplexer
    random: random.Random
    patience: float = PATIENCE
    """Seconds that a call may take."""
    wrong: list[str] = field(default_factory=list)
    mixed_up: int = 0
    """Answers that belong to another caller."""
    answered: int = 0

    async def play(self, clients: int, calls: int) -> None:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for client in range(clients):
                group.create_task(self._client(client, calls), name=f"client {client}")

    async def _client(self, client: int, calls: int) -> None:
        for number in range(1, calls + 1):
            call = self._call(client, number)
            if self.random.random() < 0.1:
                await self._give_up(call)
            else:
                await call

    async def _give_up(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(call)
        for _ in range(self.random.randint(1, 4)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    async def _call(self, client: int, number: int) -> None:
        mine = {"client": client, "number": number}

        def check_progress(line: bytes) -> None:
            progress = json.loads(line)["params"]
            if json.loads(progress["message"]) != mine or progress["progressToken"] != number:
                self.wrong.append(f"{mine} heard of the progress {progress}")

        params = json.dumps({"name": "x", "arguments": mine, "_meta": {"progressToken": number}}).encode()
        deadline = asyncio.get_running_loop().time() + self.patience
        try:
            async with asyncio.timeout(2 * self.patience):
                line = await self.multiplexer.request(
                    "tools/call", params, deadline=deadline, on_progress=check_progress
                )
        except (McpError, TimeoutError, KeyError) as error:
            self.wrong.append(f"{mine} was not answered: {error!r}")
            return
        self.answered += 1
        got = json.loads(json.loads(line)["result"]["content"][0]["text"])
        if got != mine:
            self.mixed_up += 1
            self.wrong.append(f"{mine} got the answer of {got}")


async def play_crowd(kind: type[Multiplexer], seed: int, clients: int, calls: int, patience: float = 60) -> Crowd:
    """Run a crowd over one stream, both ends of which are in this event loop."""
    dice = random.Random(seed)
    loop = asyncio.get_running_loop()
    shuffler = Shuffler(dice, lambda line: loop.call_soon(multiplexer.feed, line), window=dice.randint(1, clients))
    multiplexer = kind(lambda line: shuffler.take(line))
    crowd = Crowd(multiplexer, dice, patience)

    async def flush() -> None:
        while True:  # also answers the callers that still wait at the end
            await asyncio.sleep(0.001)
            shuffler.release(clients)

    pump = asyncio.ensure_future(flush())
    try:
        await crowd.play(clients, calls)
    finally:
        pump.cancel()
        await asyncio.gather(pump, return_exceptions=True)
    return crowd


@pytest.mark.timeout(3600)
def test_each_caller_gets_its_own_answer_on_a_shared_stream() -> None:
    answered = 0

    @profile(12)
    @given(st.integers(0, 2**32), st.integers(2, 60))
    def example(seed: int, clients: int) -> None:
        nonlocal answered
        crowd = asyncio.run(play_crowd(Multiplexer, seed, clients, 1 + 600 // clients))
        assert crowd.wrong == []
        assert crowd.multiplexer.in_flight == 0
        answered += crowd.answered

    example()
    assert answered > 3_000


def test_the_same_crowd_finds_out_a_multiplexer_that_rewrites_no_ids() -> None:
    crowds = [asyncio.run(play_crowd(WithoutRewriting, seed, 20, 4, patience=0.1)) for seed in range(4)]
    assert sum(crowd.mixed_up for crowd in crowds) > 0
    assert all(crowd.wrong for crowd in crowds)


@contextlib.asynccontextmanager
async def shuffling_server(seed: int) -> AsyncIterator[int]:
    """A server over TCP that answers in random order. Yields its port."""
    dice = random.Random(seed)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        shuffler = Shuffler(dice, lambda line: writer.write(line + b"\n"), window=24)
        await reader.readline()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                try:
                    line = await asyncio.wait_for(reader.readline(), 0.005)
                except TimeoutError:
                    shuffler.release(100)
                    continue
                if not line:
                    break
                message = json.loads(line)
                if message["method"] == "initialize":
                    result = {
                        "protocolVersion": LEGACY,
                        "capabilities": {},
                        "serverInfo": {"name": "s", "version": "1"},
                    }
                    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                    writer.write(json.dumps(answer).encode() + b"\n")
                shuffler.take(line)
        writer.close()
        tasks.discard(task)

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def strangers(folder: Path, seed: int, clients: int, calls: int, patience: float) -> list[object]:
    """Owners of the wrong answers that clients get if they share a gateway's only connection to a server; None for a
    missing answer. All clients number their requests from 1.
    """
    wrong: list[object] = []
    write_token(folder)
    async with shuffling_server(seed) as port:
        reached = TcpEndpoint(host="127.0.0.1", port=port)
        document = catalog("demo", reached, ["x"], version=LEGACY, credential=CREDENTIAL)
        async with running(folder, document, call_timeout=patience) as gateway:

            async def client(name: int) -> None:
                era = MODERN if name % 2 else LEGACY
                async with await Wire.connect(gateway) as wire:
                    for number in range(1, calls + 1):
                        mine = {"client": name, "number": number, "n": [name, number]}
                        wire.send(calling("demo__x", mine, era=era, number=number))
                        try:
                            answer = await wire.answer(patience + 1)
                        except TimeoutError:
                            wrong.append(None)
                            return
                        assert answer.message["id"] == number
                        if (got := marker_of(answer.message)) != [name, number]:
                            wrong.append(got)

            await asyncio.gather(*(client(name) for name in range(clients)))
    return wrong


def test_thousands_of_calls_through_a_gateway_come_back_to_their_callers(tmp_path: Path) -> None:
    assert asyncio.run(strangers(tmp_path, 3, 40, 50, patience=30)) == []


def test_the_same_calls_find_out_a_gateway_whose_connections_rewrite_no_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead_mcp.streams.Multiplexer", WithoutRewriting)
    wrong = asyncio.run(strangers(tmp_path, 3, 8, 3, patience=0.3))
    assert [got for got in wrong if got is not None]
