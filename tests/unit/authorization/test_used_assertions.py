"""Replicas remember the assertions with which clients authenticated."""

from __future__ import annotations

import msgspec
import pytest

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.protocol.client_assertions import MAX_OF_UNNAMED_CLIENTS, UsedAssertions
from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_authorization.sessions.spent_assertions import SpentAssertions
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from sessionworld import CLIENT, NOW
from virtualtime import HandClock

DESK = msgspec.structs.replace(CLIENT, id="desk", kind="configured")
SELF_REGISTERED = msgspec.structs.replace(CLIENT, id="registered.x", kind="registered")


def stranger(number: int = 0) -> RegisteredClient:
    return msgspec.structs.replace(CLIENT, id=f"https://host{number}.example/client")


def assertion(name: object = "1", ends: float = NOW + 60) -> dict[str, object]:
    """Claims of an assertion."""
    return {"jti": name, "exp": ends}


class Replicas:
    """Replicas with one store and clock."""

    def __init__(self) -> None:
        self.store = MemoryGrants()
        self.clock = HandClock(NOW)

    def another(self) -> UsedAssertions:
        return UsedAssertions(SpentAssertions(self.store, self.clock), ["claude.ai", "*"])


async def test_an_assertion_of_a_client_is_good_once_over_all_replicas() -> None:
    replicas = Replicas()
    here, there = replicas.another(), replicas.another()
    assert await here.take(CLIENT, assertion())
    assert not await there.take(CLIENT, assertion())
    assert not await here.take(CLIENT, assertion())
    assert await there.take(DESK, assertion())
    assert await there.take(CLIENT, assertion("2"))


@pytest.mark.parametrize("name", [None, "", 7, "x" * 257])
async def test_an_assertion_without_a_name_is_not_taken(name: object) -> None:
    assert not await Replicas().another().take(CLIENT, assertion(name))


async def test_clients_that_nobody_named_share_little_room_and_leave_others_theirs() -> None:
    replicas = Replicas()
    used = replicas.another()
    for number in range(MAX_OF_UNNAMED_CLIENTS):
        assert await used.take(stranger(number), assertion())
    for client in (stranger(), SELF_REGISTERED):
        with pytest.raises(SessionStoreUnavailable, match="too many assertions"):
            await used.take(client, assertion("2"))
    assert await used.take(CLIENT, assertion())
    assert await used.take(DESK, assertion())
    assert not await used.take(CLIENT, assertion()), "nothing was forgotten"
    replicas.clock.now += 200
    assert await used.take(SELF_REGISTERED, assertion("2", replicas.clock() + 60))
