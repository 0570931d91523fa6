"""Lists that are read with users' grants: with whose grant, when, and after which events again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from fairlead_api.documents.catalog import Catalog, HttpEndpoint
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_api.meta import ServerKey
from fairlead_api.reports import GrantedListing
from fairlead_gateway.sign_in.granted_listings import IDLE_SECONDS, MAX_PERSONS, GrantedListings
from fairlead_gateway.upstream.server_consent import ServerConsent
from fairlead_mcp.errors import ConnectFailed, HttpRefused, McpError
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.server_listing import RawListing
from virtualtime import HandClock

LINEAR = ServerKey("default", "linear")


def catalog_of(**members: Any) -> Catalog:
    """The published catalog of the server."""
    endpoint = HttpEndpoint(url="http://linear/mcp")
    return Catalog(
        namespace="default",
        name="linear",
        uid="uid",
        generation=1,
        protocol_version="2026-07-28",
        endpoint=endpoint,
        **members,
    )


class Listed:
    """A server whose sessions fail. Records whose grants were used to list."""

    def __init__(self, *, interval: float = 0.0) -> None:
        self.persons: list[str] = []
        self.published: Catalog | None = catalog_of()
        self.ended: set[bytes] = set()
        self.errors: dict[str, McpError] = {}
        self.hangs = False
        settings = OAuthSettings(grant=USER_CONSENT, first_grant=True, listing_interval_s=interval)
        endpoint = HttpEndpoint(url="http://linear/mcp")
        self.consent = ServerConsent(settings, "uid", endpoint, "", cast("Any", None), cast("Any", self), self.session)

    def find_cached(self, subject: TokenSubject) -> AccessToken | None:
        return None

    async def obtain(self, subject: TokenSubject, **_: Any) -> AccessToken:
        if subject.person in self.ended:
            raise GrantFailed("ended", cause=SIGN_IN_REQUIRED)
        return AccessToken.bearer(subject.person.decode(), float("inf"), frozenset())

    @contextlib.asynccontextmanager
    async def session_of(self, person: str) -> AsyncIterator[None]:
        self.persons.append(person)
        if self.hangs:
            await asyncio.Event().wait()
        if person:
            raise self.errors.get(person) or ConnectFailed("away")
        yield

    def session(self, token: AccessToken) -> Any:
        return self.session_of(token.value)


async def lists_of(server: Listed, *persons: str) -> tuple[GrantedListings, HandClock, list[GrantedListing]]:
    """Lists of a server with grants of these users, who granted access in this order."""
    store, clock, reports = MemoryGrants(), HandClock(0.0), cast("list[GrantedListing]", [])
    for number, person in enumerate(persons, 1):
        grant = StoredGrant("https://issuer", "client", granted_at=number)
        await store.write(GrantKey(person.encode(), str(LINEAR)), grant)
    await store.write(GrantKey(b"", "registration:https://issuer"), StoredGrant("https://issuer", "client"))
    lists = GrantedListings(
        lambda: {LINEAR: server.consent}, store, reports.append, lambda _: server.published, clock=clock, wall=clock
    )
    return lists, clock, reports


async def read_due(lists: GrantedListings) -> None:
    """Read the lists that are due, and wait until they are read."""
    await lists._read_due()
    await asyncio.gather(*lists._reading_tasks.values())
    await asyncio.sleep(0)


async def test_lists_are_those_of_the_oldest_grant_that_is_still_good() -> None:
    server = Listed()
    lists, clock, _ = await lists_of(server, "alice", "bob", "carol")
    await read_due(lists)
    assert server.persons == ["alice"]
    server.ended = {b"alice", b"bob"}
    clock.now += IDLE_SECONDS
    await read_due(lists)
    assert server.persons == ["alice", "carol"]


async def test_old_grants_that_do_not_work_keep_no_other_from_being_used() -> None:
    server = Listed()
    persons = [f"p{number}" for number in range(2 * MAX_PERSONS + 1)]
    lists, clock, _ = await lists_of(server, *persons)
    server.ended = {person.encode() for person in persons[:MAX_PERSONS]}
    for _ in range(3):
        await read_due(lists)
        clock.now += IDLE_SECONDS
    good = persons[MAX_PERSONS]
    assert server.persons == [good, good]
    server.ended = {person.encode() for person in persons[1:]}
    for _ in range(3):
        await read_due(lists)
        clock.now += IDLE_SECONDS
    assert server.persons == [good, good, "p0"], "those that did not work are tried again"


async def test_a_server_that_cannot_be_listed_is_tried_again_after_longer_pauses() -> None:
    server = Listed()
    lists, clock, reports = await lists_of(server, "alice")
    tried = []
    while clock.now < 300:
        before = len(server.persons)
        await read_due(lists)
        if len(server.persons) > before:
            tried.append(clock.now)
        clock.now += 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert pauses[0] <= 2
    assert max(pauses) <= IDLE_SECONDS + 1
    assert len(tried) < 15
    assert reports == []


@pytest.mark.parametrize("persons", [(), ("alice",)])
async def test_a_sign_in_and_a_refresh_list_at_once(persons: tuple[str, ...]) -> None:
    server = Listed()
    lists, _, _ = await lists_of(server, *persons)
    await read_due(lists)
    lists.note_sign_in(LINEAR, b"dora")
    await read_due(lists)
    assert server.persons == [*persons, "dora"]
    lists.refresh(LINEAR)
    await read_due(lists)
    assert len(server.persons) == (3 if persons else 1)


async def test_lists_are_read_again_when_the_spec_shares_another_part_of_them() -> None:
    server = Listed()
    lists, _, _ = await lists_of(server, "alice")
    lists._read_settings[LINEAR], lists._due_times[LINEAR] = (), float("inf")
    await read_due(lists)
    assert server.persons == []
    settings = msgspec.structs.replace(server.consent.settings, shared=("prompts",))
    server.consent = msgspec.structs.replace(server.consent, settings=settings)
    await read_due(lists)
    assert server.persons == ["alice"]


async def test_later_lists_stay_those_of_the_oldest_grant_after_another_person_has_signed_in() -> None:
    server = Listed()
    lists, _, _ = await lists_of(server, "alice", "dora")
    lists._read_settings[LINEAR] = ()
    lists.note_sign_in(LINEAR, b"dora")
    await read_due(lists)
    assert server.persons == ["alice"]


@pytest.mark.parametrize("signed_in", [b"", b"carol"])
async def test_a_person_whom_the_server_refuses_does_not_keep_the_lists_from_others(signed_in: bytes) -> None:
    server = Listed()
    refused = HttpRefused("no longer a member", status=403)
    server.errors = {"alice": refused, "bob": refused}
    lists, _, _ = await lists_of(server, "alice", "bob", "carol")
    tried: list[tuple[bytes, str]] = []
    lists._observe = lambda server, person, cause, seconds: tried.append((person, cause))
    lists._read_settings[LINEAR] = ()
    if signed_in:
        lists.note_sign_in(LINEAR, signed_in)
    await read_due(lists)
    assert server.persons == ["alice", "bob", "carol"]
    assert tried == [(b"alice", "HttpRefused"), (b"bob", "HttpRefused"), (b"carol", "ConnectFailed")]


async def test_servers_that_list_to_everybody_are_left_alone() -> None:
    server = Listed()
    lists, _, _ = await lists_of(server, "alice")
    lists._consents = dict
    lists.note_sign_in(LINEAR, b"alice")
    await read_due(lists)
    assert server.persons == []


async def test_a_server_that_hangs_delays_no_other_and_is_asked_once() -> None:
    hanging, quick = Listed(), Listed()
    hanging.hangs = True
    lists, _, _ = await lists_of(hanging, "alice")
    other = ServerKey("default", "notion")
    lists._consents = lambda: {LINEAR: hanging.consent, other: quick.consent}
    await lists._read_due()
    lists.note_sign_in(other, b"bob")
    lists.note_sign_in(LINEAR, b"bob")
    await lists._read_due()
    await lists._read_due()
    await lists._reading_tasks[other]
    assert (hanging.persons, quick.persons) == (["bob"], ["bob"])
    await lists.aclose()
    assert lists._reading_tasks == {}


INTERVAL = 100.0


async def test_lists_of_several_gateways_are_read_by_one_of_them_per_interval() -> None:
    server = Listed(interval=INTERVAL)
    gateways = [await lists_of(server, "alice") for _ in range(5)]
    reads: list[int] = []

    async def read(number: int, now: float) -> RawListing:
        reads.append(number)
        server.published = catalog_of(lists_read_at=now)
        return RawListing("2026-07-28")

    for number, (lists, clock, _) in enumerate(gateways):
        lists._list = lambda *_, number=number, clock=clock: read(number, clock.now)  # type: ignore[method-assign] # the server answers
    for second in range(1, int(INTERVAL) * 10):
        for lists, clock, _ in gateways:
            clock.now = float(second)
            await read_due(lists)
    assert 8 <= len(reads) <= 10
    assert len(set(reads)) > 1, "not the same gateway each time"


@pytest.mark.parametrize(
    ("members", "reads"),
    [
        ({"lists_read_at": 950.0}, False),
        ({"lists_read_at": 850.0}, True),
        ({"lists_read_at": 1500.0}, False),
        ({"lists_read_at": 950.0, "held": 1}, True),
        ({}, True),
    ],
    ids=["fresh", "old", "by a clock that is ahead", "with definitions held back", "never"],
)
async def test_a_gateway_that_starts_reads_the_lists_that_no_other_has_just_read(
    members: dict[str, Any], reads: bool
) -> None:
    server = Listed(interval=INTERVAL)
    lists, clock, _ = await lists_of(server, "alice")
    clock.now = 1000.0
    server.published = catalog_of(**members)
    await read_due(lists)
    assert bool(server.persons) is reads
    lists.refresh(LINEAR)
    await read_due(lists)
    assert server.persons, "a refresh that somebody asks for always reads"


async def test_lists_wait_for_the_catalog_of_their_server() -> None:
    server = Listed()
    lists, _, _ = await lists_of(server, "alice")
    server.published = None
    await read_due(lists)
    assert server.persons == []
    server.published = catalog_of()
    await read_due(lists)
    assert server.persons == ["alice"]
