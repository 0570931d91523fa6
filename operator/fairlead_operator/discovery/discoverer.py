"""When which server is asked, and what came of it last.

The reconciler never waits for a server: it looks at the last result here and is called again when there is a new one.
A server that hangs therefore delays neither another one nor the repair of its own Deployment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import structs

from fairlead_api.documents.catalog import Credential, Endpoint, Refreshed
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp import eras
from fairlead_mcp.child import START_SECONDS
from fairlead_mcp.errors import McpError
from fairlead_mcp.opening import reached_endpoint
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.gated_tools import CapabilityComparisons
from fairlead_operator.discovery.idleconnections import ConnectionObserver, IdleConnections
from fairlead_operator.discovery.listening import Listeners, ListenTarget
from fairlead_operator.discovery.listing import KeptListing, RawListing, read_everything
from fairlead_operator.discovery.request_slots import Slot
from fairlead_operator.discovery.state import DiscoveryFailure, DiscoveryOptions, DiscoveryState, DiscoveryTarget
from fairlead_operator.ports import Connector

logger = logging.getLogger(__name__)


class Discoverer:
    """The discoveries of all servers. `finished(key)` is called when one has come to a result.

    Up to `at_once` run side by side, servers whose last one failed in a quarter of that beside them: however many are
    down, they neither take the place of those that answer nor hold it while they hang.
    """

    def __init__(
        self,
        connector: Connector,
        finished: Callable[[ServerKey], None],
        *,
        pace: DiscoveryOptions | None = None,
        at_once: int = 64,
        clocks: Clocks | None = None,
    ) -> None:
        clocks = clocks or Clocks()
        self._now = clocks.now
        self._connector = connector
        self._finished = finished
        self._pace = pace or DiscoveryOptions()
        self._slots = asyncio.Semaphore(at_once)
        self._suspects = asyncio.Semaphore(max(at_once // 4, 1))
        self._monotonic = clocks.monotonic
        self._rng = clocks.rng
        self._rounds: dict[ServerKey, DiscoveryState] = {}
        self._wanted: set[ServerKey] = set()
        """Servers that somebody wants asked and that have no round yet."""
        self._unasked: dict[ServerKey, Refreshed] = {}
        """Why a server could not be asked when somebody wanted it; of servers without a round."""
        self._looks = CapabilityComparisons(connector, self._after_comparison, clocks.monotonic)
        self._listeners = Listeners(connector, self.hint, retry=self._pace.retry, rng=self._rng)
        self._lines = IdleConnections(connector, ConnectionObserver(self.take_loss, self.back), rng=self._rng)

    def __repr__(self) -> str:
        running = sum(1 for round_ in self._rounds.values() if round_.task is not None)
        return f"<Rounds servers={len(self._rounds)} running={running}>"

    def look(
        self,
        key: ServerKey,
        subject: DiscoveryTarget,
        credential: Credential | None,
        interval: float,
        *,
        whole: bool = False,
    ) -> DiscoveryState:
        """The state of a server; starts a discovery when one is due. `interval` is the McpServer's, in seconds;
        `whole`: what is missing in the first answer would be held back later.
        """
        round_ = self._rounds.get(key)
        if round_ is None or round_.subject != subject:
            self._cancel(round_)
            round_ = self._rounds[key] = self._succeeding(round_, subject)
            round_.wanted = round_.wanted or key in self._wanted
            self._wanted.discard(key)
        round_.whole = whole
        if round_.task is None and self.until_due(round_) <= 0:
            if round_.hinted:
                round_.credit = max(self._credit(round_) - 1, 0)
            round_.hinted = False
            work = self._ask(key, round_, credential, max(interval, self._pace.floor))
            round_.task = asyncio.create_task(work, name=f"discovery of {key}")
            round_.asked_at = self._monotonic()
            round_.stale = False
            round_.answering = self._stamp() if round_.wanted else ""
            round_.wanted = False
        self._lines.hold(key, subject.endpoint)
        if round_.listing is not None and eras.announced(round_.listing.capabilities):
            self._listeners.hold(
                key, ListenTarget(subject.endpoint, subject.credential_hash, subject.revision), credential
            )
        else:
            self._listeners.drop(key)
        return round_

    def pause(self, key: ServerKey, why: str) -> DiscoveryState | None:
        """There is nothing to ask now; the next look asks at once. What is known of the server, if anything. `why`: it
        failed; empty while it is on its way, when a request to ask it goes on waiting.
        """
        round_ = self._rounds.get(key)
        self._listeners.drop(key)
        self._lines.drop(key)
        if round_ is None:
            self._give_up(key, why)
            return None
        self._cancel(round_)
        round_.due = 0.0
        if round_.wanted or round_.answering:
            if why:
                round_.wanted = False
                round_.answering = round_.answering or self._stamp()
                self._answer(round_, why)
            else:
                round_.wanted = True
        return round_

    def stop(self, key: ServerKey, why: str) -> None:
        """Forget what the server answered; a request to ask it is kept, or answered with `why` it cannot be."""
        round_ = self._rounds.get(key)
        if round_ is not None and (round_.wanted or round_.answering):
            self._wanted.add(key)
        self._forget_round(key)
        self._give_up(key, why)

    def hint(self, key: ServerKey, announced: str = "") -> None:
        """Its lists may have changed: have it asked soon, but no more often than `DiscoveryOptions` allows.
        `announced`: the list that it says has; empty where it says nothing.
        """
        round_ = self._rounds.get(key)
        if round_ is None:
            return
        if announced:
            round_.announced[announced] = self._stamp()
        if round_.task is not None:
            round_.stale = True
            return
        self._follow(round_)
        self._finished(key)

    def take_loss(self, key: ServerKey, error: McpError) -> None:
        """It accepts no connection, which is as good as a discovery that failed."""
        round_ = self._rounds.get(key)
        if round_ is None or round_.failure is not None:
            return
        self._cancel(round_)
        self._fail(round_, DiscoveryFailure(error.reason, error.problem))
        self._finished(key)

    def back(self, key: ServerKey) -> None:
        """It accepts connections again: ask it now, whatever the back-off of earlier failures."""
        round_ = self._rounds.get(key)
        if round_ is None:
            return
        round_.failures = 0
        self.soon(key)

    def soon(self, key: ServerKey) -> None:
        """There is reason to think that the last answer does not hold any more: ask it now, `DiscoveryOptions.prompt`
        apart.
        """
        round_ = self._rounds.get(key)
        if round_ is not None and round_.task is None:
            round_.due = min(round_.due, round_.asked_at + self._pace.prompt)
            self._finished(key)

    def refresh(self, key: ServerKey) -> None:
        """Somebody wants it asked now: at once, or after the discovery that runs; also where it is left alone."""
        round_ = self._rounds.get(key)
        if round_ is None:
            self._wanted.add(key)
            self._finished(key)
            return
        round_.wanted = True
        round_.held = float("-inf")
        if round_.task is None:
            round_.due = min(round_.due, round_.asked_at + self._pace.prompt)
            self._finished(key)

    def last_refresh(self, key: ServerKey) -> Refreshed | None:
        """The last answer to a request to ask the server."""
        round_ = self._rounds.get(key)
        return (round_.refreshed if round_ is not None else None) or self._unasked.get(key)

    def forget(self, key: ServerKey) -> None:
        """The server is gone."""
        self._wanted.discard(key)
        self._unasked.pop(key, None)
        self._forget_round(key)

    def _give_up(self, key: ServerKey, why: str) -> None:
        if why and key in self._wanted:
            self._wanted.discard(key)
            self._unasked[key] = Refreshed(at=self._stamp(), failure=why)

    def _forget_round(self, key: ServerKey) -> None:
        self._listeners.drop(key)
        self._lines.drop(key)
        self._looks.forget(key)
        self._cancel(self._rounds.pop(key, None))

    def until_due(self, round_: DiscoveryState) -> float:
        """Seconds until the next discovery of a server is due."""
        when = max(round_.due, round_.held) if round_.failure is not None else round_.due
        return max(0.0, when - self._monotonic())

    async def aclose(self) -> None:
        """Cancel what runs and wait for its end."""
        await self._listeners.aclose()
        await self._lines.aclose()
        await self._looks.aclose()
        tasks = [round_.task for round_ in self._rounds.values() if round_.task is not None]
        for key in list(self._rounds):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    def _succeeding(before: DiscoveryState | None, subject: DiscoveryTarget) -> DiscoveryState:
        """A server whose address did not change keeps its last answer until the next one, so that a rollout hides no
        tools.
        """
        if before is None or (before.subject.uid, before.subject.endpoint) != (subject.uid, subject.endpoint):
            return DiscoveryState(subject)
        return DiscoveryState(
            subject,
            listing=before.listing,
            listed=before.listed,
            failure=before.failure,
            asked_at=before.asked_at,
            up=before.up,
            losses=before.losses,
            wanted=before.wanted or bool(before.answering),
            refreshed=before.refreshed,
            announced=before.announced,
        )

    @staticmethod
    def _cancel(round_: DiscoveryState | None) -> None:
        if round_ is not None and round_.task is not None:
            round_.task.cancel()
            round_.task = None

    async def _ask(
        self, key: ServerKey, round_: DiscoveryState, credential: Credential | None, interval: float
    ) -> None:
        try:
            async with Slot(self._suspects if round_.failures else self._slots):
                announced = dict(round_.announced)  # what is announced from here on, the next discovery answers
                outcome = await self._discover(key, round_.subject.endpoint, credential)
            if isinstance(outcome, RawListing):
                outcome = structs.replace(outcome, announced=announced)
                round_.listed = KeptListing.of(outcome)
                outcome = await self._compared_with(key, round_, credential, outcome)
            self._settle(round_, outcome, interval)
        except Exception as error:
            logger.exception("the discovery of %s broke down", key)
            self._settle(round_, DiscoveryFailure("MCPError", f"the discovery broke down: {error!r}"), interval)
        if self._rounds.get(key) is round_:
            round_.task = None
            self._finished(key)

    async def _compared_with(
        self, key: ServerKey, round_: DiscoveryState, credential: Credential | None, listing: RawListing
    ) -> RawListing:
        again = bool(round_.answering)
        await self._looks.compare(
            key, round_.subject.endpoint, credential, listing, again=again, whole=again or round_.whole
        )
        return self._looks.complete(key, listing)

    def _after_comparison(self, key: ServerKey) -> None:
        """A comparison is over that no discovery waits for."""
        round_ = self._rounds.get(key)
        if round_ is not None and round_.listed is not None and round_.task is None:
            round_.listing = KeptListing.of(self._looks.complete(key, round_.listed.unpack()))
            self._finished(key)

    async def _discover(
        self, key: ServerKey, endpoint: Endpoint, credential: Credential | None
    ) -> RawListing | DiscoveryFailure:
        try:
            async with asyncio.timeout(self._pace.timeout):
                async with self._connector.session(key, endpoint, credential) as session:
                    listing = await read_everything(session, self._pace.timeout)
                    return structs.replace(listing, endpoint=reached_endpoint(session, endpoint))
        except McpError as error:
            return DiscoveryFailure(error.reason, error.problem)
        except TimeoutError:
            return DiscoveryFailure("Timeout", f"it did not list everything within {self._pace.timeout:g} s")

    def _settle(self, round_: DiscoveryState, outcome: RawListing | DiscoveryFailure, interval: float) -> None:
        now = self._monotonic()
        if isinstance(outcome, RawListing):
            round_.up = now if round_.failure is not None else round_.up
            round_.listing = KeptListing.of(outcome)
            round_.failure = round_.silent_since = None
            round_.failures = 0
            delay = self._freshness(outcome, interval) * (1 + self._pace.jitter * (self._rng.random() - 0.5))
            round_.due = now + delay
            self._answer(round_, "")
        else:
            self._fail(round_, outcome)
            round_.due = min(round_.due, now + interval)
        if round_.stale:
            self._follow(round_)
        if round_.wanted:
            round_.due = min(round_.due, round_.asked_at + self._pace.prompt)

    def _stamp(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    @staticmethod
    def _answer(round_: DiscoveryState, failure: str) -> None:
        """Where the discovery that is over was asked for, say what came of it."""
        if round_.answering:
            round_.refreshed = Refreshed(at=round_.answering, failure=failure)
            round_.answering = ""

    def _fail(self, round_: DiscoveryState, failure: DiscoveryFailure) -> None:
        now = self._monotonic()
        if round_.failure is None:
            round_.losses = 1 if now - round_.up >= self._pace.stable else round_.losses + 1
            more = round_.losses - self._pace.spare
            round_.held = now + self._pace.hold.delay(more, self._rng) if more > 0 else now
        round_.failure = failure = self._overdue(round_, failure)
        round_.failures += 1
        self._answer(round_, failure.message)
        round_.due = now + self._pace.retry.delay(round_.failures, self._rng)

    def _overdue(self, round_: DiscoveryState, failure: DiscoveryFailure) -> DiscoveryFailure:
        """The failure, or that of a start that takes too long where nothing was said for so many seconds."""
        if not failure.is_silence:
            round_.silent_since = None
            return failure
        round_.silent_since = round_.asked_at if round_.silent_since is None else round_.silent_since
        if self._monotonic() - round_.silent_since < START_SECONDS:
            return failure
        return DiscoveryFailure(Cause.START_TIMEOUT, f"it has not answered for {START_SECONDS:g} s and more")

    def _follow(self, round_: DiscoveryState) -> None:
        """An announcement makes a discovery due."""
        round_.hinted = True
        gap = self._pace.prompt if self._credit(round_) >= 1 else self._pace.floor
        round_.due = min(round_.due, round_.asked_at + min(gap, self._pace.floor))

    def _credit(self, round_: DiscoveryState) -> float:
        now = self._monotonic()
        round_.credit = min(round_.credit + (now - round_.credited) / self._pace.floor, self._pace.burst)
        round_.credited = now
        return round_.credit

    def _freshness(self, listing: RawListing, interval: float) -> float:
        """Seconds until the next discovery: sooner than the interval where the server says its lists will not keep.

        A `ttlMs` of 0 says nothing: most servers send it because they have to send something.
        """
        hint = listing.ttl_ms / 1000 if listing.ttl_ms else interval
        return min(max(hint, self._pace.floor), interval)
