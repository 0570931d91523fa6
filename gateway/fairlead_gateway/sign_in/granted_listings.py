"""Reads the lists of servers that list nothing without a user's token, with the token of a user who signed in.

The operator has no grants. It receives the lists from the gateway and publishes them to everybody, so they contain only
the tools and what `OAuthSettings.shared` names: a server's resources and prompts often belong to one user.

A list is read after a sign-in, and again when it is too old. The oldest grant that still works is used, so that the
published tools always come from the same user. If there are several gateways, the gateway with the shortest random
delay reads the list. The others see in the published catalog that the list was read.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Credential
from fairlead_api.meta import ServerKey
from fairlead_api.reports import GrantedListing
from fairlead_gateway.upstream.server_consent import ServerConsent
from fairlead_mcp import via
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.errors import HttpRefused, McpError
from fairlead_mcp.masking import Mask
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import challenge_of
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.stored_grant import GrantStore, GrantStoreError
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.opening import reached_endpoint
from fairlead_mcp.server_listing import RawListing, read_shared

log = logging.getLogger(__name__)

LISTING_SECONDS: Final = 60.0
"""Time limit for reading the lists of a server with one grant."""
IDLE_SECONDS: Final = 60.0
"""Seconds between two checks for grants of a server that no user of this replica has signed in to."""
RETRY_SECONDS: Final = 2.0
"""Pause after a failure, which doubles up to IDLE_SECONDS."""
CHECK_SECONDS: Final = 1.0
"""Seconds between two checks for lists that are due."""
JITTER: Final = 0.2
"""Maximum random delay of each list, as a fraction of the interval, so that the first gateway's list can be published.
"""
MAX_PERSONS: Final = 4
"""Maximum number of users whose grants are tried, one after another, for one list."""
_NEVER: Final = float("-inf")


def _ignore(server: ServerKey, person: bytes, cause: str, seconds: float) -> None:
    """An observer that ignores listings."""


class GrantedListings:
    """Lists of one gateway's servers.

    `consents` returns all servers that users sign in to; those with `OAuthSettings.first_grant` are listed. `report`
    sends a list to the operator. `find_catalog` returns the published catalog of a server; None if there is none.
    `observe` is called for each user whose grant was tried, with the cause of a failure (empty: success) and the
    duration in seconds. `clock` returns monotonic seconds, `wall` seconds since the epoch.
    """

    def __init__(
        self,
        consents: Callable[[], Mapping[ServerKey, ServerConsent]],
        store: GrantStore | None,
        report: Callable[[GrantedListing], None],
        find_catalog: Callable[[ServerKey], Catalog | None],
        *,
        observe: Callable[[ServerKey, bytes, str, float], None] = _ignore,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._consents = consents
        self._store = store
        self._report = report
        self._find_catalog = find_catalog
        self._observe = observe
        self._clock = clock
        self._wall = wall
        self._due_times: dict[ServerKey, float] = {}
        """When the lists of a server have to be read again. A server without an entry is due now."""
        self._requested_servers: set[ServerKey] = set()
        """Servers whose lists are read now, even if another gateway has just read them."""
        self._newest_persons: dict[ServerKey, bytes] = {}
        """For each server, the last user who signed in since its lists were read."""
        self._read_settings: dict[ServerKey, tuple[str, ...]] = {}
        """Servers whose lists this replica has read, with `OAuthSettings.shared` at that time."""
        self._pauses: dict[ServerKey, Backoff] = {}
        """Pauses of servers whose last listing failed."""
        self._skip_counts: dict[ServerKey, int] = {}
        """Number of a server's oldest grants that did not work, by server. They are tried last."""
        self._reading_tasks: dict[ServerKey, asyncio.Task[None]] = {}
        """Listings in progress. They do not delay each other."""
        self._wake_event = asyncio.Event()
        self._main_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read lists. Must be called in the event loop."""
        work = self._run_listings()
        self._main_task = asyncio.get_running_loop().create_task(work, name="lists with grants of users")

    def note_sign_in(self, server: ServerKey, person: bytes) -> None:
        """Read the lists of a server now, with the grant that a user just made."""
        self._newest_persons[server] = person
        self.refresh(server)

    def refresh(self, server: ServerKey) -> None:
        """Read the lists of a server now."""
        self._requested_servers.add(server)
        self._due_times.pop(server, None)
        self._wake_event.set()

    async def aclose(self) -> None:
        tasks = [*self._reading_tasks.values(), *([] if self._main_task is None else [self._main_task])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run_listings(self) -> None:
        while True:
            self._wake_event.clear()
            try:
                await self._read_due()
            except Exception:
                log.exception("Reading lists with grants of users failed")
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._wake_event.wait()
            except TimeoutError:
                pass

    async def _read_due(self) -> None:
        now = self._clock()
        servers = {
            key: consent
            for key, consent in self._consents().items()
            if consent.settings.first_grant and consent.session is not None
        }
        for key in [key for key in self._due_times if key not in servers]:
            del self._due_times[key]
            self._newest_persons.pop(key, None)
            self._pauses.pop(key, None)
            self._read_settings.pop(key, None)
            self._skip_counts.pop(key, None)
        self._requested_servers &= servers.keys()
        for key, consent in servers.items():
            if self._read_settings.get(key, consent.settings.shared) != consent.settings.shared:
                del self._read_settings[key]
                self.refresh(key)
        due_servers = {key: consent for key, consent in servers.items() if self._due_times.get(key, _NEVER) <= now}
        due_servers = {key: consent for key, consent in due_servers.items() if key not in self._reading_tasks}
        due_servers = {
            key: consent for key, consent in due_servers.items() if not self._leaves_to_others(key, consent, now)
        }
        if due_servers:
            persons = await self._persons({str(key) for key in due_servers})
            for key, consent in due_servers.items():
                reading = self._read(key, consent, persons.get(str(key), []))
                task = asyncio.get_running_loop().create_task(reading, name=f"list {key} with a grant")
                self._reading_tasks[key] = task
                task.add_done_callback(partial(self._end, key))

    def _leaves_to_others(self, key: ServerKey, consent: ServerConsent, now: float) -> bool:
        """Whether the lists of a server need not be read now, because another gateway has read them since they were
        due. They are due again when the published lists are too old.
        """
        if key in self._requested_servers:
            return False
        catalog = self._find_catalog(key)
        if catalog is None:
            return True  # the lists were published, and are about to be served
        if not catalog.lists_read_at or (catalog.held and key not in self._due_times):
            return False  # a restarted operator learns held-back definitions only from a new list
        interval = consent.settings.listing_interval_s or float("inf")
        remaining_seconds = catalog.lists_read_at + interval - self._wall()
        if remaining_seconds <= 0:
            return False
        self._due_times[key] = now + min(remaining_seconds, interval) + self._delay(interval)
        return True

    def _delay(self, interval: float) -> float:
        return 0.0 if math.isinf(interval) else JITTER * interval * random.random()

    def _end(self, key: ServerKey, task: asyncio.Task[None]) -> None:
        del self._reading_tasks[key]
        if key in self._newest_persons:  # a user has signed in meanwhile
            self.refresh(key)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("Reading lists of the server %s failed", key, exc_info=error)

    async def _persons(self, servers: set[str]) -> dict[str, list[bytes]]:
        """For each server, the users with a grant, oldest grant first."""
        if self._store is None:
            return {}
        try:
            grants = await self._store.all_grants(servers)
        except GrantStoreError as error:
            log.warning("Servers cannot be listed with users' grants, which cannot be read: %s", error)
            return {}
        keys_by_age = sorted((grant.granted_at, key) for key, grant in grants if key.person)
        persons: dict[str, list[bytes]] = {}
        for _, key in keys_by_age:
            persons.setdefault(key.server, []).append(key.person)
        return persons

    async def _read(self, key: ServerKey, consent: ServerConsent, persons: list[bytes]) -> None:
        """Read and report the lists of one server. A failure is logged, and the lists are read again later."""
        self._requested_servers.discard(key)
        self._due_times[key] = self._clock() + IDLE_SECONDS
        for person in self._order_persons(key, persons):
            started_at, cause = self._clock(), "cancelled"
            try:
                async with asyncio.timeout(LISTING_SECONDS):
                    listing = await self._list(consent, TokenSubject(person))
            except (McpError, TimeoutError) as error:
                cause = error.cause if isinstance(error, GrantFailed) else type(error).__name__
                message = str(error) or f"it took over {LISTING_SECONDS:g} s"
                log.warning("The server %s could not be listed with the grant of a user: %s", key, message)
                if not _concerns_person(error):
                    pause = self._pauses.setdefault(key, Backoff(random.random, base=RETRY_SECONDS, cap=IDLE_SECONDS))
                    self._due_times[key] = self._clock() + pause.delay_after(0.0)
                    return
            else:
                cause = ""
                self._pauses.pop(key, None)
                self._read_settings[key] = consent.settings.shared
                interval = consent.settings.listing_interval_s or float("inf")
                self._due_times[key] = self._clock() + interval + self._delay(interval)
                self._report(_report_of(key, consent, self._wall(), listing))
                return
            finally:
                self._observe(key, person, cause, self._clock() - started_at)
        self._skip_counts[key] = self._skip_counts.get(key, 0) + MAX_PERSONS

    def _order_persons(self, key: ServerKey, persons: list[bytes]) -> list[bytes]:
        """Users in the order in which their grants are tried. The first lists of a server are read with the grant of
        the user who has just signed in, later lists with the oldest grant.
        """
        if self._skip_counts.get(key, 0) >= len(persons):
            self._skip_counts.pop(key, None)
        skip_count = self._skip_counts.get(key, 0)
        newest_person, candidates = self._newest_persons.pop(key, None), persons[skip_count : skip_count + MAX_PERSONS]
        if newest_person is None:
            return candidates
        if key in self._read_settings:
            return candidates if newest_person in candidates else [*candidates, newest_person]
        return [newest_person, *(person for person in candidates if person != newest_person)]

    async def _list(self, consent: ServerConsent, subject: TokenSubject) -> RawListing:
        """Read the lists. If the server refuses the token, another token is tried, once. Raises McpError."""
        token = consent.source.find_cached(subject) or await consent.source.obtain(subject, for_call=False)
        try:
            return await _list_with(consent, token)
        except McpError as error:
            challenge = challenge_of(error)
            if challenge is None:
                raise
        token = await consent.source.obtain(subject, refused_token=token, challenge=challenge, for_call=False)
        return await _list_with(consent, token)


def _concerns_person(error: Exception) -> bool:
    """Whether the failure concerns this user, so that another user's grant may work."""
    return isinstance(error, GrantFailed) or (isinstance(error, HttpRefused) and error.status in (401, 403))


async def _list_with(consent: ServerConsent, token: AccessToken) -> RawListing:
    assert consent.session is not None
    try:
        async with consent.session(token) as session:
            via.refuse_own(session.negotiated.gateways, consent.installation)
            listing = await read_shared(session, consent.settings.shared)
            endpoint = reached_endpoint(session, consent.endpoint)
            return listing if endpoint == consent.endpoint else msgspec.structs.replace(listing, endpoint=endpoint)
    except McpError as error:
        mask = Mask(Credential(headers={"Authorization": token.value}))
        raise mask.error(error)  # noqa: B904 - the same error, masked


def _report_of(key: ServerKey, consent: ServerConsent, at: float, listing: RawListing) -> GrantedListing:
    return GrantedListing(
        namespace=key.namespace,
        server=key.name,
        uid=consent.uid,
        url=consent.address,
        at=at,
        listing=Raw(msgspec.json.encode(listing)),
    )
