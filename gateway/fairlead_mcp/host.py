"""Host of the MCP servers that are child processes of this process.

A process has one host. In `fairlead up` operator and gateway share the host, so that each server runs once. Call
`processes.become_subreaper()` before the first server is started, and `ChildHost.aclose()` at the end.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Hashable
from typing import Protocol

from fairlead_mcp.child import START_SECONDS, STOP_SECONDS, Child, Program
from fairlead_mcp.direct import DirectLauncher
from fairlead_mcp.eras import Client
from fairlead_mcp.multiplex import Offering
from fairlead_mcp.printed import PrintedLines
from fairlead_mcp.stdio import ChildSpec, Launcher, SubprocessLauncher
from fairlead_mcp.streams import ClientSide


class ChildListener(Protocol):
    """Observer of the children's states. Called in the event loop; may not raise."""

    def child_changed(self, key: Hashable, child: Child) -> None:
        """`child.state` changed."""
        ...

    def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None:
        """The server sent a notification, such as `notifications/tools/list_changed`; `line` is the raw message."""
        ...


class ChildHost:
    """Owner of child processes by key. `get` starts a child, which runs until `retire`, a changed spec, or `aclose`.

    `logs_delays`: whether the log says when a child that ended starts again.
    """

    def __init__(
        self,
        *,
        launcher: Launcher | None = None,
        client: Client | None = None,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        start_seconds: float = START_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        logs_delays: bool = True,
    ) -> None:
        self._launcher = launcher or DirectLauncher(SubprocessLauncher())
        self._client = client or Client()
        self._random = random
        self._clock = clock
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._logs_delays = logs_delays
        self._children: dict[Hashable, Child] = {}
        self._listeners: list[ChildListener] = []
        self._closing: dict[Hashable, asyncio.Task[None]] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<ChildHost: {len(self._children)} children>"

    def get(self, key: Hashable, spec: ChildSpec, offering: Offering | None = None) -> Child:
        """Return the child of `key`, starting it with `offering` if there is none.

        If the child has another spec, it is stopped, and the new child starts after its end. Call this in the event
        loop, on the thread of the launcher.
        """
        if self._closed:
            raise RuntimeError("the child host is closed")
        child = self._children.get(key)
        if child is not None and child.program.spec == spec:
            return child
        predecessor = child
        if predecessor is not None:
            self.retire(key)
        self._children[key] = child = self._start(key, spec, offering, predecessor)
        return child

    def find(self, key: Hashable) -> Child | None:
        """Return the child of `key`, or None. Starts nothing."""
        return self._children.get(key)

    def children(self) -> dict[Hashable, Child]:
        """Return a copy of the mapping from keys to children."""
        return dict(self._children)

    def retire(self, key: Hashable) -> None:
        """Stop the child of `key` in the background. No-op without a child."""
        child = self._children.pop(key, None)
        if child is None:
            return
        predecessor = self._closing.get(key)
        task = asyncio.get_running_loop().create_task(_close(child, predecessor), name=f"close {child.name}")
        self._closing[key] = task
        task.add_done_callback(lambda done: self._closing.pop(key) if self._closing.get(key) is done else None)

    def listen(self, listener: ChildListener) -> Callable[[], None]:
        """Add an observer of all present and future children; the returned function removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def aclose(self) -> None:
        """Stop all children concurrently, in at most three times `stop_seconds` plus `containers.KILL_SECONDS`."""
        self._closed = True
        for key in list(self._children):
            self.retire(key)
        await asyncio.gather(*self._closing.values(), return_exceptions=True)
        await self._launcher.aclose()

    def _start(self, key: Hashable, spec: ChildSpec, offering: Offering | None, predecessor: Child | None) -> Child:
        child: Child

        def report_state() -> None:
            for listener in self._listeners.copy():
                listener.child_changed(key, child)

        def report_notification(method: str, line: bytes) -> None:
            for listener in self._listeners.copy():
                listener.child_notified(key, child, method, line)

        program = Program(
            str(key),
            spec,
            self._launcher,
            PrintedLines(self._clock) if predecessor is None else predecessor.program.printed,
            stop_seconds=self._stop_seconds,
            predecessor_stop=self._closing.get(key),
        )
        side = ClientSide(self._client, offering, report_notification)
        child = Child(
            program,
            side=side,
            start_seconds=self._start_seconds,
            logs_delays=self._logs_delays,
            random=self._random,
            clock=self._clock,
        )
        child.on_state = program.on_state = report_state
        return child


async def _close(child: Child, predecessor: asyncio.Task[None] | None) -> None:
    if predecessor is not None:
        await asyncio.gather(predecessor, return_exceptions=True)
    await child.aclose()
