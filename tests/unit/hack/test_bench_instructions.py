"""Counts of `hack/bench instructions`: files of callgrind, calls of a load, and the time that the gateway sees."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.bench_instructions import PARTS, median_of, total_of
from gateway.workloads import CLIENTS, slug
from neededprograms import needs
from rig.harness import Unmeasurable
from rig.loadtools import BARE, Load, built

ANSWER = b'{"result":{"content":[]}}'
SPIN = """
import time
begun, spent = time.monotonic(), time.process_time()
while time.process_time() - spent < 0.1:
    pass
print(time.process_time() - spent > 10 * (time.monotonic() - begun))
"""


def test_the_sum_is_that_at_the_end_of_a_file_that_was_written_while_nothing_was_counted(tmp_path: Path) -> None:
    counts = tmp_path / "counts.2"
    counts.write_text("part: 2\nevents: Ir\nsummary: 0\n\nfn=(1) f\n12 192\n\ntotals: 259343204\n")
    assert total_of(counts) == 259_343_204


def test_a_file_without_a_sum_is_not_measured(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.write_text("part: 1\nevents: Ir\n")
    with pytest.raises(Unmeasurable, match="no sum"):
        total_of(counts)


def test_median_leaves_out_a_pair_in_which_the_gateway_did_other_work_too(tmp_path: Path) -> None:
    def counts(name: str, total: int) -> Path:
        file = tmp_path / name
        file.write_text(f"totals: {total}\n")
        return file

    pairs = [
        (counts(f"short-{number}", 900), counts(f"long-{number}", 900 + more))
        for number, more in enumerate((500, 90_000, 510))
    ]
    assert median_of(pairs, 10) == (51, tmp_path / "short-2", tmp_path / "long-2")


def test_each_kind_of_client_is_a_part() -> None:
    assert {slug(workload.name) for workload in CLIENTS} <= {*PARTS}


class Answering(asyncio.Protocol):
    """One connection of a server that answers every request."""

    served = 0
    """Number of requests on all connections."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        Answering.served += data.count(b"POST /mcp")  # the load sends a request when the one before is answered
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER) + ANSWER)


@needs("gcc")
async def test_a_load_of_some_calls_ends_when_all_of_them_are_answered() -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        load = Load(port, "/mcp", "echo", BARE, 16, 60.0, 0.0, calls=100, numbered=False)
        process = await asyncio.create_subprocess_exec(built("mcpload"), *load.words, stdout=subprocess.PIPE)
        told, _ = await process.communicate()
    assert (Answering.served, b'"calls":100,' in told) == (100, True)


@needs("gcc")
def test_time_passes_slowly_for_a_process_with_the_slow_clock() -> None:
    slow = {"LD_PRELOAD": str(built("slowclock", "-shared", "-fPIC")), "SLOWCLOCK": "1000"}
    done = subprocess.run([sys.executable, "-c", SPIN], env={**os.environ, **slow}, capture_output=True, check=True)
    assert done.stdout == b"True\n"
