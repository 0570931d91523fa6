"""Access tokens are dropped after the end of their grant, at whichever replica it ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead_api.meta import ServerKey
from fairlead_gateway.grants.ended_grants import EndedGrants
from fairlead_gateway.grants.folder_store import FolderGrantStore
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant
from waiting import eventually

LINEAR = GrantKey(b"local", "default/linear")
SENTRY = GrantKey(b"local", "default/sentry")
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r1")


class Tokens:
    """Access tokens of one replica."""

    def __init__(self) -> None:
        self.reviewed: asyncio.Queue[tuple[ServerKey, bytes]] = asyncio.Queue()
        self.looked_at: asyncio.Queue[ServerKey] = asyncio.Queue()
        self.failures: dict[str, list[Exception]] = {}
        """Errors of the next reviews, by the name of the server."""

    def forget(self, server: ServerKey, person: bytes, reason: str = "") -> None:
        raise AssertionError("only an ended account is forgotten unseen")

    async def review(self, server: ServerKey, person: bytes) -> None:
        self.looked_at.put_nowait(server)
        if self.failures.get(server.name):
            raise self.failures[server.name].pop()
        self.reviewed.put_nowait((server, person))


def store_in(folder: Path) -> FolderGrantStore:
    return FolderGrantStore(folder, MachineKeys(folder, lambda: None))


async def test_access_tokens_of_changed_grants_are_reviewed(tmp_path: Path) -> None:
    store, other, tokens = store_in(tmp_path), store_in(tmp_path), Tokens()
    await other.write(LINEAR, GRANT)
    ended = EndedGrants(store, tokens)
    ended.start()
    await store.write(GrantKey(b"", "registration:https://as"), GRANT)
    await store.write(SENTRY, GRANT)
    assert await tokens.reviewed.get() == (ServerKey("default", "sentry"), b"local")
    await other.delete(LINEAR)
    while await tokens.reviewed.get() != (ServerKey("default", "linear"), b"local"):
        continue  # the replica may also see its own change in the folder
    await ended.aclose()
    await store.aclose()


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


async def test_a_change_that_the_store_does_not_explain_is_looked_at_until_it_does() -> None:
    store, tokens = MemoryGrants(), Tokens()
    tokens.failures["linear"] = [GrantStoreError("the store is away") for _ in range(3)]
    tokens.failures["sentry"] = [GrantStoreError("the store is away") for _ in range(5)]
    ended = EndedGrants(store, tokens, no_pause)
    ended.start()
    await asyncio.sleep(0)
    await store.write(LINEAR, GRANT)
    await store.write(SENTRY, GRANT)
    await eventually(lambda: tokens.reviewed.qsize() == 2)
    assert tokens.looked_at.qsize() == 10
    await ended.aclose()


async def test_an_unforeseen_error_ends_neither_the_watch_nor_goes_unlogged(caplog: pytest.LogCaptureFixture) -> None:
    store, tokens = MemoryGrants(), Tokens()
    tokens.failures["linear"] = [RuntimeError("a fault of the program")]
    ended = EndedGrants(store, tokens, no_pause)
    ended.start()
    await asyncio.sleep(0)
    await store.write(LINEAR, GRANT)
    await store.write(SENTRY, GRANT)
    assert await tokens.reviewed.get() == (ServerKey("default", "sentry"), b"local")
    assert "a fault of the program" in caplog.text
    await ended.aclose()


@pytest.mark.parametrize(
    ("key", "server"),
    [
        (LINEAR, ServerKey("default", "linear")),
        (GrantKey(b"", "registration:https://as"), None),
        (GrantKey(b"", "default/linear"), None),
        (GrantKey(b"local", "linear"), None),
    ],
)
def test_a_grant_of_a_person_is_for_a_server(key: GrantKey, server: ServerKey | None) -> None:
    assert granted_server(key) == server


async def test_a_store_in_memory_tells_of_deletions_alone_where_they_are_asked_for() -> None:
    store = MemoryGrants()
    deletions = store.changes(deletions=True)
    first = asyncio.ensure_future(anext(deletions))
    await asyncio.sleep(0)
    await store.write(LINEAR, GRANT)
    await store.write(SENTRY, GRANT)
    await store.delete(SENTRY)
    assert await first == SENTRY
