"""Store of grants in up to 16 Secrets of the release, which the chart creates empty and all replicas watch.

All grants of a person are in one Secret, which is read before each use of a grant, and changed only if its
resourceVersion is still the same. A replica combines the changes that arrive during a request into its next request, so
that only requests of different replicas can conflict. The gateway must not be allowed to create Secrets or to see
others, so its Role names these Secrets, and each is watched by its name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import logging
import random
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead_gateway.grants.lazy_sealer import LazySealer
from fairlead_gateway.grants.sealed_grant import SealedGrant, decode_record, encode_record, new_version, record_name
from fairlead_gateway.grants.sealing_keys import SealingKey
from fairlead_gateway.grants.secret_room import ALL_RECORDS_BYTES, refusal
from fairlead_gateway.grants.watching_store import WatchingGrantStore
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict
from fairlead_kube.informer import Informer
from fairlead_kube.objects import Secret
from fairlead_kube.resources import SECRETS, Scope
from fairlead_mcp.backoff import Backoff
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant, VersionedGrant

log = logging.getLogger(__name__)

SLOTS: Final = 16
WARNING_FILL: Final = 0.8
API_SECONDS: Final = 5.0
"""Time limit of one request to the API server, and of one change with all its attempts."""
PAUSE_SECONDS: Final = 0.05
"""Longest first pause after a conflict with another replica. The pause doubles up to MAX_PAUSE_SECONDS."""
MAX_PAUSE_SECONDS: Final = 0.4
MANAGER: Final = "fairlead-gateway-grants"
"""Field manager of the grants."""
_Data: TypeAlias = Mapping[str, str | None]
"""Members of a Secret, base64-encoded."""
_Change: TypeAlias = Callable[[_Data, bool], _Data | None]
"""Gets the data of a Secret, and whether an earlier attempt may have made the change. Returns the changed members, or
None for no change."""


class SecretGrantStore(WatchingGrantStore):
    """Grants in the Secrets `NAME-0` to `NAME-15` of a namespace, sealed with `keys`."""

    def __init__(self, kube: Kube, namespace: str, name: str, keys: Sequence[SealingKey]) -> None:
        super().__init__()
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._sealer = LazySealer(keys)
        self._watched_secrets = [_WatchedSecret(f"{name}-{slot}", self._publish) for slot in range(SLOTS)]
        self._locks = {secret.name: asyncio.Lock() for secret in self._watched_secrets}
        self._pending_edits: dict[str, list[_Edit]] = {secret.name: [] for secret in self._watched_secrets}
        """Requested changes that are neither made nor given up yet, by the name of their Secret."""

    def __repr__(self) -> str:
        return f"<SecretGrantStore {self._namespace}/{self._name}>"

    @property
    def fill(self) -> float:
        return max(secret.fill for secret in self._watched_secrets)

    @property
    def watches(self) -> bool:
        """Whether all Secrets are being watched, so that no further change is missed."""
        return all(secret.is_listed for secret in self._watched_secrets)

    async def read(self, key: GrantKey) -> VersionedGrant | None:
        data, _ = await self._get(self.secret_of(key.person))
        record = _record_in(data, record_name(key))
        if record is None:
            return None
        return VersionedGrant((await self._sealer.get()).open(key, record), record.version)

    async def write(self, key: GrantKey, grant: StoredGrant, replaces: str | None = None) -> str | None:
        sealed = (await self._sealer.get()).seal(key, grant, new_version())
        name, value, secret = record_name(key), encode_record(sealed), self.secret_of(key.person)

        def put(data: _Data, _: bool) -> _Data | None:
            version = _version_in(data, name)
            if version == sealed.version:  # an earlier attempt has written it, but its response was lost
                return {}
            if replaces not in (None, version):
                return None
            if reason := refusal(data, key.person, name, len(value)):
                raise GrantStoreError(f"the Secret {secret} {reason}")
            return {name: base64.b64encode(value).decode()}

        if not await self._edit(secret, put):
            return None
        self._feed.publish(key, written=True)
        return sealed.version

    async def delete(self, key: GrantKey, version: str | None = None) -> bool:
        name = record_name(key)

        def drop(data: _Data, may_be_made: bool) -> _Data | None:
            if name not in data:
                return {} if may_be_made else None
            return {name: None} if version in (None, _version_in(data, name)) else None

        deleted = await self._edit(self.secret_of(key.person), drop)
        if deleted:
            self._feed.publish(key, written=False)
        return deleted

    async def of_person(self, person: bytes) -> Sequence[tuple[GrantKey, StoredGrant]]:
        return await self._grants(self.secret_of(person), lambda key: key.person == person)

    async def all_grants(self, servers: Container[str] | None = None) -> Sequence[tuple[GrantKey, StoredGrant]]:
        def matches(key: GrantKey) -> bool:
            return servers is None or key.server in servers

        return [grant for secret in self._watched_secrets for grant in await self._grants(secret.name, matches)]

    # Internals

    def _publish(self, key: GrantKey, written: bool) -> None:
        self._feed.publish(key, written=written)

    def secret_of(self, person: bytes) -> str:
        """The Secret of a person's grants."""
        return f"{self._name}-{hashlib.blake2b(person, digest_size=1).digest()[0] % SLOTS}"

    async def _grants(self, secret: str, matches: Callable[[GrantKey], bool]) -> list[tuple[GrantKey, StoredGrant]]:
        """Readable grants of one Secret whose keys `matches` selects."""
        data, _ = await self._get(secret)
        sealer = await self._sealer.get()

        def decrypt_grants() -> list[tuple[GrantKey, StoredGrant]]:
            grants = []
            for name in data:
                record = _record_in(data, name)
                if record is not None and name == record_name(record.key) and matches(record.key):
                    with contextlib.suppress(UnreadableGrant):
                        grants.append((record.key, sealer.open(record.key, record)))
            return grants

        return await asyncio.to_thread(decrypt_grants)

    async def _edit(self, secret: str, change: _Change) -> bool:
        """Change the data of a Secret. `change` gets the data and returns the members to write, empty if the data is as
        wanted already, or None if the change must not be made: then the result is False. Raises GrantStoreError,
        including errors of `change`.
        """
        edit = _Edit(change)
        pending = self._pending_edits[secret]
        pending.append(edit)
        try:
            async with asyncio.timeout(API_SECONDS), self._locks[secret]:
                if edit.outcome is None:  # else the request of another task has included this change
                    await self._apply_edits(secret, pending)
        except TimeoutError:
            if edit.outcome is None:
                edit.outcome = GrantStoreError(
                    f"the Secret {secret} could not be changed within {API_SECONDS:g} s, as the API server is slow or "
                    "many others change it: try again"
                )
        finally:
            pending.remove(edit)
        if isinstance(edit.outcome, GrantStoreError):
            raise edit.outcome
        return bool(edit.outcome)

    async def _apply_edits(self, secret: str, pending: Sequence[_Edit]) -> None:
        """Make all pending changes, and set their outcomes."""
        pause = Backoff(random.random, base=PAUSE_SECONDS, cap=MAX_PAUSE_SECONDS)
        while True:
            edits: Sequence[_Edit] = [*pending]
            try:
                data, version = await self._get(secret)
                edits = [edit for edit in pending if edit.outcome is None]
                outcomes, changed_members = _merge_edits(edits, data)
                if changed_members:
                    body: Json = {"metadata": {"resourceVersion": version}, "data": changed_members}
                    async with asyncio.timeout(API_SECONDS):
                        await self._merge(secret, body, edits, outcomes)
            except Conflict:  # another replica has changed the Secret in between
                await asyncio.sleep(pause.delay_after(0.0))
                continue
            except GrantStoreError as error:
                outcomes = [GrantStoreError(str(error)) for _ in edits]
            except (ApiError, TimeoutError) as error:
                outcomes = [self._store_error(secret, error) for _ in edits]
            for edit, outcome in zip(edits, outcomes, strict=True):
                edit.outcome = outcome
            return

    async def _merge(
        self, secret: str, body: Json, edits: Sequence[_Edit], outcomes: Sequence[bool | GrantStoreError]
    ) -> None:
        """Send the changes of `edits`. If this task is cancelled meanwhile, the tasks of the other edits send them
        again, though they may have been made.
        """
        try:
            await self._kube.merge(SECRETS, self._namespace, secret, body, manager=MANAGER)
        except asyncio.CancelledError:
            for edit, outcome in zip(edits, outcomes, strict=True):
                edit.may_be_made = edit.may_be_made or outcome is True
            raise

    async def _get(self, secret: str) -> tuple[_Data, str]:
        """Data of a Secret, base64-encoded, and its resourceVersion. Raises GrantStoreError."""
        try:
            async with asyncio.timeout(API_SECONDS):
                body = await self._kube.get(SECRETS, self._namespace, secret)
        except (ApiError, TimeoutError) as error:
            raise self._store_error(secret, error) from error
        return body.get("data") or {}, body["metadata"]["resourceVersion"]

    def _store_error(self, secret: str, error: Exception) -> GrantStoreError:
        reason = str(error) or "the API server does not respond"
        return GrantStoreError(f"the grants in the Secret {secret} cannot be read or written: {reason}")

    def _start_watching(self) -> Sequence[Coroutine[object, object, None]]:
        return [self._watch(secret) for secret in self._watched_secrets]

    async def _watch(self, secret: _WatchedSecret) -> None:
        scope = Scope(SECRETS, Secret, self._namespace, name=secret.name)
        await Informer(self._kube, scope, secret, on_new_failure=secret.note_failure).run()


class _Edit:
    """One change of a Secret's data, and its outcome (None while it is pending)."""

    def __init__(self, change: _Change) -> None:
        self.change = change
        self.may_be_made = False
        """Whether it was sent in a request whose response was not awaited."""
        self.outcome: bool | GrantStoreError | None = None


def _merge_edits(edits: Sequence[_Edit], data: _Data) -> tuple[list[bool | GrantStoreError], dict[str, str | None]]:
    """Apply changes one after the other. Returns their outcomes, and all changed members (None for deleted ones)."""
    outcomes: list[bool | GrantStoreError] = []
    changed_members: dict[str, str | None] = {}
    for edit in edits:
        try:
            members = edit.change(
                {name: value for name, value in {**data, **changed_members}.items() if value is not None},
                edit.may_be_made,
            )
        except GrantStoreError as error:
            outcomes.append(error)
        else:
            outcomes.append(members is not None)
            changed_members.update(members or {})
    return outcomes, changed_members


class _WatchedRecord(msgspec.Struct, frozen=True):
    """A record in a watched Secret, without its sealed content."""

    digest: int
    """Hash of the record's bytes, valid in this process."""
    version: str
    key: GrantKey


class _WatchedSecret:
    """Store of an informer that follows one Secret. It calls `publish` with the key of each changed grant, and with
    True for a written grant or False for a deleted one.
    """

    def __init__(self, name: str, publish: Callable[[GrantKey, bool], None]) -> None:
        self.name = name
        self.fill = 0.0
        """Fraction of the space for records of users that is in use, 0 to 1."""
        self.is_listed = False
        self._publish = publish
        self._records: dict[str, _WatchedRecord] = {}
        """Readable records by their names."""

    def note_failure(self, error: ApiError) -> None:
        log.warning("The grants in the Secret %s cannot be watched: %s", self.name, error)

    def replace(self, objects: Sequence[Secret], version: str) -> None:
        if not objects:
            log.error("The Secret %s is missing, and with it grants of users: install the chart's Secrets", self.name)
        self._take(objects[0].data if objects else {})

    def update(self, item: Secret) -> None:
        self._take(item.data)

    def delete(self, item: Secret) -> None:
        self._take({})

    def _take(self, data: Mapping[str, bytes]) -> None:
        previous = self._records
        records = {name: self._read_member(name, value) for name, value in data.items()}
        self._records = {name: record for name, record in records.items() if record is not None}
        for name in previous.keys() | self._records.keys() if self.is_listed else ():
            record, previous_record = self._records.get(name), previous.get(name)
            if record is None or previous_record is None or record.version != previous_record.version:
                self._publish((record or previous[name]).key, record is not None)
        self.is_listed = True
        self._note_fill(sum(map(len, data.values())) / ALL_RECORDS_BYTES)

    def _read_member(self, name: str, value: bytes) -> _WatchedRecord | None:
        """Decode the record of a member, unless its digest is unchanged: each event has all members of the Secret, of
        which usually one has changed.
        """
        digest = hash(value)
        previous_record = self._records.get(name)
        if previous_record is not None and previous_record.digest == digest:
            return previous_record
        record = decode_record(value)
        return None if record is None else _WatchedRecord(digest, record.version, record.key)

    def _note_fill(self, fill: float) -> None:
        if fill >= WARNING_FILL > self.fill:
            log.warning(
                "The Secret %s is %.0f %% full of grants: end accounts that nobody uses, or keep grants in Redis",
                self.name,
                100 * fill,
            )
        self.fill = fill


def _record_in(data: _Data, name: str) -> SealedGrant | None:
    try:
        return decode_record(base64.b64decode(data.get(name) or ""))
    except binascii.Error:
        return None


def _version_in(data: _Data, name: str) -> str:
    """Version of a record; empty without one."""
    record = _record_in(data, name)
    return "" if record is None else record.version
