"""Credentials on a cluster: copies values from labelled Secrets of the servers into Secrets that gateways may read.

A server's Secret is read only if it has the label `fairlead.dev/credential`, and its value is sent only to the hosts in
its annotation. The copies are in a fixed number of Secrets in the release's namespace, with one key per server, so that
the gateway's Role can name each of these Secrets.
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
from functools import partial
from typing import Any, Final

import msgspec

from fairlead_api.documents.base import sha256
from fairlead_api.documents.catalog import Credential, CredentialRef, SentCredential
from fairlead_api.meta import ANNOTATION_HOSTS, LABEL_CREDENTIAL, LABEL_MANAGED_BY, MANAGED_BY, ServerKey, bounded_name
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import Auth, CredentialSource, DiscoveryAuth, McpServer
from fairlead_kube.client import Json, Kube
from fairlead_kube.errors import ApiError, Conflict, NotFound
from fairlead_kube.resources import SECRETS
from fairlead_kube.store import ObjectStore
from fairlead_mcp.credential_hosts import hosts_allow, origin
from fairlead_operator.kube.drift import DriftRepairs, WriteTarget
from fairlead_operator.ports import ConditionVerdict, OperatorCredential, ResolvedCredential
from fairlead_operator.server.kube_manifests import pod_secret_references
from fairlead_operator.server.presented_credentials import (
    PresentedCredential,
    ReferencedSecret,
    UnusableSecret,
    call_oauth_settings,
    present_client,
    present_header,
    present_key,
    resource_secret_of,
)
from fairlead_operator.server.scheme_credentials import scheme_credentials, sent_credential
from fairlead_operator.server.secret_arguments import argument_value, secret_arguments

logger = logging.getLogger(__name__)

SHARDS: Final = 16
"""Number of Secrets that contain the copies."""
NAME: Final = "fairlead-credentials"
"""Default name of the Secrets that contain the copies, without the number at the end."""
SELECTOR: Final = f"{LABEL_CREDENTIAL}=true"
STORE_LABEL: Final = "fairlead.dev/credentials-store"
STORE_SELECTOR: Final = f"{STORE_LABEL}=true"
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
_SECRET_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

_NOT_ABSENT: Final = frozenset({Cause.SECRET_NOT_LABELLED, Cause.SECRET_BEING_READ})
"""Causes for which pods are not started even if the reference to the Secret is optional."""

RESOLVED: Final = ConditionVerdict(True, Cause.RESOLVED_REFS, "all referenced Secrets exist and may be used")


def shard_name(key: ServerKey, name: str = NAME) -> str:
    """Name of the Secret with the copy of a server's credential. It depends only on the server's key, so that copies
    never move.
    """
    return f"{name}-{zlib.crc32(str(key).encode()) % SHARDS}"


def store_key(key: ServerKey) -> str:
    """Key of a server's credential within its Secret."""
    return bounded_name(key.namespace, key.name)


_WHEN_NOTICED: Final = (
    f'; a new Secret labelled {LABEL_CREDENTIAL}: "true" is noticed at once, any other within a minute'
)


def store_names(name: str = NAME) -> tuple[str, ...]:
    """All names that `shard_name` can return."""
    return tuple(f"{name}-{number}" for number in range(SHARDS))


@dataclass(frozen=True)
class LabelledSecret:
    """A Secret with the label of credentials."""

    namespace: str
    name: str
    version: str
    """UID and resource version: changes with every write, also if the content stays the same."""
    hosts: str | None
    """The annotation that names the hosts to which values may be sent; None if it is absent."""
    data: Mapping[str, str]
    """Values by key, base64-encoded."""

    @classmethod
    def from_object(cls, item: Json) -> LabelledSecret:
        """Read an API object without decoding its data."""
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
        """The decoded value of `key`; None where it is missing, empty or not base64."""
        try:
            return base64.b64decode(self.data.get(key, ""), validate=True) or None
        except (binascii.Error, ValueError):
            return None


class CredentialStore:
    """Copies of the servers' credentials, in Secrets of the release's namespace. `on_foreign_change(store_key)` is
    called for each copy that another client deleted or changed.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        on_foreign_change: Callable[[str], None],
        owners: Sequence[Json] = (),
        name: str = NAME,
        drift: DriftRepairs | None = None,
    ) -> None:
        self.name = name
        self._drift = drift or DriftRepairs()
        self._kube = kube
        self._namespace = namespace
        self._on_foreign_change = on_foreign_change
        self._owners = list(owners)
        self.store: ObjectStore[dict[str, str]] = ObjectStore(lambda item: item.get("data") or {}, self._on_change)
        """Data of each Secret, base64-encoded."""

    def token(self, key: ServerKey) -> str:
        """The token for the gate of a stdio server; empty if no token is stored."""
        value = self._data(shard_name(key, self.name)).get(store_key(key))
        try:
            return msgspec.json.decode(base64.b64decode(value or ""), type=Credential).token
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return ""

    async def put(self, key: ServerKey, credential: Credential) -> None:
        """Store one credential; no request if the stored copy is equal."""
        shard, entry = shard_name(key, self.name), store_key(key)
        value = base64.b64encode(msgspec.json.encode(credential)).decode()
        if self._data(shard).get(entry) == value:
            return
        await self._drift.write(
            self._target(shard, entry),
            value.encode(),
            None,
            partial(self._on_foreign_change, entry),
            partial(self._put, shard, {entry: value}),
        )

    async def _put(self, shard: str, data: dict[str, str]) -> Json:
        answer = await self._create(shard, data) if self._key(shard) not in self.store else None
        if answer is None:
            answer = await self._kube.merge(SECRETS, self._namespace, shard, {"data": data})
        self.store.put(answer)
        return answer

    async def remove(self, key: ServerKey) -> None:
        """Delete the copy of one server's credential; no error when it does not exist."""
        await self._remove(shard_name(key, self.name), store_key(key))

    async def sweep(self, servers: Iterable[ServerKey]) -> None:
        """Delete the copies of servers that are not in `servers`, and all copies in Secrets of an earlier `name`."""
        used_keys, shards = {store_key(key) for key in servers}, store_names(self.name)
        for key in self.store:
            for entry in [entry for entry in self._data(key.name) if entry not in used_keys or key.name not in shards]:
                await self._remove(key.name, entry)

    async def _remove(self, shard: str, entry: str) -> None:
        self._drift.forget([self._target(shard, entry)])
        if entry not in self._data(shard):
            return
        try:
            answer = await self._kube.merge(SECRETS, self._namespace, shard, {"data": {entry: None}})
        except NotFound:
            self.store.forget(self._key(shard))
        else:
            self.store.put(answer)

    async def _create(self, shard: str, data: dict[str, str]) -> Json | None:
        labels = {LABEL_MANAGED_BY: MANAGED_BY, STORE_LABEL: "true"}
        metadata: Json = {"name": shard, "namespace": self._namespace, "labels": labels}
        if self._owners:
            metadata["ownerReferences"] = self._owners
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        try:
            return await self._kube.create(SECRETS, self._namespace, body)
        except Conflict:
            return None

    def _target(self, shard: str, entry: str) -> WriteTarget:
        return WriteTarget(SECRETS, self._namespace, f"{shard}/{entry}")

    def _key(self, shard: str) -> ServerKey:
        return ServerKey(self._namespace, shard)

    def _data(self, shard: str) -> dict[str, str]:
        return self.store.get(self._key(shard)) or {}

    def _on_change(self, key: ServerKey, before: dict[str, str] | None, after: dict[str, str] | None) -> None:
        for entry, value in (before or {}).items():
            restore = partial(self._on_foreign_change, entry)
            if value != (after or {}).get(entry) and not self._drift.postpone(self._target(key.name, entry), restore):
                restore()


class LabelledSecrets:
    """Informer stores of the labelled Secrets in `namespaces`; an empty name stands for all namespaces.

    `on_change(key, before, after)` is called for each Secret that was added, changed or deleted.
    """

    def __init__(
        self,
        namespaces: Iterable[str],
        on_change: Callable[[ServerKey, LabelledSecret | None, LabelledSecret | None], None],
    ) -> None:
        self.stores: Mapping[str | None, ObjectStore[LabelledSecret]] = {
            namespace or None: ObjectStore(LabelledSecret.from_object, on_change) for namespace in namespaces
        }
        """Store by its namespace; None for all namespaces."""

    def get(self, key: ServerKey) -> LabelledSecret | None:
        """The Secret, if it exists, is labelled and may be read."""
        store = self._store(key.namespace)
        return None if store is None else store.get(key)

    def is_readable(self, namespace: str) -> bool:
        """Whether Secrets of the namespace are read."""
        return self._store(namespace) is not None

    def _store(self, namespace: str) -> ObjectStore[LabelledSecret] | None:
        return self.stores.get(namespace, self.stores.get(None))


class _RefusedReference(Exception):
    """A reference to a Secret that may not be used; has the verdict ResolvedRefs."""

    def __init__(self, verdict: ConditionVerdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


class Resolver:
    """Resolves the Secret references of servers; queries the API server only about Secrets that the store lacks."""

    def __init__(self, kube: Kube, secrets: LabelledSecrets, name: str = NAME) -> None:
        self._kube = kube
        self._secrets = secrets
        self._name = name

    async def resolve(self, server: McpServer, url: str) -> ResolvedCredential:
        """The credential for `url`, or why it cannot be used. Also checks the Secrets that the server's pods read."""
        refusal, absent_secrets = await self._check_pods(server)
        if refusal is not None:
            return ResolvedCredential(refusal, pods_refusal=refusal)
        resolved_credential = await self._resolve_auth(server, url)
        if resolved_credential.verdict.ok:
            resolved_credential = await self._add_arguments_and_schemes(server, url, resolved_credential)
        return dataclasses.replace(resolved_credential, absent_secrets=absent_secrets)

    async def _add_arguments_and_schemes(
        self, server: McpServer, url: str, resolved_credential: ResolvedCredential
    ) -> ResolvedCredential:
        """Add the values of arguments and the credentials of security schemes."""
        arguments: dict[str, dict[str, str]] = {}
        schemes: dict[str, SentCredential] = {}
        versions = [] if resolved_credential.ref is None else [resolved_credential.ref.hash]
        try:
            for argument in secret_arguments(server.spec):
                secret = await self._read(server, argument.source)
                value = argument_value(secret, server.spec, url)
                arguments.setdefault(argument.tool, {})[argument.argument] = value
                versions.append(f"{argument.tool} {argument.argument} {secret.version}")
            for name, scheme in scheme_credentials(server.spec).items():
                source = scheme.secret_ref
                scheme_secret = None if source is None else await self._read(server, source)
                schemes[name] = sent_credential(scheme, scheme_secret, url)
                version = "" if scheme_secret is None else scheme_secret.version
                versions.append(f"{name} {scheme.model_dump_json()} {version}")
        except _RefusedReference as refused:
            return ResolvedCredential(refused.verdict)
        except UnusableSecret as error:
            return ResolvedCredential(ConditionVerdict(False, error.cause, str(error)))
        if not arguments and not schemes:
            return resolved_credential
        credential = msgspec.structs.replace(
            resolved_credential.value or Credential(), arguments=arguments, schemes=schemes
        )
        reference = credential_ref(server.key, "\0".join(versions), self._name)
        return dataclasses.replace(resolved_credential, ref=reference, value=credential)

    async def _check_pods(self, server: McpServer) -> tuple[ConditionVerdict | None, frozenset[str]]:
        """Why the pods must not be started, and the absent Secrets of optional references."""
        absent: set[str] = set()
        for reference in pod_secret_references(server):
            if reference.optional and reference.name in absent:
                continue
            verdict = await self._check_secret(server, reference.name, None if reference.optional else reference.key)
            if verdict is None:
                continue
            # An optional Secret that could not be read counts as absent, because it may lack the required label.
            if not reference.optional or verdict.cause in _NOT_ABSENT:
                return verdict, frozenset()
            absent.add(reference.name)
        return None, frozenset(absent)

    async def _resolve_auth(self, server: McpServer, url: str) -> ResolvedCredential:
        auth = server.spec.auth
        if auth is None:
            return ResolvedCredential(RESOLVED)
        discovery_auth = server.spec.discovery.auth
        try:
            call_credential = await self._present(server, auth, url)
            if server.spec.starts_with_keys:  # the operator's process only has the environment of the pod
                operator_credential = None
            elif auth.of_caller is None:
                operator_credential = None if auth.grant is None else call_credential.operator_credential
            elif discovery_auth is None:
                operator_credential = OperatorCredential()
            else:
                operator_credential = (await self._present(server, discovery_auth, url)).operator_credential
        except _RefusedReference as refused:
            return ResolvedCredential(refused.verdict)
        reference = (
            None if call_credential.value is None else credential_ref(server.key, call_credential.version, self._name)
        )
        oauth = call_oauth_settings(call_credential, server.spec, first_grant=False)
        return ResolvedCredential(
            RESOLVED, reference, call_credential.value, oauth=oauth, own_credential=operator_credential
        )

    async def _present(self, server: McpServer, auth: Auth | DiscoveryAuth, url: str) -> PresentedCredential:
        """Header or client that `auth` presents to the server at `url`. Raises _RefusedReference."""
        grant = auth.grant
        try:
            if grant is not None:
                source, resource_source = grant.secret_ref, resource_secret_of(grant)
                client_secret = None if source is None else await self._read(server, source)
                resource_secret = None if resource_source is None else await self._read(server, resource_source)
                return present_client(grant, client_secret, resource_secret)
            if isinstance(auth, Auth) and auth.user_key is not None:
                return present_key(auth.user_key)
            if auth.static_value is None:  # possible only in a model that was not validated
                return PresentedCredential()
            secret = await self._read(server, auth.static_value.secret_ref)
            if not hosts_allow(secret.hosts, url):
                message = f"Secret {secret.name} may be sent to {secret.hosts} only, but the server is at {origin(url)}"
                raise UnusableSecret(Cause.HOST_NOT_ALLOWED, message)
            text = secret.value.decode("latin-1").strip("\r\n ")
            if not _HEADER_VALUE.fullmatch(text):
                message = (
                    f"key {secret.key} of Secret {secret.name} contains characters that HTTP headers must not contain"
                )
                raise UnusableSecret(Cause.SECRET_VALUE_INVALID, message)
            return present_header(auth.static_value, text, secret.version)
        except UnusableSecret as error:
            raise _RefusedReference(ConditionVerdict(False, error.cause, str(error))) from error

    async def _read(self, server: McpServer, source: CredentialSource) -> ReferencedSecret:
        """The key of a Secret that may be used. Raises _RefusedReference."""
        verdict = await self._check_secret(server, source.name, source.key)
        secret = self._secrets.get(ServerKey(server.metadata.namespace, source.name))
        if verdict is not None or secret is None:
            raise _RefusedReference(verdict or _not_found(server.metadata.namespace, source.name))
        value = secret.value(source.key) or b""
        return ReferencedSecret(source.name, source.key, value, secret.hosts, secret.version)

    def revision(self, server: McpServer) -> str:
        """Hash of the versions of all Secrets in the pods' environment; empty without such Secrets."""
        namespace = server.metadata.namespace
        names = [reference.name for reference in pod_secret_references(server) if reference.environment]
        secrets = [self._secrets.get(ServerKey(namespace, name)) for name in names]
        versions = [f"{secret.name}={secret.version}" for secret in secrets if secret is not None]
        return sha256(*(version.encode() for version in sorted(set(versions))))[:16] if versions else ""

    def environment_values(self, server: McpServer) -> frozenset[str]:
        """All lines of the Secrets' values in the environment of a server's pods, for masking logs."""
        values: set[str] = set()
        for reference in pod_secret_references(server):
            secret = self._secrets.get(ServerKey(server.metadata.namespace, reference.name))
            if secret is None or not reference.environment:
                continue
            for key in [reference.key] if reference.key else secret.data:
                values.update((secret.value(key) or b"").decode("utf-8", "replace").splitlines())
        return frozenset(values)

    async def _check_secret(self, server: McpServer, name: str, key: str | None) -> ConditionVerdict | None:
        """Why a Secret must not be used; None if it may be used."""
        secret = self._secrets.get(ServerKey(server.metadata.namespace, name))
        if secret is None:
            return await self._check_unlisted(server.metadata.namespace, name)
        if key is not None and secret.value(key) is None:
            message = f"Secret {name} has no value under the key {key}"
            return ConditionVerdict(False, Cause.SECRET_KEY_MISSING, message)
        return None

    async def _check_unlisted(self, namespace: str, name: str) -> ConditionVerdict:
        if not self._secrets.is_readable(namespace):
            message = f"Secret {name} cannot be read: the operator may not read Secrets of namespace {namespace}"
            return ConditionVerdict(False, Cause.SECRETS_NOT_READABLE, message)
        if not _SECRET_NAME.fullmatch(name):  # no schema checks the names in a pod template
            return _not_found(namespace, repr(name[:253]))
        try:
            labels = await self._kube.labels(SECRETS, namespace, name)
        except NotFound:
            return _not_found(namespace, name)
        except ApiError as error:
            return ConditionVerdict(None, Cause.REFS_UNREADABLE, str(error))
        if labels.get(LABEL_CREDENTIAL) == "true":  # the watch has not reported it yet
            message = f"Secret {name} was created or labelled a moment ago, and is being read"
            return ConditionVerdict(None, Cause.SECRET_BEING_READ, message)
        message = f'Secret {name} exists but is not labelled {LABEL_CREDENTIAL}: "true", so it is not used'
        return ConditionVerdict(False, Cause.SECRET_NOT_LABELLED, message, {"SECRET": name, "NAMESPACE": namespace})


def credential_ref(key: ServerKey, version: str, name: str = NAME) -> CredentialRef:
    """Reference to the copy of a server's credential; `version` must change whenever the credential's value changes."""
    return CredentialRef(secret=shard_name(key, name), key=store_key(key), hash=sha256(version.encode())[:16])


def _not_found(namespace: str, name: str) -> ConditionVerdict:
    return ConditionVerdict(
        False, Cause.SECRET_NOT_FOUND, f"Secret {name} does not exist in namespace {namespace}{_WHEN_NOTICED}"
    )
