"""A sign-in that another replica completes wakes the calls that wait here, with one read per change and no other
reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import LOCAL
from fairlead_gateway.sign_in.pending import PendingSignIns
from fairlead_gateway.sign_in.sealed_sign_ins import SignInSealer
from fairlead_gateway.sign_in.sign_ins import RETRY_SECONDS, SignIns, SignInServices
from fairlead_gateway.sign_in.site import SignInSite
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant, VersionedGrant
from virtualtime import HandClock, in_virtual_time

pytestmark = in_virtual_time

LINEAR = ServerKey("default", "linear")
KEY = GrantKey(LOCAL.person, str(LINEAR))
OPENED = 1_000.0
BEFORE, AFTER = (StoredGrant("https://as", "client", refresh_token="r", granted_at=OPENED + by) for by in (-9, 9))


class CountedGrants(MemoryGrants):
    """Store that counts its reads, and lets some of them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.failures: list[Exception] = []
        """Errors of the next reads."""
        self.hold = asyncio.Event()
        """Event for which the answers to reads wait."""
        self.hold.set()

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        self.reads += 1
        if self.failures:
            raise self.failures.pop(0)
        stored = await super().read(key)
        await self.hold.wait()
        return stored


class Replica(NamedTuple):
    """A replica at which calls wait for one user's sign-in."""

    store: CountedGrants
    sign_ins: SignIns
    pending: PendingSignIns
    clock: HandClock
    waiting: list[asyncio.Task[bool]]

    async def write_elsewhere(self, grant: StoredGrant, key: GrantKey = KEY) -> bool:
        """Let another replica write a grant. Returns whether the calls continued within some seconds."""
        await self.store.write(key, grant)
        await asyncio.sleep(5 * RETRY_SECONDS)
        return all(call.done() for call in self.waiting)


@asynccontextmanager
async def replica(calls: int = 1) -> AsyncIterator[Replica]:
    store, nothing = CountedGrants(), cast("Any", None)
    services = SignInServices(
        site=SignInSite(lambda: "http://127.0.0.1:1", is_local=True),
        store=store,
        find_consent=nothing,
        needs_grants=nothing,
        all_consents=nothing,
        find_credentials=nothing,
        forget_key=lambda server, person: None,
        note_sign_in=nothing,
        clock=nothing,
    )
    clock = HandClock(OPENED)
    pending = PendingSignIns(SignInSealer(b"key"), clock)
    sign_ins = SignIns(services, pending)
    sign_ins.start()
    await sign_ins.link(LOCAL, LINEAR, None)
    waiting = [asyncio.create_task(sign_ins.wait(LOCAL, LINEAR, 3_600)) for _ in range(calls)]
    await asyncio.sleep(1)
    yield Replica(store, sign_ins, pending, clock, waiting)
    await sign_ins.aclose()


async def test_calls_that_wait_share_the_reads_and_nothing_is_read_without_a_change() -> None:
    async with replica(calls=200) as here:
        await asyncio.sleep(600)
        assert here.store.reads == 0
        assert not await here.write_elsewhere(AFTER, KEY._replace(person=b"somebody"))
        assert here.store.reads == 0
        assert await here.write_elsewhere(AFTER)
        assert here.store.reads == 1


async def test_a_renewal_of_an_earlier_consent_ends_no_sign_in() -> None:
    async with replica() as here:
        assert not await here.write_elsewhere(BEFORE)
        await here.store.delete(KEY)
        assert not await here.write_elsewhere(msgspec.structs.replace(BEFORE, renewed_at=OPENED + 5))
        assert await here.write_elsewhere(AFTER)


async def test_a_store_that_is_away_for_a_moment_hides_no_sign_in() -> None:
    async with replica() as here:
        here.store.failures = [GrantStoreError("away"), GrantStoreError("away")]
        assert await here.write_elsewhere(AFTER)


async def test_a_failure_costs_only_the_change_that_it_came_with() -> None:
    async with replica() as here:
        here.store.failures = [RuntimeError("a failure"), UnreadableGrant("its key is lost")]
        assert not await here.write_elsewhere(AFTER)
        assert not await here.write_elsewhere(AFTER)
        assert await here.write_elsewhere(AFTER)


async def test_a_late_answer_about_a_completed_sign_in_does_not_end_the_next_one() -> None:
    async with replica() as here:
        here.store.hold.clear()
        assert not await here.write_elsewhere(AFTER)
        first = here.sign_ins.of_caller(LOCAL, LINEAR)
        assert first is not None
        here.pending.close(first)
        here.clock.now += 60
        link = await here.sign_ins.link(LOCAL, LINEAR, None)
        here.store.hold.set()
        await asyncio.sleep(RETRY_SECONDS)
        assert here.sign_ins.of_caller(LOCAL, LINEAR) is not None
        assert await here.sign_ins.link(LOCAL, LINEAR, None) == link
