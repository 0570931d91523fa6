"""Keys that users entered: for which servers and until when they are valid."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

import pytest

from fairlead_api.documents.catalog import ChildEndpoint
from fairlead_api.documents.oauth import USER_KEY, OAuthSettings, UserKeySettings
from fairlead_mcp.oauth.entered_keys import (
    MAX_KEY_CHARS,
    REFUSED_SECONDS,
    EnteredKeys,
    KeyEntry,
    UnusableKey,
    key_token,
    normalize_key,
    program_address,
)
from fairlead_mcp.oauth.errors import CONFIGURATION, INSUFFICIENT_SCOPE, SIGN_IN_REQUIRED, GrantFailed
from fairlead_mcp.oauth.memory_grants import MemoryGrants
from fairlead_mcp.oauth.stored_grant import USED_SECONDS, GrantKey, GrantStoreError, StoredGrant
from fairlead_mcp.oauth.subject import GATEWAY, TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_grants import GrantRequest

HEADER = UserKeySettings(header="X-Api-Key")
ALICE = TokenSubject(b"alice")
WISH = GrantRequest(ALICE, frozenset(), frozenset(), "")
STORED = GrantKey(b"alice", "team/desk")


class ReadOnlyGrants(MemoryGrants):
    """A store that can become full."""

    full = False

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        if self.full:
            raise GrantStoreError("the store is full")
        return await super().write(key, grant, replaces)


class Keys:
    """Keys of one server, with a clock that the test sets."""

    def __init__(
        self, *, url: str = "https://desk.test/mcp", uid: str = "1", store: MemoryGrants | None = None
    ) -> None:
        self.now = 1_000.0
        self.store = store or MemoryGrants()
        nothing = cast("Any", None)
        settings = OAuthSettings(grant=USER_KEY, user_key=HEADER)
        access = TokenAccess(
            url, nothing, server="team/desk", server_uid=uid, clock=lambda: self.now, monotonic=lambda: self.now
        )
        self.entered = EnteredKeys(settings, access, self.store)
        self.entry = KeyEntry(settings, access)

    async def enter(self, key: str) -> None:
        await self.store.write(STORED, self.entry.grant_of(key, "alice of a provider"))

    async def read_used_at(self) -> float:
        stored = await self.store.read(STORED)
        assert stored is not None
        return stored.grant.used_at

    async def value(self, **more: Any) -> str:
        return (await self.entered.token(WISH._replace(**more))).value


async def cause_of(work: Awaitable[Any]) -> tuple[str, str]:
    with pytest.raises(GrantFailed) as failed:
        await work
    return failed.value.cause, str(failed.value)


async def test_a_key_is_that_which_its_person_entered_last() -> None:
    keys = Keys()
    assert await cause_of(keys.value()) == (
        SIGN_IN_REQUIRED,
        "you have not entered your key for team/desk: enter your key",
    )
    await keys.enter("first")
    assert await keys.value() == "first"
    assert await keys.entered.has_consent(b"alice")
    keys.now += 1
    await keys.enter("second")
    assert not await keys.entered.has_consent(b"alice")
    assert await keys.value() == "second"
    await keys.store.delete(STORED)
    assert not await keys.entered.has_consent(b"alice")


async def test_a_refused_key_is_tried_again_after_a_minute() -> None:
    keys = Keys()
    await keys.enter("first")
    assert await keys.value() == "first"
    refused = "the server team/desk refused your key (401): enter your key"
    assert await cause_of(keys.value(refused_token="first")) == (SIGN_IN_REQUIRED, refused)
    keys.now += REFUSED_SECONDS - 1
    assert await cause_of(keys.value()) == (SIGN_IN_REQUIRED, refused)
    keys.now += 2
    assert await keys.value() == "first"


async def test_a_new_key_is_used_at_once_after_a_refused_one() -> None:
    keys = Keys()
    await keys.enter("first")
    await cause_of(keys.value(refused_token="first"))
    keys.now += 1
    await keys.enter("second")
    assert await keys.value() == "second"
    assert await keys.value(refused_token="first") == "second"


@pytest.mark.parametrize(
    ("moved", "why"),
    [
        ({"url": "https://other.test/mcp"}, "but the server is at https://other.test/mcp now"),
        ({"uid": "2"}, "that you entered your key for was removed"),
    ],
)
async def test_a_key_is_for_the_server_that_it_was_entered_for(moved: dict[str, str], why: str) -> None:
    keys = Keys()
    await keys.enter("first")
    cause, text = await cause_of(Keys(store=keys.store, **cast("Any", moved)).value())
    assert cause == SIGN_IN_REQUIRED
    assert why in text


async def test_a_key_that_calls_are_made_with_counts_as_used() -> None:
    keys = Keys()
    await keys.enter("first")
    keys.now += USED_SECONDS
    await keys.value(for_call=False)
    assert await keys.read_used_at() == 0.0
    token = await keys.entered.token(WISH)
    assert await keys.read_used_at() == keys.now
    assert keys.now < token.expires_at <= keys.now + USED_SECONDS  # so that a later use is recorded
    assert await keys.entered.has_consent(b"alice")


async def test_a_key_is_good_while_the_store_does_not_take_its_use() -> None:
    store = ReadOnlyGrants()
    keys = Keys(store=store)
    await keys.enter("first")
    store.full = True
    keys.now += USED_SECONDS
    assert await keys.value() == "first"


async def test_no_key_gets_more_rights_by_itself() -> None:
    keys = Keys()
    await keys.enter("first")
    assert (await cause_of(keys.value(step_up=frozenset({"write"}))))[0] == INSUFFICIENT_SCOPE


def test_a_caller_that_is_not_a_person_has_no_key() -> None:
    with pytest.raises(GrantFailed, match="the caller is not a user"):
        Keys().entered.check(GATEWAY)
    Keys().entered.check(ALICE)


@pytest.mark.parametrize("key", [None, UserKeySettings(), UserKeySettings(header="X", env="X")])
def test_settings_that_do_not_say_where_the_key_goes_are_refused(key: UserKeySettings | None) -> None:
    access = TokenAccess("https://desk.test/mcp", cast("Any", None))
    with pytest.raises(GrantFailed) as failed:
        KeyEntry(OAuthSettings(grant=USER_KEY, user_key=key), access)
    assert failed.value.cause == CONFIGURATION


@pytest.mark.parametrize("text", ["", " ", "a b", "a\nb", "a\x00", "kéy", "k" * (MAX_KEY_CHARS + 1)])
def test_a_key_is_one_printable_word(text: str) -> None:
    with pytest.raises(UnusableKey):
        normalize_key(HEADER, text)
    assert normalize_key(HEADER, " key\r\n") == "key"


def test_the_line_of_a_key_is_its_header() -> None:
    assert key_token(HEADER, "key", 0.0).header == {"X-Api-Key": "key"}
    bearer = key_token(UserKeySettings(header="Authorization", prefix="Bearer"), "key", 0.0)
    assert bearer.header_line == b"Authorization: Bearer key\r\n"
    assert "key" not in repr(bearer)


def test_the_longest_key_can_be_stored() -> None:
    assert Keys().entry.grant_of("k" * MAX_KEY_CHARS, "h" * 300).fits


def test_the_address_of_a_program_tells_nothing_of_its_arguments() -> None:
    address = program_address(ChildEndpoint(command="npx", args=("--token=secret",)))
    assert address.startswith("the program npx (")
    assert "secret" not in address
    assert address != program_address(ChildEndpoint(command="npx", args=("--token=", "secret")))
