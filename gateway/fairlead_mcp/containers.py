"""Stops the containers of servers whose command is `docker run` or `podman run`.

The engine runs the container, not the client process `docker` or `podman`, so the container survives the end of the
client. The first process of a container also ignores SIGTERM unless the program handles the signal. Each run therefore
gets a label, by which its container is found and killed after the client has ended.
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
"""Limit for killing a container."""
_FLAGS: Final = frozenset(
    {"-D", "--debug", "--tls", "--tlsverify", "-r", "--remote", "--noout", "--syslog", "--trace", "--transient-store"}
)
"""Options before the command `run` that take no value; other options take the next word as their value."""
_ENVIRONMENT: Final = ("docker_", "container_", "xdg_")
"""Prefixes, in lower case, of environment variables by which a client finds its engine, besides `HOME` and `PATH`."""


def _index_of_run(command: str, args: Sequence[str]) -> int | None:
    """Return the index of the word `run` in the arguments of an engine; None for other commands."""
    if PurePath(command).name not in ENGINES:
        return None
    index = 0
    while index < len(args) and args[index].startswith("-"):
        index += 1 if "=" in args[index] or args[index] in _FLAGS else 2
    index += list(args[index : index + 1]) == ["container"]
    return index if list(args[index : index + 1]) == ["run"] else None


def starts_container(endpoint: Endpoint) -> bool:
    """Whether a server is started by `docker run` or `podman run`, possibly with options before `run`."""
    return isinstance(endpoint, ChildEndpoint) and _index_of_run(endpoint.command, endpoint.args) is not None


class ContainerRun:
    """One run of a container. `run_index` is the index of the word `run` in `args`, `environment` the complete
    environment of the client process, and `argv` the command with the label.
    """

    def __init__(self, command: str, args: Sequence[str], run_index: int, environment: Mapping[str, str]) -> None:
        label = f"{LABEL}={secrets.token_hex(8)}"
        self.argv = (command, *args[: run_index + 1], "--label", label, *args[run_index + 1 :])
        client = shlex.join((command, *args[:run_index]))
        self._environment = environment
        self._script = (
            f"ids=$({client} ps --all --quiet --no-trunc --filter {shlex.quote(f'label={label}')}) && "
            f'[ -n "$ids" ] && {client} kill $ids'
        )

    @classmethod
    def of(cls, command: str, args: Sequence[str], environment: Mapping[str, str]) -> ContainerRun | None:
        """Make a run for a command; None if the command starts no container."""
        run_index = _index_of_run(command, args)
        return None if run_index is None else cls(command, args, run_index, environment)

    def kill_line(self) -> str:
        """Return a line of shell that sets the client's variables and kills the container; empty if that needs more
        than one line.
        """
        variables = {
            name: value
            for name, value in self._environment.items()
            if name in ("HOME", "PATH") or name.lower().startswith(_ENVIRONMENT)
        }
        exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in variables.items())
        line = f"({exports}{self._script}) >/dev/null 2>&1"
        return "" if "\n" in line else line

    async def kill(self) -> None:
        """Kill the container if it still runs. Bounded in time; failures of the engine are ignored."""
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
            engine = PurePath(self.argv[0]).name
            logger.warning(
                "a container of %s cannot be killed and may still run, as /bin/sh cannot be started: %s", engine, error
            )
            return
        try:
            async with asyncio.timeout(KILL_SECONDS):
                await process.wait()
        except TimeoutError:
            engine = PurePath(self.argv[0]).name
            logger.warning("%s did not kill a container within %g s: it may still run", engine, KILL_SECONDS)
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()
