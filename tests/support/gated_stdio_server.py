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
from neededprograms import require_program
from ports import free_port
from waiting import eventually

TOKEN = "a-token-of-a-test"
CREDENTIAL = CredentialRef(secret="s", key="k", hash="1")
"""Reference of a catalog to the server's token, which `write_token` stores."""


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
        """Process ids of the running servers that the listener has started."""
        return [pid for child in children(self.process.pid) if _is_listener(child) for pid in children(child)]


def write_token(folder: Path, token: str = TOKEN) -> None:
    """Store the token of CREDENTIAL for a gateway that runs in `folder`."""
    (folder / "credentials").mkdir()
    (folder / "credentials" / "s.json").write_text(json.dumps({"token": token}))


def children(pid: int) -> list[int]:
    """Process ids of direct children, without zombies."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state != "Z":
                    pids.append(int(entry.name))
    return pids


def _is_listener(pid: int) -> bool:
    """Whether a process is the `nc` that listens, not the script beside it that watches."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1] == b"nc"
    except OSError:
        return False


@contextlib.asynccontextmanager
async def gated(
    *command: str,
    token: str = TOKEN,
    most: int = 128,
    key_variable: str = "",
    program: str = "",
    watch_seconds: int = stdio_gate.WATCH_SECONDS,
) -> AsyncIterator[Gated]:
    """Serve `command`, which runs in this interpreter if it is a script, to clients with the token. With
    `key_variable`, clients also send a user's key, which the server gets in this variable. `program`: digest of the
    program. `watch_seconds`: seconds between two
    looks for processes without a connection.
    """
    busybox = require_program("busybox", "apt-get install busybox-static")
    port = free_port()
    words = [sys.executable, *command] if command[0].endswith(".py") else list(command)
    argv = stdio_gate.listener_command(
        port,
        stdio_gate.digest(token),
        words,
        max_processes=most,
        key_variable=key_variable,
        program_digest=program,
        busybox=busybox,
        watch_seconds=watch_seconds,
    )
    process = await asyncio.create_subprocess_exec(*argv, start_new_session=True)
    try:
        await _await_listener(port)
        yield Gated(port, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _await_listener(port: int) -> None:
    """Wait until the port listens, by the kernel's table of sockets, because a connection would start a server."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    await eventually(lambda: any(f":{port:04X} " in table.read_text() for table in tables))
