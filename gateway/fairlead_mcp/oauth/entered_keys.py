"""Authenticates calls by keys that users have entered for servers (`auth: userKey`).

A key is stored with the grants, bound to the server for which it was entered, and sent unchanged. If the server refuses
it (401), its user is asked for another key. The refused key remains stored, and is tried again after a while, because
the server may have erred.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import ChildEndpoint, TcpEndpoint
from fairlead_api.documents.oauth import OAuthSettings, UserKeySettings
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.client_registrations import translate_store_errors
from fairlead_mcp.oauth.errors import CONFIGURATION, INSUFFICIENT_SCOPE, SIGN_IN_REQUIRED, GrantFailed
from fairlead_mcp.oauth.stored_grant import (
    GrantKey,
    GrantStore,
    GrantStoreError,
    StoredGrant,
    UnreadableGrant,
    VersionedGrant,
)
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_grants import GrantRequest, TokenGrants

MAX_KEY_CHARS: Final = 1_024
"""Maximum length of a key."""
REFUSED_SECONDS: Final = 60.0
"""Time after which a key that its server has refused is tried again."""
CACHED_SECONDS: Final = 3_600.0
"""Time after which a key is read from the store again, and its use is recorded there."""
_KEY: Final = re.compile(r"[!-~]+")
Value = TypeVar("Value")


class UnusableKey(Exception):
    """A text cannot be a key. The message says why, and does not quote the text."""


class _RefusedKey(NamedTuple):
    """A key that its server has refused."""

    entered_at: float
    """`granted_at` of the key's grant."""
    until: float
    """Monotonic seconds until which the key is not tried again."""


class EnteredKeys(TokenGrants):
    """Keys of all users for one server. Raises GrantFailed if the server's settings do not describe a key."""

    def __init__(self, settings: OAuthSettings, access: TokenAccess, store: GrantStore) -> None:
        self._settings = require_key_settings(settings)
        self._access = access
        self._store = store
        self._entry_times: OrderedDict[bytes, float] = OrderedDict()
        """`granted_at` of the key of each person's last calls, by person."""
        self._refused_keys: OrderedDict[bytes, _RefusedKey] = OrderedDict()

    def check(self, subject: TokenSubject) -> None:
        if not subject.person:
            text = "calls of the server need a key that each user enters, and the caller is not a user"
            raise GrantFailed(text, cause=SIGN_IN_REQUIRED)

    async def token(self, request: GrantRequest) -> AccessToken:
        person, server = request.subject.person, self._access.server
        if request.step_up:
            text = f"{server} requires a key with more rights than yours: give your key these rights, or enter another"
            raise GrantFailed(text, cause=INSUFFICIENT_SCOPE)
        with translate_store_errors():
            stored = await self._store.read(GrantKey(person, server))
        grant = None if stored is None else stored.grant
        if grant is not None and request.refused_token and request.refused_token == grant.user_key:
            self._store_last(
                self._refused_keys, person, _RefusedKey(grant.granted_at, self._access.monotonic() + REFUSED_SECONDS)
            )
        problem = self.sign_in_problem(person, grant)
        if problem or stored is None or grant is None:
            raise key_required(problem)
        if request.for_call:
            await self._note_use(GrantKey(person, server), stored)
        self._refused_keys.pop(person, None)
        self.note_consent(person, grant)
        return key_token(self._settings, grant.user_key, self._access.clock() + CACHED_SECONDS)

    async def _note_use(self, key: GrantKey, stored: VersionedGrant) -> None:
        """Record the use of a key in the store, which deletes unused keys. Errors of the store are ignored."""
        used_grant = stored.grant.with_use(self._access.clock())
        if used_grant is not stored.grant:
            with suppress(GrantStoreError):
                await self._store.write(key, used_grant, stored.version)

    def sign_in_problem(self, person: bytes, grant: StoredGrant | None) -> str:
        server, address = self._access.server, self._access.address
        if grant is None or not grant.user_key:
            return f"you have not entered your key for {server}"
        if grant.server_address != address:
            return f"you entered your key for {server} at {grant.server_address}, but the server is at {address} now"
        if grant.server_uid != self._access.server_uid:
            return f"the server {server} that you entered your key for was removed, and another one has its name now"
        refusal = self._refused_keys.get(person)
        if refusal is not None and refusal.entered_at == grant.granted_at and self._access.monotonic() < refusal.until:
            return f"the server {server} refused your key (401)"
        return ""

    async def has_consent(self, person: bytes) -> bool:
        try:
            stored = await self._store.read(GrantKey(person, self._access.server))
        except UnreadableGrant:  # a grant exists, sealed by a replica that already has a newer key
            return True
        return stored is not None and self._entry_times.get(person) == stored.grant.granted_at

    def note_consent(self, person: bytes, grant: StoredGrant) -> None:
        self._store_last(self._entry_times, person, grant.granted_at)

    def forget(self, person: bytes) -> None:
        self._entry_times.pop(person, None)
        self._refused_keys.pop(person, None)

    def invalidate_discovery(self) -> None:
        """No-op: nothing is discovered."""

    async def aclose(self) -> None:
        self._entry_times.clear()
        self._refused_keys.clear()

    def _store_last(self, table: OrderedDict[bytes, Value], person: bytes, value: Value) -> None:
        """Set the value of a person, as the most recent one of the table, and drop the oldest value if necessary."""
        table[person] = value
        table.move_to_end(person)
        if len(table) > self._access.max_tokens:
            table.popitem(last=False)


class KeyEntry:
    """Checks the keys that users enter for one server, and makes their grants. Raises GrantFailed if the server's
    settings do not describe a key.
    """

    def __init__(self, settings: OAuthSettings, access: TokenAccess) -> None:
        self.settings = require_key_settings(settings)
        self._access = access

    def grant_of(self, key: str, holder: str) -> StoredGrant:
        """The grant of a key that the user `holder` has just entered. Raises UnusableKey."""
        return StoredGrant(
            issuer="",
            client_id="",
            user_key=normalize_key(self.settings, key),
            granted_at=self._access.clock(),
            server_address=self._access.address,
            server_uid=self._access.server_uid,
            holder=holder,
        )


def require_key_settings(settings: OAuthSettings) -> UserKeySettings:
    """The settings of users' keys. Raises GrantFailed unless they name either a header or an environment variable."""
    key = settings.user_key
    if key is None or bool(key.header) == bool(key.env):
        text = "the server's settings do not say how keys of users are sent: set either header or env"
        raise GrantFailed(text, cause=CONFIGURATION)
    return key


def normalize_key(settings: UserKeySettings, text: str) -> str:
    """A key as it is stored and sent: without surrounding blanks. Raises UnusableKey."""
    key = text.strip()
    if not key:
        raise UnusableKey("the key is empty")
    if len(key) > MAX_KEY_CHARS:
        raise UnusableKey(f"the key is longer than {MAX_KEY_CHARS} characters")
    if _KEY.fullmatch(key) is None:
        raise UnusableKey(
            "the key contains blanks or characters that are not printable ASCII: copy only the key itself"
        )
    if settings.starts_with and not key.startswith(settings.starts_with):
        raise UnusableKey(f"keys of this server begin with {' or '.join(settings.starts_with)}")
    return key


def key_token(settings: UserKeySettings, key: str, expires_at: float) -> AccessToken:
    """The access token of calls with a key. Its `header_line` is the header of the key, or its environment variable in
    the form of a header. The key is read again at `expires_at`, in seconds since the epoch.
    """
    value = f"{settings.prefix} {key}" if settings.prefix else key
    line = f"{settings.header or settings.env}: {value}\r\n".encode("ascii")
    return AccessToken(key, expires_at, frozenset(), line)


def line_value(line: bytes) -> str:
    """The value in the `header_line` of `key_token`."""
    return line.decode("ascii").partition(": ")[2].removesuffix("\r\n")


def program_address(endpoint: ChildEndpoint | TcpEndpoint) -> str:
    """Address of a server that is a program, in place of a URL. It contains a digest of the program's arguments."""
    if isinstance(endpoint, TcpEndpoint):
        return f"the program {endpoint.program} ({endpoint.program_digest})"
    digest = sha256(*(word.encode() for word in (endpoint.command, *endpoint.args)))
    return f"the program {endpoint.command} ({digest[:16]})"


def key_required(problem: str) -> GrantFailed:
    """The failure for a user who has to enter a key."""
    return GrantFailed(f"{problem}: enter your key", cause=SIGN_IN_REQUIRED)
