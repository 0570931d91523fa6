"""No answer ever reaches another caller, whatever the order in which shared connections bring them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_api.documents.catalog import TcpEndpoint
from fairlead_mcp.multiplex import Multiplexer
from fuzzed_gateway import marker_of, profile
from gated_stdio_server import CREDENTIAL, write_token
from gatewayworld import LEGACY, MODERN, Wire, calling, catalog, running
from shared_connections import Crowd, Shuffler, WithoutRewriting


async def played(kind: type[Multiplexer], seed: int, clients: int, calls: int, patience: float = 60) -> Crowd:
    """A crowd over one stream whose two ends are in this loop."""
    dice, loop = random.Random(seed), asyncio.get_running_loop()
    shuffler = Shuffler(dice, lambda line: loop.call_soon(multiplexer.feed, line), window=dice.randint(1, clients))
    multiplexer = kind(lambda line: shuffler.take(line))
    crowd = Crowd(multiplexer, dice, patience)

    async def flush() -> None:
        while True:  # whoever waits when nobody else comes any more is answered too
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
        crowd = asyncio.run(played(Multiplexer, seed, clients, 1 + 600 // clients))
        assert crowd.wrong == []
        assert crowd.multiplexer.in_flight == 0
        answered += crowd.answered

    example()
    assert answered > 3_000


def test_the_same_crowd_finds_out_a_multiplexer_that_rewrites_no_ids() -> None:
    crowds = [asyncio.run(played(WithoutRewriting, seed, 20, 4, patience=0.1)) for seed in range(4)]
    assert sum(crowd.mixed_up for crowd in crowds) > 0
    assert all(crowd.wrong for crowd in crowds)


@contextlib.asynccontextmanager
async def shuffling_server(seed: int) -> AsyncIterator[int]:
    """A server on lines over TCP that answers in any order. Its port."""
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
                    said = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
                    answer = {"jsonrpc": "2.0", "id": message["id"], "result": said}
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
    """Whose answers clients of a gateway get, in place of their own, that share its one connection to a server; None
    for no answer. All count from 1.
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
    monkeypatch.setattr("fairlead_mcp.link.Multiplexer", WithoutRewriting)
    wrong = asyncio.run(strangers(tmp_path, 3, 8, 3, patience=0.3))
    assert [got for got in wrong if got is not None]
