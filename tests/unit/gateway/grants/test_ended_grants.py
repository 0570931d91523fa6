"""Access tokens are dropped once their grant has ended, at whichever replica."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead_api.meta import ServerKey
from fairlead_gateway.grants.ended_grants import EndedGrants
from fairlead_gateway.grants.folder_store import FolderGrantStore
from fairlead_gateway.grants.granted_server import granted_server
from fairlead_gateway.grants.machine_keys import MachineKeys
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant

LINEAR = GrantKey(b"local", "default/linear")
SENTRY = GrantKey(b"local", "default/sentry")
GRANT = StoredGrant(issuer="https://as", client_id="c", refresh_token="r1")


class Tokens:
    """Access tokens of one replica."""

    def __init__(self) -> None:
        self.forgotten: asyncio.Queue[tuple[ServerKey, bytes]] = asyncio.Queue()

    def forget(self, server: ServerKey, person: bytes) -> None:
        self.forgotten.put_nowait((server, person))


class RememberingKeyring:
    """A keyring that only one of two processes can reach."""

    def __init__(self) -> None:
        self.password: str | None = None

    def get_password(self, service: str, username: str) -> str | None:
        return self.password

    def set_password(self, service: str, username: str, password: str) -> None:
        self.password = password


def store_in(folder: Path) -> FolderGrantStore:
    return FolderGrantStore(folder, MachineKeys(folder, lambda: None))


async def test_only_an_ended_grant_drops_the_access_token(tmp_path: Path) -> None:
    store, tokens = store_in(tmp_path), Tokens()
    ended = EndedGrants(store, tokens)
    ended.start()
    for key in (LINEAR, SENTRY, GrantKey(b"", "registration:https://as")):
        await store.write(key, GRANT)
    await store.delete(GrantKey(b"", "registration:https://as"))
    await store.write(LINEAR, GRANT)  # renewed
    await store.delete(SENTRY)
    assert await tokens.forgotten.get() == (ServerKey("default", "sentry"), b"local")
    assert tokens.forgotten.empty()
    await ended.aclose()
    await store.aclose()


async def test_a_grant_that_ended_at_another_replica_drops_the_access_token_here(tmp_path: Path) -> None:
    store, other, tokens = store_in(tmp_path), store_in(tmp_path), Tokens()
    await other.write(LINEAR, GRANT)
    ended = EndedGrants(store, tokens)
    ended.start()
    await other.delete(LINEAR)
    assert await tokens.forgotten.get() == (ServerKey("default", "linear"), b"local")
    await ended.aclose()
    await store.aclose()


async def test_a_changed_grant_that_cannot_be_read_drops_the_access_token(tmp_path: Path) -> None:
    keyring = RememberingKeyring()
    store, tokens = store_in(tmp_path), Tokens()
    other = FolderGrantStore(tmp_path, MachineKeys(tmp_path, lambda: keyring))
    ended = EndedGrants(store, tokens)
    ended.start()
    await other.write(LINEAR, GRANT)
    assert await tokens.forgotten.get() == (ServerKey("default", "linear"), b"local")
    await ended.aclose()
    await store.aclose()


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
