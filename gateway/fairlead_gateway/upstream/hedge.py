"""Hedged calls: a slow call is sent a second time, and the first answer wins.

Applies to idempotent tools of servers with `limits.hedgeAfter`. Hedging helps if a server has several pods, as the
second attempt goes to another pod. See Dean and Barroso, "The Tail at Scale" (2013).
"""

from __future__ import annotations

import asyncio

from msgspec import Raw

from fairlead_gateway.core.ports import Pending, Upstream
from fairlead_gateway.core.upstream_request import RelaySink, ResponseSink, UpstreamRequest
from fairlead_gateway.sending import RelayUpstream
from fairlead_gateway.upstream.guard import PLAIN, Guard
from fairlead_mcp.messages import ResultMembers


class HedgedUpstream(RelayUpstream):
    """Upstream that hedges the calls of one tool, `delay` seconds after the first attempt.

    The second attempt is only sent if the server's `guard` admits it.
    """

    def __init__(self, upstream: Upstream, guard: Guard, delay: float, tool: str = "") -> None:
        super().__init__(upstream)
        self.guard = guard
        self.delay = delay
        self.tool = tool

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> _Race:
        race = _Race(self, request, sink)
        race.begin()
        return race


class _Race:
    """Both attempts of one request."""

    def __init__(self, hedged: HedgedUpstream, request: UpstreamRequest, sink: ResponseSink) -> None:
        self._hedged = hedged
        self._request = request
        self._sink = sink
        self._first_attempt: Pending | None = None
        self._second_attempt: Pending | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        """Error of the first attempt, while the second one is in progress."""
        self._responses_seen = 0
        """`Guard.responses_seen` when the second attempt was sent."""
        self._has_ended = False

    @property
    def agent(self) -> str:
        """Agent that the request is counted for."""
        return self._sink.agent

    def begin(self) -> None:
        hedged = self._hedged
        self._first_attempt = hedged.upstream.send(self._request, _FirstAttemptSink(self, self._sink))
        # a client that listens for progress would get the progress of both attempts
        if not self._has_ended and not self._request.listens:
            self._timer = asyncio.get_running_loop().call_later(hedged.delay, self._send_second)

    def cancel(self) -> None:
        if not self._has_ended:
            self._finish()

    def take_result_of(self, result: Raw, members: ResultMembers | None, *, second: bool) -> None:
        if self._has_ended:
            return
        guard = self._hedged.guard
        if second:
            self._second_attempt = None
            guard.leave_after_success()
            guard.hedges_won += 1
        self._finish()
        self._sink.take_result(result, members)

    def take_error_of(self, error: Exception, *, second: bool) -> None:
        """Take the error of an attempt. If both fail, the error of the first attempt is reported."""
        if self._has_ended:
            return
        if not second and self._second_attempt is not None:
            self._error = error
            return
        if second:
            self._second_attempt = None
            hedged = self._hedged
            hedged.guard.leave(PLAIN, error, self._responses_seen, tool=hedged.tool)
            if self._error is None:
                return
            error = self._error
        self._finish()
        self._sink.take_error(error)

    def _send_second(self) -> None:
        hedged = self._hedged
        if self._has_ended or not hedged.guard.enter_hedge():
            return
        self._responses_seen = hedged.guard.responses_seen
        request = self._request.with_id(hedged.upstream.next_id())
        sink = _SecondAttemptSink(self)
        self._second_attempt = sink  # set first, because the attempt may be answered before `send` returns
        pending = hedged.upstream.send(request, sink)
        if self._second_attempt is sink:
            self._second_attempt = pending

    def _finish(self) -> None:
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._first_attempt is not None:
            self._first_attempt.cancel()
        second_attempt, self._second_attempt = self._second_attempt, None
        if second_attempt is not None:
            second_attempt.cancel()
            self._hedged.guard.leave(PLAIN, None, self._responses_seen, abandoned=True)


class _FirstAttemptSink(RelaySink):
    """Sink of the first attempt, which also relays notifications to the client."""

    def __init__(self, race: _Race, sink: ResponseSink) -> None:
        super().__init__(sink)
        self._race = race

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        self._race.take_result_of(result, members, second=False)

    def take_error(self, error: Exception) -> None:
        self._race.take_error_of(error, second=False)


class _SecondAttemptSink(ResponseSink):
    """Sink of the second attempt, which takes only the answer."""

    def __init__(self, race: _Race) -> None:
        self._race = race

    @property
    def agent(self) -> str:
        return self._race.agent

    def take_result(self, result: Raw, members: ResultMembers | None = None) -> None:
        self._race.take_result_of(result, members, second=True)

    def take_error(self, error: Exception) -> None:
        self._race.take_error_of(error, second=True)

    def cancel(self) -> None:
        """No-op: the sink is only the placeholder of the `Pending` that `send` will return."""
