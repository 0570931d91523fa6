"""Containers of servers whose command is `docker run` or `podman run`: named as they start, ended with their server.

The engine runs a container, and not the client that asked for it, so the container outlives a client that is killed,
and a program that is the first process of a container ignores SIGTERM unless it handles it. Each run gets a label, by
which its container is ended once the client is gone.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

from fairlead_api.documents.catalog import ChildEndpoint, Endpoint
from fairlead_mcp.processes import signal_group

logger = logging.getLogger(__name__)

ENGINES: Final = frozenset({"docker", "podman"})
LABEL: Final = "fairlead.dev/run"
KILL_SECONDS: Final = 5.0
"""Bound of ending a container."""
_FLAGS: Final = frozenset(
    {"-D", "--debug", "--tls", "--tlsverify", "-r", "--remote", "--noout", "--syslog", "--trace", "--transient-store"}
)
"""Options of the engines in front of their command that take no value; any other one takes the next word."""
_ENVIRONMENT: Final = ("docker_", "container_", "xdg_")
"""How the variables begin, in lower case, by which a client finds its engine, beside `HOME` and `PATH`."""


def _run_at(command: str, args: Sequence[str]) -> int | None:
    """Index of the word `run` in the arguments of an engine; None where something else is run."""
    if PurePath(command).name not in ENGINES:
        return None
    index = 0
    while index < len(args) and args[index].startswith("-"):
        index += 1 if "=" in args[index] or args[index] in _FLAGS else 2
    index += list(args[index : index + 1]) == ["container"]
    return index if list(args[index : index + 1]) == ["run"] else None


def starts_container(endpoint: Endpoint) -> bool:
    """Whether a server is started by `docker run` or `podman run`, behind options of the engine or not."""
    return isinstance(endpoint, ChildEndpoint) and _run_at(endpoint.command, endpoint.args) is not None


class ContainerRun:
    """One start of such a command. `environment` is the whole one of the client. `argv` is what is to be started."""

    def __init__(self, command: str, args: Sequence[str], at: int, environment: Mapping[str, str]) -> None:
        label = f"{LABEL}={secrets.token_hex(8)}"
        self.argv = (command, *args[: at + 1], "--label", label, *args[at + 1 :])
        client = shlex.join((command, *args[:at]))
        self._environment = environment
        self._script = (
            f"ids=$({client} ps --all --quiet --no-trunc --filter {shlex.quote(f'label={label}')}) && "
            f'[ -n "$ids" ] && {client} kill $ids'
        )

    @classmethod
    def of(cls, command: str, args: Sequence[str], environment: Mapping[str, str]) -> ContainerRun | None:
        """The start of a command; None where it starts no container."""
        at = _run_at(command, args)
        return None if at is None else cls(command, args, at, environment)

    def last_will(self) -> str:
        """Line for a shell without our environment that does as `kill`."""
        variables = {
            name: value
            for name, value in self._environment.items()
            if name in ("HOME", "PATH") or name.lower().startswith(_ENVIRONMENT)
        }
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items())
        line = f"({exports}{self._script}) >/dev/null 2>&1"
        return "" if "\n" in line else line

    async def kill(self) -> None:
        """End the container, if it still runs. Bounded; raises nothing of the engine's."""
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                self._script,
                env=dict(self._environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            logger.warning("the container of a server may still run, as /bin/sh cannot be started: %s", error)
            return
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await process.wait()
        except TimeoutError:
            engine = PurePath(self.argv[0]).name
            logger.warning("%s did not end a container within %g s: it may still run", engine, KILL_SECONDS)
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()
