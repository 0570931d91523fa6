"""Vouches for API keys, from any number of places where they are kept.

An `Authenticator`. Each place tells of its document whenever that changes; a key that is gone or different then is
revoked at once, with the streams that it opened. A place that cannot be read keeps what it told last: an outage of the
API server locks nobody out and lets nobody in.
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
from fairlead_gateway.identity.authenticator import Revoked, Verdict
from fairlead_gateway.identity.key_format import PREFIX, KeyDocument, KeyMaker, KeyRecord, digest, id_of
from fairlead_gateway.identity.names import Issuers, keys_of_names
from fairlead_gateway.identity.refusal import AWAY, CredentialRefusal

log = logging.getLogger(__name__)

ALONE: Final = Issuers(api_keys=True)
UNKNOWN_KEY: Final = CredentialRefusal(401, "this API key is not known, has expired or was revoked", "invalid_token")
_NOBODY: Final = "0" * 64
"""Hash that an unknown key is compared with, so that every key takes equally long."""


class KeyPlace(Protocol):
    """Where keys are kept."""

    name: str

    async def run(self, tell: Callable[[KeyDocument], None]) -> None:
        """Tell of the document now and whenever it changes, until cancelled."""
        ...


class ApiKeys:
    """Authenticator of API keys. `now` is the time of day in seconds, `known` all issuers of names."""

    kind: Kind = "apiKey"
    keeps = float("inf")

    def __init__(self, places: Sequence[KeyPlace], now: Callable[[], float], issuers: Issuers = ALONE) -> None:
        self._places = tuple(places)
        self._now = now
        self._told: dict[str, KeyDocument] = {}
        self._issuers = issuers
        self._records: Mapping[str, KeyRecord] = {}
        self._names: frozenset[Key] = frozenset()
        self._revoked: Revoked | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def wants(self, token: str) -> bool:
        return token.startswith(PREFIX)

    def check(self, token: str) -> Verdict | None:
        record = self._records.get(id_of(token) or "")
        right = hmac.compare_digest(digest(token), _NOBODY if record is None else record.hash)
        if record is None or not right:
            return UNKNOWN_KEY if len(self._told) == len(self._places) else AWAY
        if record.expires_at <= self._now():
            return UNKNOWN_KEY
        if record.maker is not None:
            return self._verdict_on_made(record, record.maker)
        return Identity(
            kind=self.kind,
            principal=f"key:{record.agent}",
            agent=record.agent,
            groups=frozenset(record.groups),
            issuers=(API_KEYS,),
            doubtful=self._issuers.of_api_key(record.groups),
            credential=record.id,
            expires_at=record.expires_at,
        )

    def _verdict_on_made(self, record: KeyRecord, maker: KeyMaker) -> Verdict:
        """The maker under another credential, as long as the one that it made the key with is good."""
        agent = record.agent or None
        if maker.kind == "jwt":
            doubtful = self._issuers.of_token(agent, record.groups)
        else:
            parent = self._records.get(maker.credential)
            if parent is None:
                return UNKNOWN_KEY if len(self._told) == len(self._places) else AWAY
            if parent.maker is not None or not _is_same(parent, record) or parent.expires_at <= self._now():
                return UNKNOWN_KEY
            doubtful = self._issuers.of_api_key(record.groups)
        return Identity(
            kind=self.kind,
            principal=maker.principal,
            agent=agent,
            groups=frozenset(record.groups),
            issuers=maker.issuers,
            doubtful=doubtful,
            scopes=frozenset(maker.scopes),
            claims=maker.claims,
            made=True,
            credential=record.id,
            expires_at=self._end(record, maker),
        )

    def _end(self, record: KeyRecord, maker: KeyMaker) -> float:
        parent = self._records.get(maker.credential)
        return record.expires_at if parent is None else min(record.expires_at, parent.expires_at)

    async def look_up(self, token: str) -> Verdict:
        return self.check(token) or UNKNOWN_KEY

    def carries(self, name: Key) -> bool:
        """Whether an API key has that name of an agent or a group. Until every place was read, each may have it."""
        return name in self._names or len(self._told) < len(self._places)

    async def start(self, revoked: Revoked) -> None:
        self._revoked = revoked
        for source in self._places:
            work = source.run(partial(self.take_document, source.name))
            self._tasks.append(asyncio.get_running_loop().create_task(work, name=f"API keys of {source.name}"))

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _revoke(self, concerns: Callable[[Identity], bool]) -> None:
        if self._revoked is not None:
            self._revoked(concerns)

    def take_document(self, name: str, document: KeyDocument) -> None:
        """A place has another document now."""
        if self._told.get(name) == document:
            return
        before, names, complete = self._records, self._names, len(self._told) == len(self._places)
        self._told[name] = document
        records: dict[str, KeyRecord] = {}
        for source in self._places:
            for record in self._told.get(source.name, KeyDocument()).keys:
                if records.setdefault(record.id, record) is not record:
                    log.error("The API key %s of %s has the id of another and is not taken", record.id, source.name)
        self._records = records
        self._names = frozenset(
            key
            for record in records.values()
            if record.maker is None  # a made one has its maker's names, by the maker's issuer
            for key in keys_of_names(record.agent, record.groups)
        )
        gone = {ident for ident, record in before.items() if records.get(ident) != record}
        made = [(record.id, record.maker.credential) for record in before.values() if record.maker is not None]
        gone |= {ident for ident, parent in made if parent in gone}
        log.info("API keys of %s: %d, and %d in all; %d revoked", name, len(document.keys), len(records), len(gone))
        self._revoke(lambda identity: identity.kind == "apiKey" and identity.credential in gone)
        moved = names ^ self._names
        if moved or not complete:  # such a name in a token is another's now, or its own again
            self._revoke(lambda identity: _of_token(identity) and (not complete or _has(identity, moved)))


def _is_same(parent: KeyRecord, made: KeyRecord) -> bool:
    """Whether a key still gives the names that one made with it has."""
    return parent.agent == made.agent and frozenset(parent.groups) == frozenset(made.groups)


def _of_token(identity: Identity) -> bool:
    """Whether its names may be an issuer's of tokens: a key that was made with one has them too."""
    return identity.kind == "jwt" or identity.made


def _has(identity: Identity, names: frozenset[Key]) -> bool:
    return not names.isdisjoint(keys_of_names(identity.agent, identity.groups))
