"""Authenticates API keys, which are read from any number of sources such as files and Secrets.

Each source delivers its document of keys whenever the document changes. A key that was deleted or changed is revoked at
once, and its streams end. While a source cannot be read, its last document stays in use, so that an outage of the API
server neither invalidates keys nor restores deleted ones.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from fairlead_api.policies.subjects import API_KEYS, Key
from fairlead_gateway.core.identity import Identity, Kind
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.key_format import PREFIX, KeyDocument, KeyMaker, KeyRecord, digest, id_of
from fairlead_gateway.identity.names import Issuers, keys_of_names
from fairlead_gateway.identity.refusal import UNAVAILABLE, CredentialRefusal

log = logging.getLogger(__name__)

ALONE: Final = Issuers(api_keys=True)
"""Issuers of a gateway that accepts API keys only."""
UNKNOWN_KEY: Final = CredentialRefusal(401, "this API key is unknown, has expired or was revoked", "invalid_token")
_NO_HASH: Final = "0" * 64
"""Hash that an unknown key is compared with, so that the check takes the same time for every key."""


class KeySource(Protocol):
    """Source of API keys."""

    name: str

    async def run(self, deliver: Callable[[KeyDocument], None]) -> None:
        """Deliver the document of keys now and whenever it changes, until cancelled."""
        ...


class ApiKeys:
    """`Authenticator` of API keys. `now` returns seconds since the epoch; `issuers` are all issuers that policies may
    name.
    """

    kind: Kind = "apiKey"
    cache_seconds = float("inf")

    def __init__(self, sources: Sequence[KeySource], now: Callable[[], float], issuers: Issuers = ALONE) -> None:
        self._sources = tuple(sources)
        self._now = now
        self._documents: dict[str, KeyDocument] = {}
        self._issuers = issuers
        self._records: Mapping[str, KeyRecord] = {}
        self._names: frozenset[Key] = frozenset()
        self._revoke_identities: Revoke | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def recognizes(self, token: str) -> bool:
        return token.startswith(PREFIX)

    def check(self, token: str) -> Verdict | None:
        record = self._records.get(id_of(token) or "")
        matches = hmac.compare_digest(digest(token), _NO_HASH if record is None else record.hash)
        if record is None or not matches:
            return UNKNOWN_KEY if self._all_read else UNAVAILABLE
        if record.expires_at <= self._now():
            return UNKNOWN_KEY
        if record.maker is not None:
            return self._check_created_key(record, record.maker)
        return Identity(
            kind=self.kind,
            principal=f"key:{record.agent}",
            agent=record.agent,
            groups=frozenset(record.groups),
            issuers=(API_KEYS,),
            doubtful=self._issuers.ambiguous_names_of_api_key(record.groups),
            credential=record.id,
            expires_at=record.expires_at,
        )

    @property
    def _all_read(self) -> bool:
        """Whether every source has delivered its document."""
        return len(self._documents) == len(self._sources)

    def _check_created_key(self, record: KeyRecord, maker: KeyMaker) -> Verdict:
        """Verdict on a key that a principal created for itself: the identity of that principal. If the key was created
        with another API key, it is accepted only while the other API key is valid.
        """
        agent = record.agent or None
        if maker.kind == "jwt":
            doubtful = self._issuers.ambiguous_names_of_token(agent, record.groups)
        else:
            parent = self._records.get(maker.credential)
            if parent is None:
                return UNKNOWN_KEY if self._all_read else UNAVAILABLE
            if parent.maker is not None or not _has_same_names(parent, record) or parent.expires_at <= self._now():
                return UNKNOWN_KEY
            doubtful = self._issuers.ambiguous_names_of_api_key(record.groups)
        return Identity(
            kind=self.kind,
            principal=maker.principal,
            agent=agent,
            groups=frozenset(record.groups),
            issuers=maker.issuers,
            doubtful=doubtful,
            scopes=frozenset(maker.scopes),
            claims=maker.claims,
            is_created_key=True,
            credential=record.id,
            expires_at=self._end(record, maker),
        )

    def _end(self, record: KeyRecord, maker: KeyMaker) -> float:
        parent = self._records.get(maker.credential)
        return record.expires_at if parent is None else min(record.expires_at, parent.expires_at)

    async def look_up(self, token: str) -> Verdict:
        return self.check(token) or UNKNOWN_KEY

    def has_name(self, name: Key) -> bool:
        """Whether any API key has that agent or group. True for all names until every source was read."""
        return name in self._names or not self._all_read

    async def start(self, revoke: Revoke) -> None:
        self._revoke_identities = revoke
        for source in self._sources:
            work = source.run(partial(self.take_document, source.name))
            self._tasks.append(asyncio.get_running_loop().create_task(work, name=f"API keys of {source.name}"))

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _revoke(self, predicate: Callable[[Identity], bool]) -> None:
        if self._revoke_identities is not None:
            self._revoke_identities(predicate)

    def take_document(self, name: str, document: KeyDocument) -> None:
        """Replace the document of the source called `name`, and revoke keys that were deleted or changed."""
        if self._documents.get(name) == document:
            return
        previous, names, were_all_read = self._records, self._names, self._all_read
        self._documents[name] = document
        records: dict[str, KeyRecord] = {}
        for source in self._sources:
            for record in self._documents.get(source.name, KeyDocument()).keys:
                if records.setdefault(record.id, record) is not record:
                    log.error(
                        "API key %s of %s is ignored: another source has a key with this id", record.id, source.name
                    )
        self._records = records
        self._names = frozenset(
            key
            for record in records.values()
            if record.maker is None  # agent and groups of a created key come from the issuer of its creator
            for key in keys_of_names(record.agent, record.groups)
        )
        revoked_ids = {ident for ident, record in previous.items() if records.get(ident) != record}
        parents = [(record.id, record.maker.credential) for record in previous.values() if record.maker is not None]
        revoked_ids |= {ident for ident, parent in parents if parent in revoked_ids}
        counts = len(document.keys), len(records), len(revoked_ids)
        log.info("API keys of %s: %d, and %d in all; %d revoked", name, *counts)
        self._revoke(lambda identity: identity.kind == "apiKey" and identity.credential in revoked_ids)
        changed_names = names ^ self._names
        if (
            changed_names or not were_all_read
        ):  # names without an issuer now belong to API keys, or no longer do (`names`)
            self._revoke(
                lambda identity: (
                    _is_of_token(identity) and (not were_all_read or _has_any_name(identity, changed_names))
                )
            )


def _has_same_names(parent: KeyRecord, created: KeyRecord) -> bool:
    """Whether a key has the same agent and groups as a key that was created with it."""
    return parent.agent == created.agent and frozenset(parent.groups) == frozenset(created.groups)


def _is_of_token(identity: Identity) -> bool:
    """Whether the identity's agent and groups may come from an issuer of tokens. This includes identities of API keys
    that were created with a token.
    """
    return identity.kind == "jwt" or identity.is_created_key


def _has_any_name(identity: Identity, names: frozenset[Key]) -> bool:
    return not names.isdisjoint(keys_of_names(identity.agent, identity.groups))
