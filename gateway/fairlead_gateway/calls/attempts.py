"""Attempts of a request that a task waits for: let in by its server's guard, and made again where that is sensible.

Used by `calls.forward`; what plain calls do by callbacks (`calls.flight`) in the form of a coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

from fairlead_gateway.calls.retries import next_delay
from fairlead_gateway.core.ports import AdmissionGuard, Ticket
from fairlead_gateway.upstream.guard import PLAIN
from fairlead_mcp.errors import McpError, Timeout

T = TypeVar("T")


class _Place:
    """A task's place in the queue of a guard."""

    def __init__(self, deadline: float, agent: Hashable) -> None:
        self.deadline = deadline
        self.agent = agent
        self.future: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()

    def admitted(self, ticket: Ticket) -> None:
        self.future.set_result(ticket)

    def refused(self, error: McpError) -> None:
        self.future.set_exception(error)


async def attempted(
    guard: AdmissionGuard,
    attempt: Callable[[], Awaitable[T]],
    *,
    agent: Hashable,
    deadline: float,
    retries: int,
    idempotent: bool,
    impatient: bool = False,
    what: str = "",
) -> T:
    """What `attempt` returns, within the guard. `agent` is who asks; `deadline` is in seconds of the guard's clock,
    and with `impatient` says nothing of the server. `what` is asked for: a tool, or something else by its name.

    Raises what the last attempt raised, guard.Refused, and Timeout where no place came free in time.
    """
    made = 0
    while True:
        ticket = await _entered(guard, deadline, agent, again=made > 0)
        heard = guard.heard
        made += 1
        try:
            result = await attempt()
        except McpError as error:
            guard.leave(ticket, error, heard, given_up=impatient and isinstance(error, Timeout), tool=what)
            wait = next_delay(
                error, attempt=made, retries=retries, idempotent=idempotent, left=deadline - guard.clock(),
                random=guard.random(),
            )  # fmt: skip
            if wait is None or not guard.may_retry():
                raise
        except BaseException:
            guard.leave(ticket, None, heard, given_up=True)
            raise
        else:
            guard.leave(ticket, None, heard)
            return result
        await asyncio.sleep(wait)


async def _entered(guard: AdmissionGuard, deadline: float, agent: Hashable, *, again: bool) -> Ticket:
    if guard.enter_now():
        return PLAIN
    place = _Place(deadline, agent)
    ticket = guard.enter(place, again=again)
    if ticket:
        return ticket
    try:
        return await place.future
    except asyncio.CancelledError:
        if place.future.done() and not place.future.cancelled() and place.future.exception() is None:
            guard.leave(place.future.result(), None, guard.heard, given_up=True)  # let in and given up at once
        guard.withdraw(place)
        raise
