"""Credentials on a cluster: from labelled Secrets beside the servers into Secrets that the gateway may read.

A server's Secret is read only if it carries the label that marks it as meant for this, and its value is handed on only
for the hosts that its annotation names. The copies lie in a fixed number of Secrets in the release's namespace, one key
per server, so that the gateway's Role can name each of them.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import logging
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Credential, CredentialRef
from fairlead_api.meta import ANNOTATION_HOSTS, LABEL_CREDENTIAL, LABEL_MANAGED_BY, MANAGED_BY, ServerKey, bounded_name
from fairlead_api.v1alpha1.conditions import Reason
from fairlead_api.v1alpha1.mcpserver import CredentialSource, McpServer
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict, NotFound
from fairlead_kube.resources import SECRETS, older
from fairlead_operator.ports import ConditionVerdict, ResolvedCredential
from fairlead_operator.server.hosts import hosts_allow, origin
from fairlead_operator.server.manifests import references

logger = logging.getLogger(__name__)

SHARDS: Final = 16
SELECTOR: Final = f"{LABEL_CREDENTIAL}=true"
STORE_LABEL: Final = "fairlead.dev/credentials-store"
STORE_SELECTOR: Final = f"{STORE_LABEL}=true"
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
_SECRET_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

RESOLVED: Final = ConditionVerdict(True, Reason.RESOLVED_REFS, "all references lead to something that may be used")


def shard_name(key: ServerKey) -> str:
    """Which of the fixed Secrets holds the credential of a server: a pure function, so that nothing ever moves."""
    return f"fairlead-credentials-{zlib.crc32(str(key).encode()) % SHARDS}"


def store_key(key: ServerKey) -> str:
    """The key of a server within that Secret."""
    return bounded_name(key.namespace, key.name)


def store_names() -> tuple[str, ...]:
    """Every name that `shard_name` can give."""
    return tuple(f"fairlead-credentials-{number}" for number in range(SHARDS))


@dataclass(frozen=True)
class LabelledSecret:
    """A Secret that is marked as a credential."""

    namespace: str
    name: str
    version: str
    """Changes with every write; says nothing about the content."""
    hosts: str | None
    data: Mapping[str, str]

    @classmethod
    def from_object(cls, item: Json) -> LabelledSecret:
        """Read an API object; its data stay encoded until they are asked for."""
        metadata = item["metadata"]
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            version=f"{metadata.get('uid', '')}:{metadata.get('resourceVersion', '')}",
            hosts=(metadata.get("annotations") or {}).get(ANNOTATION_HOSTS),
            data=item.get("data") or {},
        )

    def __repr__(self) -> str:
        return f"LabelledSecret({self.namespace}/{self.name}, keys={sorted(self.data)})"

    def value(self, key: str) -> bytes | None:
        """One value; None where it is missing, empty or not base64."""
        try:
            return base64.b64decode(self.data.get(key, ""), validate=True) or None
        except (binascii.Error, ValueError):
            return None


class LabelledSecrets:
    """Store of the labelled Secrets of the cluster. `changed_in(namespace)` is called after changes."""

    def __init__(self, changed_in: Callable[[str], None]) -> None:
        self._changed_in = changed_in
        self._secrets: dict[tuple[str, str], LabelledSecret] = {}

    def get(self, namespace: str, name: str) -> LabelledSecret | None:
        return self._secrets.get((namespace, name))

    def listed(self, objects: list[Json]) -> None:
        now = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in objects}
        for key in [key for key in self._secrets if key not in now]:
            del self._secrets[key]
            self._changed_in(key[0])
        for item in objects:
            self.changed(item)

    def changed(self, item: Json) -> None:
        secret = LabelledSecret.from_object(item)
        key = (secret.namespace, secret.name)
        if self._secrets.get(key) != secret:
            self._secrets[key] = secret
            self._changed_in(secret.namespace)

    def deleted(self, item: Json) -> None:
        metadata = item["metadata"]
        if self._secrets.pop((metadata["namespace"], metadata["name"]), None) is not None:
            self._changed_in(metadata["namespace"])


class CredentialStore:
    """The copies in the release's namespace, fed by an informer. `lost(store_key)` is called for each that went."""

    def __init__(self, kube: Kube, namespace: str, lost: Callable[[str], None], owners: Sequence[Json] = ()) -> None:
        self._kube = kube
        self._namespace = namespace
        self._lost = lost
        self._owners = list(owners)
        self._data: dict[str, dict[str, str]] = {}
        self._versions: dict[str, str] = {}

    def token(self, key: ServerKey) -> str:
        """The token that opens the gate of a server, if it has one."""
        value = self._data.get(shard_name(key), {}).get(store_key(key))
        try:
            return msgspec.json.decode(base64.b64decode(value or ""), type=Credential).token
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return ""

    async def put(self, key: ServerKey, credential: Credential) -> None:
        """Store one credential; nothing is sent where it is stored already."""
        shard, entry = shard_name(key), store_key(key)
        value = base64.b64encode(msgspec.json.encode(credential)).decode()
        if self._data.get(shard, {}).get(entry) == value:
            return
        if shard not in self._data and await self._created(shard, {entry: value}):
            return
        self._take(await self._kube.merge(SECRETS, self._namespace, shard, {"data": {entry: value}}))

    async def remove(self, key: ServerKey) -> None:
        """Forget the credential of one server; fine when there is none."""
        await self._remove(shard_name(key), store_key(key))

    async def sweep(self, alive: Iterable[ServerKey]) -> None:
        """Forget the credentials of all servers that are not `alive`."""
        kept = {store_key(key) for key in alive}
        for shard, data in list(self._data.items()):
            for entry in [entry for entry in data if entry not in kept]:
                await self._remove(shard, entry)

    async def _remove(self, shard: str, entry: str) -> None:
        if entry not in self._data.get(shard, {}):
            return
        try:
            answer = await self._kube.merge(SECRETS, self._namespace, shard, {"data": {entry: None}})
        except NotFound:
            self._data.pop(shard, None)
        else:
            self._take(answer)

    async def _created(self, shard: str, data: dict[str, str]) -> bool:
        labels = {LABEL_MANAGED_BY: MANAGED_BY, STORE_LABEL: "true"}
        metadata: Json = {"name": shard, "namespace": self._namespace, "labels": labels}
        if self._owners:
            metadata["ownerReferences"] = self._owners
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        try:
            answer = await self._kube.create(SECRETS, self._namespace, body)
        except Conflict:
            return False
        self._take(answer)
        return True

    def _take(self, answer: Json) -> None:
        """An answer may come after that to a later write of another worker, and after its event."""
        shard, version = answer["metadata"]["name"], answer["metadata"].get("resourceVersion", "")
        if not older(version, self._versions.get(shard, "")):
            self._versions[shard] = version
            self._data[shard] = answer.get("data") or {}

    # Called by the informer.

    def listed(self, objects: list[Json]) -> None:
        now = {item["metadata"]["name"]: item for item in objects}
        for shard in [shard for shard in self._data if shard not in now]:
            self._replace(shard, None)
        for item in objects:
            self.changed(item)

    def changed(self, item: Json) -> None:
        shard, version = item["metadata"]["name"], item["metadata"].get("resourceVersion", "")
        if not older(version, self._versions.get(shard, "")):
            self._versions[shard] = version
            self._replace(shard, item.get("data") or {})

    def deleted(self, item: Json) -> None:
        self._replace(item["metadata"]["name"], None)

    def _replace(self, shard: str, data: dict[str, str] | None) -> None:
        before = self._data.pop(shard, {})
        if data is not None:
            self._data[shard] = data
        for entry in before:
            if before[entry] != (data or {}).get(entry):
                self._lost(entry)


class Resolver:
    """Decides about the references of one server; asks the API server only about Secrets that the store lacks."""

    def __init__(self, kube: Kube, secrets: LabelledSecrets) -> None:
        self._kube = kube
        self._secrets = secrets

    async def resolve(self, server: McpServer, url: str) -> ResolvedCredential:
        """The credential that goes to `url`, or why there is none; also judges the Secrets that its pods read."""
        refused, absent = await self._of_pods(server)
        if refused is not None:
            return ResolvedCredential(refused, pods=refused)
        resolved = await self._of_auth(server, url)
        return dataclasses.replace(resolved, absent=absent)

    async def _of_pods(self, server: McpServer) -> tuple[ConditionVerdict | None, frozenset[str]]:
        """Why the pods may not be started, and which Secrets of optional references do not exist."""
        absent: set[str] = set()
        for reference in references(server):
            if reference.optional and reference.name in absent:
                continue
            verdict = await self._usable(server, reference.name, None if reference.optional else reference.key)
            if verdict is None:
                continue
            # One that cannot be looked at is left out as well: it carries no label, as far as is known.
            if not reference.optional or verdict.reason == Reason.SECRET_NOT_LABELLED:
                return verdict, frozenset()
            absent.add(reference.name)
        return None, frozenset(absent)

    async def _of_auth(self, server: McpServer, url: str) -> ResolvedCredential:
        auth = server.spec.auth
        source = auth_source(server)
        if auth is None or source is None:
            return ResolvedCredential(RESOLVED)
        verdict = await self._usable(server, source.name, source.key)
        secret = self._secrets.get(server.metadata.namespace, source.name)
        if verdict is not None or secret is None:
            return ResolvedCredential(verdict or RESOLVED)
        if not hosts_allow(secret.hosts, url):
            named = f"Secret {source.name} may be sent to {secret.hosts} only, and the server is at {origin(url)}"
            return ResolvedCredential(ConditionVerdict(False, Reason.HOST_NOT_ALLOWED, named))
        text = (secret.value(source.key) or b"").decode("latin-1").strip("\r\n ")
        if not _HEADER_VALUE.fullmatch(text):
            message = f"key {source.key} of Secret {source.name} holds characters that no HTTP header may hold"
            return ResolvedCredential(ConditionVerdict(False, Reason.SECRET_VALUE_INVALID, message))
        headers = {auth.header.name: text} if auth.header else {"Authorization": f"Bearer {text}"}
        return ResolvedCredential(RESOLVED, credential_ref(server.key, secret.version), Credential(headers=headers))

    def revision(self, server: McpServer) -> str:
        """Changes when a Secret that the pods read their environment from does."""
        namespace = server.metadata.namespace
        names = [reference.name for reference in references(server) if reference.environment]
        found = [self._secrets.get(namespace, name) for name in names]
        versions = [f"{secret.name}={secret.version}" for secret in found if secret is not None]
        return sha256(*(version.encode() for version in sorted(set(versions))))[:16] if versions else ""

    async def _usable(self, server: McpServer, name: str, key: str | None) -> ConditionVerdict | None:
        """Why a Secret may not be used; None = it may."""
        secret = self._secrets.get(server.metadata.namespace, name)
        if secret is None:
            return await self._missing(server.metadata.namespace, name)
        if key is not None and secret.value(key) is None:
            message = f"Secret {name} has no value under the key {key}"
            return ConditionVerdict(False, Reason.SECRET_KEY_MISSING, message)
        return None

    async def _missing(self, namespace: str, name: str) -> ConditionVerdict:
        if not _SECRET_NAME.fullmatch(name):  # of spec.podTemplate, which no schema checks
            return _not_found(namespace, repr(name[:253]))
        try:
            await self._kube.exists(SECRETS, namespace, name)
        except NotFound:
            return _not_found(namespace, name)
        except ApiError as error:
            return ConditionVerdict(None, Reason.REFS_UNREADABLE, str(error))
        message = f'Secret {name} exists but is not labelled {LABEL_CREDENTIAL}: "true", so it is not used'
        return ConditionVerdict(False, Reason.SECRET_NOT_LABELLED, message)


def credential_ref(key: ServerKey, version: str) -> CredentialRef:
    """Where the credential of a server is stored; `version` changes with its value."""
    return CredentialRef(secret=shard_name(key), key=store_key(key), hash=sha256(version.encode())[:16])


def auth_source(server: McpServer) -> CredentialSource | None:
    """The key of a Secret that `spec.auth` refers to."""
    auth = server.spec.auth
    if auth is None:
        return None
    chosen = auth.bearer or auth.header
    return chosen.secret_ref if chosen is not None else None


def _not_found(namespace: str, name: str) -> ConditionVerdict:
    return ConditionVerdict(False, Reason.SECRET_NOT_FOUND, f"there is no Secret {name} in namespace {namespace}")
