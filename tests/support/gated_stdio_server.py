"""A real server on stdio behind the real listener and gate, as they run in a pod, on a free port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from fairlead_api.documents.catalog import CredentialRef, TcpEndpoint
from fairlead_operator.server import stdio_gate
from neededprograms import required
from ports import free_port
from waiting import eventually

TOKEN = "a-token-of-a-test"
CREDENTIAL = CredentialRef(secret="s", key="k", hash="1")
"""Where a catalog has the token of a server: see `write_token`."""


@dataclass(frozen=True)
class Gated:
    """A running listener."""

    port: int
    process: asyncio.subprocess.Process

    @property
    def endpoint(self) -> TcpEndpoint:
        return TcpEndpoint(host="127.0.0.1", port=self.port)

    @property
    def servers(self) -> list[int]:
        """Process ids of the servers that it has started and that live (the listener itself is not a server)."""
        pids = []
        for child in children(self.process.pid):  # also what looks for processes without a connection
            if command_of(child)[1:2] == [b"nc"]:
                pids += children(child)
        return pids


def write_token(folder: Path, token: str = TOKEN) -> None:
    """Give a gateway that runs in a folder the token of CREDENTIAL."""
    (folder / "credentials").mkdir()
    (folder / "credentials" / "s.json").write_text(json.dumps({"token": token}))


def command_of(pid: int) -> list[bytes]:
    """Words of a process's command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """Direct children; a zombie is none."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state != "Z":
                    pids.append(int(entry.name))
    return pids


@contextlib.asynccontextmanager
async def gated(
    *command: str, token: str = TOKEN, most: int = 128, key_variable: str = "", program: str = "", look_s: int = 10
) -> AsyncIterator[Gated]:
    """Serve `command` (of this interpreter, where it is a script) to clients with the token, who send keys of users
    for a variable if it is named; `program` is the digest of the program. `look_s`: seconds between two looks for
    processes without a connection.
    """
    busybox = required("busybox", "apt-get install busybox-static")
    port = free_port()
    words = [sys.executable, *command] if command[0].endswith(".py") else list(command)
    keys = {"key_variable": key_variable, "program_digest": program}
    argv = stdio_gate.listen(port, stdio_gate.digest(token), words, most=most, look_s=look_s, **keys, busybox=busybox)
    process = await asyncio.create_subprocess_exec(*argv, start_new_session=True)
    try:
        await _listening(port)
        yield Gated(port, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _listening(port: int) -> None:
    """Seen in the table of sockets: a connection would start a server."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    await eventually(lambda: any(f":{port:04X} " in table.read_text() for table in tables))
