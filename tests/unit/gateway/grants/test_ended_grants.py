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
        self.reviewed: asyncio.Queue[tuple[ServerKey, bytes]] = asyncio.Queue()

    def forget(self, server: ServerKey, person: bytes) -> None:
        raise AssertionError("only an ended account is forgotten unseen")

    async def review(self, server: ServerKey, person: bytes) -> None:
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
        continue  # the own change may be seen in the folder too
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
