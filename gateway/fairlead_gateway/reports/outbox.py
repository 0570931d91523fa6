"""Collects reports for the operator, and waits until there is something to report (long polling).

Each gateway has one outbox, which belongs to its event loop. If more than `MAX_ITEMS` items wait for an operator, the
oldest items are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog
from fairlead_api.meta import ServerKey
from fairlead_api.reports import AskedApproval, Doubt, GrantedListing, Report, ToolAttempts
from fairlead_gateway.reports.failing_grants import FailingGrants
from fairlead_gateway.reports.samples import SampleLog
from fairlead_mcp.waiting import wait_until_set

log = logging.getLogger(__name__)

MAX_ITEMS: Final = 1000
"""Maximum number of items that are stored until an operator fetches them: requests to refresh a server, reports of
unreachable servers (doubts) and approvals."""
DOUBT_SECONDS: Final = 1.0
"""Minimum seconds between two doubts about one server."""
MAX_LISTINGS_BYTES: Final = 8 << 20
"""Maximum bytes of the lists in one report, and so of each list. The rest follows in the next report."""
_TOO_LARGE: Final = (
    "the server lists {size:.1f} MiB with the grant of a user, and at most {limit} MiB are taken: offer fewer or "
    "smaller definitions"
)
CHECK_SECONDS: Final = 0.05
"""Seconds between two checks whether running attempts are late, while an operator waits."""

_CURSOR: Final = re.compile(r"([0-9a-f]+)\.([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})")


class Outbox:
    """Creates the reports of a gateway on request. `clock` is the clock that measures calls, and `wall` returns the
    time since the epoch; both are in seconds. `own` are the catalogs of this gateway's custom tools. `on_refresh` is
    called with each server for which a new discovery is requested.
    """

    def __init__(
        self,
        environment: str = "cluster",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        own: Iterable[Catalog] = (),
        *,
        tallying: bool = False,
        on_refresh: Callable[[ServerKey], None] = lambda _: None,
    ) -> None:
        self.samples = SampleLog(self._wake, tallying=tallying)
        self.failing_grants = FailingGrants(self._note_grants, clock, wall)
        self._environment = environment
        self._own_catalogs = tuple(own)
        self._on_refresh = on_refresh
        self._clock = clock
        self._wall = wall
        self._replica = secrets.token_hex(8)
        self._items: deque[tuple[int, ServerKey | Doubt | AskedApproval]] = deque(maxlen=MAX_ITEMS)
        self._number = 0
        self._grants_number = 0
        """`_number` at the last change of the servers whose grants fail."""
        self._listings: dict[ServerKey, tuple[int, GrantedListing]] = {}
        """For each server, the last list that was read with a user's token, and the item's number."""
        self._doubt_times: dict[ServerKey, float] = {}
        self._wake_event = asyncio.Event()
        self._reported_overdue_count = 0
        self.asked_at: float | None = None
        """When an operator last polled, in seconds since the epoch; None if no operator has polled yet."""

    def ask_refresh(self, server: ServerKey) -> None:
        """Request that the operator list a server's tools now."""
        self._on_refresh(server)
        self._add_item(server)

    def ask_approval(self, server: ServerKey, approval: str, by: str) -> None:
        """Request that the operator apply an administrator's approval of the held-back definitions with the hash
        `approval`. `by` is the administrator.
        """
        self._add_item(AskedApproval(server.namespace, server.name, approval, by))

    def add_listing(self, listing: GrantedListing) -> None:
        """Report what a server lists with a user's token. Replaces the server's previous list."""
        key = ServerKey(listing.namespace, listing.server)
        size = len(bytes(listing.listing))
        if size > MAX_LISTINGS_BYTES:
            refusal = _TOO_LARGE.format(size=size / (1 << 20), limit=MAX_LISTINGS_BYTES >> 20)
            log.warning("The lists of the server %s are not reported: %s", key, refusal)
            listing = msgspec.structs.replace(listing, listing=Raw(b"null"), refused=refusal)
        self._number += 1
        self._listings.pop(key, None)
        self._listings[key] = self._number, listing
        while len(self._listings) > MAX_ITEMS:
            del self._listings[next(iter(self._listings))]
        self._wake()

    def server_lost(self, server: ServerKey, reason: str) -> None:
        """Report that a call could not reach a server, so that the operator checks the server. Reports within
        `DOUBT_SECONDS` count as one.
        """
        now = self._clock()
        if now - self._doubt_times.get(server, float("-inf")) < DOUBT_SECONDS:
            return
        if len(self._doubt_times) >= MAX_ITEMS:
            self._doubt_times.clear()
        self._doubt_times[server] = now
        self._add_item(Doubt(server.namespace, server.name, reason))

    async def wait(self, cursor: str, seconds: float) -> Report:
        """The report since a cursor. Returns at once if there is a request, a doubt or a late attempt, otherwise after
        up to `seconds`.

        `cursor` is the cursor of the previous report. An empty cursor, or the cursor of another replica, requests all
        data.
        """
        try:
            async with asyncio.timeout(seconds):
                while not self._is_urgent(cursor):
                    self._wake_event.clear()
                    await wait_until_set(self._wake_event, CHECK_SECONDS)
        except TimeoutError:
            pass
        return self.report(cursor)

    def report(self, cursor: str) -> Report:
        """Create the report of everything since a cursor."""
        self.asked_at = self._wall()
        sample_number, item_number, listing_number = self._read(cursor)
        while self._items and self._items[0][0] <= item_number:
            # one replica of the operator has fetched the item, so other replicas need not handle it again
            self._items.popleft()
        now = self._clock()
        self.failing_grants.drop_quiet()
        tools = tuple(
            ToolAttempts(meter.server.namespace, meter.server.name, meter.tool, tuple(attempts))
            for meter, attempts in self.samples.since(sample_number, now, self._wall() - now)
        )
        self._reported_overdue_count = self.samples.overdue_count(now)
        items = [item for number, item in self._items if number > item_number]
        listings, listing_number = self._listings_since(listing_number)
        return Report(
            replica=self._replica,
            cursor=f"{self._replica}.{self.samples.sequence}.{self._number}.{listing_number}",
            environment=self._environment,
            tools=tools,
            refresh=tuple({(item.namespace, item.name): None for item in items if isinstance(item, ServerKey)}),
            doubts=tuple(item for item in items if isinstance(item, Doubt)),
            approvals=tuple(item for item in items if isinstance(item, AskedApproval)),
            failed_grants=self.failing_grants.report() if self._has_new_grants(cursor, item_number) else None,
            own=() if cursor.startswith(f"{self._replica}.") else self._own_catalogs,
            listings=listings,
        )

    def _listings_since(self, last_number: int) -> tuple[tuple[GrantedListing, ...], int]:
        """Lists after the number `last_number` that fit into one report, and the number of the last one."""
        listings: list[GrantedListing] = []
        size = 0
        for number, listing in self._listings.values():  # by their numbers
            if number <= last_number:
                continue
            size += len(bytes(listing.listing))
            if size > MAX_LISTINGS_BYTES:
                break
            listings.append(listing)
            last_number = number
        return tuple(listings), last_number

    def _add_item(self, item: ServerKey | Doubt | AskedApproval) -> None:
        self._number += 1
        self._items.append((self._number, item))
        self._wake()

    def _note_grants(self) -> None:
        self._number += 1
        self._grants_number = self._number
        self._wake()

    def _has_new_grants(self, cursor: str, item_number: int) -> bool:
        """Whether the servers with failing grants have changed since the cursor, or the cursor belongs to another
        replica.
        """
        return self._grants_number > item_number or not cursor.startswith(f"{self._replica}.")

    def _wake(self) -> None:
        self._wake_event.set()

    def _is_urgent(self, cursor: str) -> bool:
        sample_number, item_number, listing_number = self._read(cursor)
        if self._number > item_number or self._last_listing() > listing_number:
            return True
        if self.samples.overdue_count(self._clock()) > self._reported_overdue_count:
            return True
        return self._wake_event.is_set() and self.samples.sequence > sample_number

    def _last_listing(self) -> int:
        """Number of the newest list; 0 if there is none."""
        return self._listings[next(reversed(self._listings))][0] if self._listings else 0

    def _read(self, cursor: str) -> tuple[int, int, int]:
        """Numbers of the last sample, of the last item and of the last list that a cursor includes; 0 for another
        replica's cursor.
        """
        match = _CURSOR.fullmatch(cursor)
        if match is None or match[1] != self._replica:
            return 0, 0, 0
        return int(match[2]), int(match[3]), int(match[4])
