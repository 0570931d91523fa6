"""Schedules the discoveries of all servers and keeps the last result of each.

The reconciler never waits for a server: it reads the last result here, and is called again after each new result. A
hanging server therefore delays neither other servers nor the repair of its own Deployment.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from fairlead_api.documents.catalog import Credential, HttpEndpoint, Refreshed, TcpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp import eras
from fairlead_mcp.child import START_SECONDS
from fairlead_mcp.errors import McpError
from fairlead_mcp.opening import PROCESS_SECONDS, reached_endpoint
from fairlead_mcp.server_listing import PackedListing, RawListing, read_everything
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.first_grant import (
    UserListing,
    ambiguous_refusal,
    may_want_sign_in,
    not_signed_in,
    prefers_user_listing,
    wants_sign_in,
)
from fairlead_operator.discovery.gated_tools import CapabilityComparisons
from fairlead_operator.discovery.list_change_streams import ListChangeStreams, ListenTarget
from fairlead_operator.discovery.loss_detection import ConnectionObserver, LossDetector
from fairlead_operator.discovery.request_slots import Slot
from fairlead_operator.discovery.state import (
    DiscoveryFailure,
    DiscoveryOptions,
    DiscoveryState,
    DiscoveryTarget,
    RefusalMeaning,
)
from fairlead_operator.off_loop import pack_listing
from fairlead_operator.ports import ApiLister, Connector

logger = logging.getLogger(__name__)

ONLY_EVENTS: Final = (
    "the server speaks only HTTP+SSE (MCP 2024-11-05), where a whole connection has one credential, but the grants of "
    "spec.auth give each request a credential of its own: use bearer or header in place of clientCredentials, "
    "tokenExchange, userConsent or userKey"
)


@dataclass(frozen=True)
class _SignInRequired:
    """Outcome of a discovery: the server lists its tools only to users who have signed in."""

    refusal: str = ""
    """Text of a refusal that may have another reason; see `ambiguous_refusal`."""


class Discoverer:
    """Runs the discoveries of all servers; calls `on_result(key)` when the discovery state of a server has changed.

    Up to `max_concurrent` discoveries run concurrently. Servers whose last discovery failed share a separate pool of a
    quarter of that size, so that any number of broken servers cannot block the healthy ones.
    """

    def __init__(
        self,
        connector: Connector,
        on_result: Callable[[ServerKey], None],
        *,
        apis: ApiLister | None = None,
        options: DiscoveryOptions | None = None,
        max_concurrent: int = 64,
        clocks: Clocks | None = None,
    ) -> None:
        clocks = clocks or Clocks()
        self._now = clocks.now
        self._connector = connector
        self._apis = apis
        self._on_result = on_result
        self._options = options or DiscoveryOptions()
        self._slots = asyncio.Semaphore(max_concurrent)
        self._failing_slots = asyncio.Semaphore(max(max_concurrent // 4, 1))
        self._monotonic = clocks.monotonic
        self._rng = clocks.rng
        self._states: dict[ServerKey, DiscoveryState] = {}
        self._requested_servers: set[ServerKey] = set()
        """Servers with a requested refresh that have no `DiscoveryState` yet."""
        self._user_listings: dict[ServerKey, UserListing] = {}
        """Newest listing of each server that a gateway read with a user's token, until the next reconcile."""
        self._failed_refreshes: dict[ServerKey, Refreshed] = {}
        """Failed refresh of each server that has no `DiscoveryState`."""
        self._comparisons = CapabilityComparisons(connector, self._after_comparison, clocks.monotonic)
        self._streams = ListChangeStreams(connector, self.request_discovery, retry=self._options.retry, rng=self._rng)
        self._loss_detector = LossDetector(
            connector, ConnectionObserver(self.take_loss, self.take_recovery), rng=self._rng
        )

    def __repr__(self) -> str:
        running_count = sum(1 for state in self._states.values() if state.task is not None)
        return f"<Discoverer servers={len(self._states)} running={running_count}>"

    def discover_if_due(
        self,
        key: ServerKey,
        target: DiscoveryTarget,
        credential: Credential | None,
        interval: float,
        *,
        await_comparison: bool = False,
    ) -> DiscoveryState:
        """The discovery state of a server; starts a discovery if one is due.

        `interval` is the discovery interval of the McpServer, in seconds. `await_comparison`: the discovery waits for
        its capability comparison, because tools of a pinned server that are added later would be held back.
        """
        state = self._states.get(key)
        if state is None or state.target != target:
            self._cancel(state)
            self._connector.end_shared_process(key)
            state = self._states[key] = self._carry_over(state, target)
            state.refresh_requested = state.refresh_requested or key in self._requested_servers
            self._requested_servers.discard(key)
        state.awaits_comparison = await_comparison
        self._take_user_listing(key, state)
        if state.task is None and self.until_due(state) <= 0:
            if state.is_announced:
                state.credit = max(self._credit(state) - 1, 0)
            state.is_announced = False
            work = self._run(key, state, credential, max(interval, self._options.floor))
            state.task = asyncio.create_task(work, name=f"discovery of {key}")
            state.began_at = self._monotonic()
            state.stale = False
            state.requested_at = self._timestamp() if state.refresh_requested else ""
            state.refresh_requested = False
        self._loss_detector.hold(key, target.endpoint)
        listing = None if state.wants_sign_in or target.api is not None else state.listing
        if listing is not None and eras.announced_lists(listing.capabilities):
            self._streams.hold(key, ListenTarget(target.endpoint, target.credential_hash, target.revision), credential)
        else:
            self._streams.drop(key)
        return state

    def pause(self, key: ServerKey, problem: str) -> DiscoveryState | None:
        """Cancel the discovery of a server that is down, and return the server's state. The next discovery is due as
        soon as the server is up.

        `problem` is the server's failure, with which a requested refresh fails. It is empty while the server is
        starting: a requested refresh then keeps waiting.
        """
        state = self._states.get(key)
        self._streams.drop(key)
        self._loss_detector.drop(key)
        if state is None:
            self._fail_refresh(key, problem)
            return None
        self._cancel(state)
        state.due = 0.0
        if state.refresh_requested or state.requested_at:
            if problem:
                state.refresh_requested = False
                state.requested_at = state.requested_at or self._timestamp()
                self._finish_refresh(state, problem)
            else:
                state.refresh_requested = True
        return state

    def stop(self, key: ServerKey, problem: str) -> None:
        """Drop a server's state. A requested refresh fails with `problem`, or keeps waiting if `problem` is empty."""
        state = self._states.get(key)
        if state is not None and (state.refresh_requested or state.requested_at):
            self._requested_servers.add(key)
        self._drop_state(key)
        self._fail_refresh(key, problem)

    def request_discovery(self, key: ServerKey, announced: str = "") -> None:
        """Schedule a discovery because the server's lists may have changed. `DiscoveryOptions` limits the rate.

        `announced` is the list that the server announced as changed; empty if there was no announcement.
        """
        state = self._states.get(key)
        if state is None:
            return
        if announced:
            state.announced[announced] = self._timestamp()
        if state.task is not None:
            state.stale = True
            return
        self._schedule_after_announcement(state)
        self._on_result(key)

    def take_listing(self, key: ServerKey, listing: UserListing) -> None:
        """Use a listing that a gateway read with a user's token, if it is newer than the last one."""
        # limit the time to now: the listing of a gateway whose clock is ahead would be newer than all others
        listing = replace(listing, at=min(listing.at, self._now().timestamp()))
        pending_listing = self._user_listings.get(key)
        if pending_listing is None or pending_listing.at < listing.at:
            self._user_listings[key] = listing
            self._on_result(key)

    def _take_user_listing(self, key: ServerKey, state: DiscoveryState) -> None:
        user_listing, target = self._user_listings.pop(key, None), state.target
        if user_listing is None or user_listing.at <= state.granted_at or target.refusal is RefusalMeaning.FAILURE:
            return
        if not user_listing.is_of(target.uid, target.endpoint):
            return
        state.wants_sign_in = True
        state.lists_read_at = max(state.lists_read_at, user_listing.at)
        state.user_listing_refusal = user_listing.refused
        if user_listing.listing is None:
            return
        state.only_events = user_listing.by_events
        state.granted_at = user_listing.at
        if not user_listing.by_events:
            state.listing = PackedListing.of(user_listing.listing)
            state.ungated_listing = None  # a running comparison must not replace the user's listing

    def take_loss(self, key: ServerKey, error: McpError) -> None:
        """Record that the server refuses connections, which counts as a failed discovery."""
        state = self._states.get(key)
        if state is None or state.failure is not None:
            return
        self._cancel(state)
        self._fail(state, DiscoveryFailure.of(error))
        self._on_result(key)

    def take_recovery(self, key: ServerKey) -> None:
        """Discover the server now, without the back-off of earlier failures, because it accepts connections again."""
        state = self._states.get(key)
        if state is None:
            return
        state.failures = 0
        self.discover_promptly(key)

    def discover_promptly(self, key: ServerKey) -> None:
        """Discover the server again because its last answer may be outdated: as soon as `DiscoveryOptions.prompt`
        seconds have passed since the last discovery began.
        """
        state = self._states.get(key)
        if state is not None and state.task is None:
            state.due = min(state.due, state.began_at + self._options.prompt)
            self._on_result(key)

    def refresh(self, key: ServerKey) -> None:
        """Discover the server as a user requests: at once, or after the running discovery; even during the pause after
        a loss.
        """
        state = self._states.get(key)
        if state is None:
            self._requested_servers.add(key)
            self._on_result(key)
            return
        state.refresh_requested = True
        state.not_before = float("-inf")
        if state.task is None:
            state.due = min(state.due, state.began_at + self._options.prompt)
            self._on_result(key)

    def last_refresh(self, key: ServerKey) -> Refreshed | None:
        """Result of the last requested refresh of the server."""
        state = self._states.get(key)
        return (state.refreshed if state is not None else None) or self._failed_refreshes.get(key)

    def forget(self, key: ServerKey) -> None:
        """Drop everything about a deleted server."""
        self._requested_servers.discard(key)
        self._user_listings.pop(key, None)
        self._failed_refreshes.pop(key, None)
        if self._apis is not None:
            self._apis.forget(key)
        self._drop_state(key)

    def _fail_refresh(self, key: ServerKey, problem: str) -> None:
        if problem and key in self._requested_servers:
            self._requested_servers.discard(key)
            self._failed_refreshes[key] = Refreshed(at=self._timestamp(), failure=problem)

    def _drop_state(self, key: ServerKey) -> None:
        self._streams.drop(key)
        self._loss_detector.drop(key)
        self._comparisons.forget(key)
        self._cancel(self._states.pop(key, None))

    def until_due(self, state: DiscoveryState) -> float:
        """Seconds until the next discovery is due; 0 if it is due now."""
        due_at = max(state.due, state.not_before) if state.failure is not None else state.due
        return max(0.0, due_at - self._monotonic())

    async def aclose(self) -> None:
        """Cancel all discoveries and connections, and wait for their end."""
        await self._streams.aclose()
        await self._loss_detector.aclose()
        await self._comparisons.aclose()
        await self._connector.aclose()
        tasks = [state.task for state in self._states.values() if state.task is not None]
        for key in list(self._states):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    def _carry_over(previous_state: DiscoveryState | None, target: DiscoveryTarget) -> DiscoveryState:
        """The state for a changed target. It includes the last answer if the endpoint is unchanged, so that a rollout
        hides no tools.
        """
        if previous_state is None or (previous_state.target.uid, previous_state.target.endpoint) != (
            target.uid,
            target.endpoint,
        ):
            return DiscoveryState(target)
        return DiscoveryState(
            target,
            listing=previous_state.listing,
            source=previous_state.source,
            ungated_listing=previous_state.ungated_listing,
            wants_sign_in=previous_state.wants_sign_in and target.refusal is not RefusalMeaning.FAILURE,
            granted_at=previous_state.granted_at,
            user_listing_refusal=previous_state.user_listing_refusal,
            lists_read_at=previous_state.lists_read_at,
            refused=previous_state.refused,
            failure=previous_state.failure,
            replaced_at=previous_state.replaced_at,
            began_at=previous_state.began_at,
            up_since=previous_state.up_since,
            losses=previous_state.losses,
            refresh_requested=previous_state.refresh_requested or bool(previous_state.requested_at),
            refreshed=previous_state.refreshed,
            announced=previous_state.announced,
        )

    @staticmethod
    def _cancel(state: DiscoveryState | None) -> None:
        if state is not None and state.task is not None:
            state.task.cancel()
            state.task = None

    async def _run(self, key: ServerKey, state: DiscoveryState, credential: Credential | None, interval: float) -> None:
        """Run one discovery and its capability comparison, and store the result."""
        try:
            async with Slot(self._failing_slots if state.failures else self._slots):
                announced = dict(state.announced)  # later announcements are for the next discovery
                outcome = await self._discover(key, state.target, credential)
            if isinstance(outcome, RawListing) and prefers_user_listing(state, interval, self._now().timestamp()):
                outcome = _SignInRequired()
            elif isinstance(outcome, RawListing) and outcome.api is None:
                outcome = structs.replace(outcome, announced=announced)
                state.ungated_listing = PackedListing.of(outcome)
                outcome = await self._compare(key, state, credential, outcome)
            listing = await pack_listing(outcome) if isinstance(outcome, RawListing) else None
            self._settle(key, state, outcome, interval, listing)
        except Exception as error:
            logger.exception("the discovery of %s failed unexpectedly", key)
            self._settle(
                key, state, DiscoveryFailure("MCPError", f"the discovery failed unexpectedly: {error!r}"), interval
            )
        if self._states.get(key) is state:
            state.task = None
            self._on_result(key)

    async def _compare(
        self, key: ServerKey, state: DiscoveryState, credential: Credential | None, listing: RawListing
    ) -> RawListing:
        is_refresh = bool(state.requested_at)
        await self._comparisons.compare(
            key,
            state.target.endpoint,
            credential,
            listing,
            is_refresh=is_refresh,
            required=is_refresh or state.awaits_comparison,
        )
        return self._comparisons.complete(key, listing)

    def _after_comparison(self, key: ServerKey) -> None:
        """Complete the listing after a capability comparison that outlasted its discovery."""
        state = self._states.get(key)
        if state is not None and state.ungated_listing is not None and state.task is None:
            state.listing = PackedListing.of(self._comparisons.complete(key, state.ungated_listing.unpack()))
            self._on_result(key)

    async def _discover(
        self, key: ServerKey, target: DiscoveryTarget, credential: Credential | None
    ) -> RawListing | DiscoveryFailure | _SignInRequired:
        try:
            if target.api is not None and self._apis is not None:
                return await self._apis.list(key, target.api)  # has timeouts of its own
            timeout_s = self._options.timeout
            start_timeout_s = PROCESS_SECONDS if isinstance(target.endpoint, TcpEndpoint) else 0.0
            async with asyncio.timeout(timeout_s + start_timeout_s) as timeout:
                async with self._connector.session(key, target.endpoint, credential) as session:
                    timeout.reschedule(min(asyncio.get_running_loop().time() + timeout_s, timeout.when() or math.inf))
                    session_endpoint = reached_endpoint(session, target.endpoint)
                    if target.token_per_call and not isinstance(session_endpoint, HttpEndpoint):
                        return DiscoveryFailure(Cause.UNSUPPORTED_VERSION, ONLY_EVENTS)
                    listing = await read_everything(session, self._options.timeout)
                    return structs.replace(listing, endpoint=session_endpoint)
        except McpError as error:
            if await self._wants_sign_in(key, target, error):
                return _SignInRequired(ambiguous_refusal(error))
            return DiscoveryFailure.of(error)
        except TimeoutError:
            return DiscoveryFailure("Timeout", f"the server did not list everything within {self._options.timeout:g} s")

    async def _wants_sign_in(self, key: ServerKey, target: DiscoveryTarget, error: McpError) -> bool:
        """Whether a server's refusal means that a user has to sign in. Without a challenge, the server's metadata
        decides.
        """
        if wants_sign_in(error, target.refusal):
            return True
        if not may_want_sign_in(error, target.refusal) or not isinstance(target.endpoint, HttpEndpoint):
            return False
        return await self._connector.offers_sign_in(key, target.endpoint)

    def _settle(
        self,
        key: ServerKey,
        state: DiscoveryState,
        outcome: RawListing | DiscoveryFailure | _SignInRequired,
        interval: float,
        listing: PackedListing | None = None,
    ) -> None:
        """Store the outcome of a discovery, and schedule the next one. `listing` is the outcome in packed form."""
        now = self._monotonic()
        jitter = 1 + self._options.jitter * (self._rng.random() - 0.5)
        if isinstance(outcome, RawListing):
            self._note_answer(state)
            state.listing = listing or PackedListing.of(outcome)
            state.source = state.target.api
            state.wants_sign_in = False
            state.granted_at = 0.0
            state.lists_read_at = 0.0
            state.user_listing_refusal = ""
            state.due = now + self._seconds_until_next(outcome, interval) * jitter
            self._finish_refresh(state, "")
        elif isinstance(outcome, _SignInRequired):
            self._note_answer(state)
            state.wants_sign_in = True
            state.refused = outcome.refusal
            state.due = now + interval * jitter
            self._finish_refresh(state, "" if state.listing is not None else not_signed_in(state))
        else:
            self._connector.end_shared_process(key)
            self._fail(state, outcome)
            state.due = min(state.due, now + interval)
        if state.stale:
            self._schedule_after_announcement(state)
        if state.refresh_requested:
            state.due = min(state.due, state.began_at + self._options.prompt)

    def _note_answer(self, state: DiscoveryState) -> None:
        """Reset the failures, because the server has answered."""
        state.up_since = self._monotonic() if state.failure is not None else state.up_since
        state.failure = state.silent_since = None
        state.failures = 0

    def _timestamp(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    @staticmethod
    def _finish_refresh(state: DiscoveryState, failure: str) -> None:
        """Store the result of the finished discovery if a user requested it."""
        if state.requested_at:
            state.refreshed = Refreshed(at=state.requested_at, failure=failure)
            state.requested_at = ""

    def _fail(self, state: DiscoveryState, failure: DiscoveryFailure) -> None:
        """Store a failure, and schedule a retry, which is postponed if the server was lost several times in a row."""
        now = self._monotonic()
        if state.failure is None:
            state.losses = 1 if now - state.up_since >= self._options.stable else state.losses + 1
            excess = state.losses - self._options.spare
            state.not_before = now + self._options.hold.delay(excess, self._rng) if excess > 0 else now
        state.failure = failure = self._replace_long_silence(state, failure)
        state.failures += 1
        self._finish_refresh(state, failure.message)
        state.due = now + self._options.retry.delay(state.failures, self._rng)

    def _replace_long_silence(self, state: DiscoveryState, failure: DiscoveryFailure) -> DiscoveryFailure:
        """`failure`, or a start timeout if the server has been silent for `START_SECONDS`."""
        if not failure.is_silence:
            state.silent_since = None
            return failure
        state.silent_since = state.began_at if state.silent_since is None else state.silent_since
        if self._monotonic() - state.silent_since < START_SECONDS:
            return failure
        return DiscoveryFailure(Cause.START_TIMEOUT, f"the server has not answered for more than {START_SECONDS:g} s")

    def _schedule_after_announcement(self, state: DiscoveryState) -> None:
        """Schedule a discovery for an announcement of the server."""
        state.is_announced = True
        pause = self._options.prompt if self._credit(state) >= 1 else self._options.floor
        state.due = min(state.due, state.began_at + min(pause, self._options.floor))

    def _credit(self, state: DiscoveryState) -> float:
        """Refill the token bucket of a server's announcements; return the number of tokens."""
        now = self._monotonic()
        state.credit = min(state.credit + (now - state.credit_computed_at) / self._options.floor, self._options.burst)
        state.credit_computed_at = now
        return state.credit

    def _seconds_until_next(self, listing: RawListing, interval: float) -> float:
        """Seconds until the next discovery: the server's `ttlMs` if that is shorter than `interval`, else `interval`.

        A `ttlMs` of 0 is ignored: the member is required, and most servers send 0 as its default.
        """
        requested_interval = listing.ttl_ms / 1000 if listing.ttl_ms else interval
        return min(max(requested_interval, self._options.floor), interval)
