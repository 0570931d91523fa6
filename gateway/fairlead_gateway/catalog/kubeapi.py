"""The API server as far as the gateway needs it: two lists, a watch, and a Secret by name.

The one module that imports the Kubernetes client. Raw calls, because the generated models cost most of the time of
a list. Every call has a bound; whatever goes wrong is an ApiTrouble with one sentence.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import aiohttp
import msgspec
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException
from yaml import YAMLError

from fairlead_api.documents.codec import SERVED
from fairlead_api.documents.store import Blob
from fairlead_api.meta import LABEL_DOCUMENT

DOCUMENTS: Final = f"{LABEL_DOCUMENT} in ({','.join(SERVED)})"
"""What a gateway reads, and no more: definitions that are held back are not among it."""
PAGE: Final = 50
"""ConfigMaps per page: each may be a megabyte."""
WATCH_SECONDS: Final = 300
CLOSING_SECONDS: Final = 0.25
"""TLS connections that are closed in use say goodbye in further turns of the loop; aiohttp has nothing to wait for."""
DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_ONCE: Final = aiohttp.ClientTimeout(total=15, sock_connect=5)
_REVIEW: Final = aiohttp.ClientTimeout(total=5, sock_connect=2)
_STREAM: Final = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=75)
"""A bookmark comes about once a minute: longer silence is a dead connection."""


class ApiTrouble(Exception):
    """The API server cannot be reached, refuses, or says something that is not understood. `status` 0: no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Expired(ApiTrouble):
    """The resource version is too old to watch from: list again."""


class NoCluster(Exception):
    """There is no usable configuration. The message is one sentence that says what to do."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    continue_: str = msgspec.field(name="continue", default="")


class ConfigMap(msgspec.Struct, rename="camel"):
    """The members of a ConfigMap that matter here; of an error or a bookmark, as well."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}
    code: int = 0
    message: str = ""

    def blob(self) -> Blob:
        meta = self.metadata
        return Blob(meta.name, meta.labels, meta.annotations, self.data, self.binary_data)


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[ConfigMap]


class WatchEvent(msgspec.Struct):
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: ConfigMap


class Secret(msgspec.Struct):
    """The members of a Secret that matter here; of an error, as well. Never printed: `repr` shows no values."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    data: dict[str, bytes] = {}
    code: int = 0
    message: str = ""

    def __repr__(self) -> str:
        return f"Secret({self.metadata.name!r}, {len(self.data)} values)"


class _Secrets(msgspec.Struct):
    metadata: _Metadata
    items: list[Secret]


class SecretEvent(msgspec.Struct):
    """As WatchEvent, of Secrets."""

    type: str
    object: Secret


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []


class TokenReview(msgspec.Struct):
    """What the API server says of a token."""

    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = []


class _Reviewed(msgspec.Struct):
    status: TokenReview


class _Status(msgspec.Struct):
    message: str = ""


async def load_configuration(kubeconfig: Path | None = None) -> Configuration:
    """From `kubeconfig`, `KUBECONFIG`, `~/.kube/config`, or the service account of the pod. Raises NoCluster."""
    configuration = Configuration()
    path = str(kubeconfig or os.environ.get("KUBECONFIG", ""))
    chosen = path or DEFAULT_KUBECONFIG
    try:
        if path != "" or await asyncio.to_thread(_exists, DEFAULT_KUBECONFIG):
            await load_kube_config(config_file=chosen, client_configuration=configuration)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=configuration)
        else:
            raise NoCluster(
                f"no cluster to read the catalog from: set KUBECONFIG, put a kubeconfig at {DEFAULT_KUBECONFIG}, "
                "or name a directory with --documents"
            )
    except (ConfigException, OSError, YAMLError, TypeError, ValueError) as error:
        where = path or "the pod's service account"
        words = " ".join(str(error).split())
        raise NoCluster(f"{where} cannot be used to connect to a cluster: {words}") from error
    return configuration


def _exists(path: str) -> bool:
    return Path(path).expanduser().exists()


class KubeApi:
    """One API server and one namespace. `aclose` it."""

    def __init__(self, configuration: Configuration, namespace: str) -> None:
        self._api = ApiClient(configuration)
        self.namespace = namespace
        self.host = str(configuration.host)

    async def aclose(self) -> None:
        await self._api.close()
        await asyncio.sleep(CLOSING_SECONDS)

    async def documents(self) -> tuple[list[ConfigMap], str]:
        """Every ConfigMap that holds a document, and the version to watch from. Raises ApiTrouble."""
        found: list[ConfigMap] = []
        token = ""
        while True:
            query = [("labelSelector", DOCUMENTS), ("limit", str(PAGE))]
            data = await self._read("configmaps", [*query, ("continue", token)] if token else query)
            page = await asyncio.to_thread(_decode, data, _List)
            found += page.items
            token = page.metadata.continue_
            if not token:
                return found, page.metadata.resource_version

    async def probe(self) -> None:
        """See that documents may be read. Raises ApiTrouble."""
        await self._read("configmaps", [("labelSelector", DOCUMENTS), ("limit", "1")])

    async def watch(self, version: str, opened: Callable[[], None]) -> AsyncIterator[WatchEvent]:
        """Changes after `version`, until the API server ends the stream. `opened` is called when it begins.

        Raises Expired, ApiTrouble.
        """
        query = [
            ("labelSelector", DOCUMENTS), ("watch", "true"), ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(WATCH_SECONDS)), ("resourceVersion", version),
        ]  # fmt: skip
        async for line in self._stream("configmaps", query, "the watch of documents", opened):
            event = _decode(line, WatchEvent)
            if event.type == "ERROR":
                raise _stream_error("the watch of documents", event.object.code, event.object.message)
            yield event

    async def one_secret(self, name: str) -> tuple[Secret | None, str]:
        """A Secret by name, None where it is not there, and the version to watch it from. Raises ApiTrouble."""
        found = _decode(await self._read("secrets", [("fieldSelector", f"metadata.name={name}")]), _Secrets)
        return (found.items[0] if found.items else None), found.metadata.resource_version

    async def watch_secret(self, name: str, version: str) -> AsyncIterator[SecretEvent]:
        """Changes of one Secret after `version`, until the API server ends the stream. Raises Expired, ApiTrouble."""
        what = f"the watch of Secret {name}"
        query = [
            ("fieldSelector", f"metadata.name={name}"), ("watch", "true"), ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(WATCH_SECONDS)), ("resourceVersion", version),
        ]  # fmt: skip
        async for line in self._stream("secrets", query, what, lambda: None):
            event = _decode(line, SecretEvent)
            if event.type == "ERROR":
                raise _stream_error(what, event.object.code, event.object.message)
            yield event

    async def secret(self, name: str) -> dict[str, bytes]:
        """The values of a Secret. Raises ApiTrouble, whose message holds none of them."""
        try:
            return _decode(await self._read(f"secrets/{name}", []), Secret).data
        except ApiTrouble as error:
            if error.__cause__ is None:
                raise
            raise ApiTrouble(f"Secret {name} cannot be read", error.status) from None

    async def review_token(self, token: str, audiences: Sequence[str]) -> TokenReview:
        """What the API server says of a token that is made for one of the audiences. Raises ApiTrouble, whose message
        does not hold the token.
        """
        spec = {"token": token, "audiences": list(audiences)}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        return _decode(await self._asked(path, [], _REVIEW, "creating a TokenReview", body), _Reviewed).status

    async def _stream(
        self, what: str, query: Sequence[tuple[str, str]], called: str, opened: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """The lines of a watch. Raises Expired, ApiTrouble."""
        try:
            response = await self._send(self._path(what), query, _STREAM)
            try:
                if response.status >= 400:
                    raise _refused(response.status, await response.read(), called)
                opened()
                while line := await response.content.readline():
                    yield line
            finally:
                response.close()
        except (TimeoutError, OSError, aiohttp.ClientError, ValueError) as error:
            raise ApiTrouble(f"{called} broke: {_words(error)}") from error

    async def _read(self, what: str, query: Sequence[tuple[str, str]]) -> bytes:
        return await self._asked(self._path(what), query, _ONCE, f"reading {what} in namespace {self.namespace}")

    async def _asked(
        self,
        path: str,
        query: Sequence[tuple[str, str]],
        limits: aiohttp.ClientTimeout,
        doing: str,
        sent: object = None,
    ) -> bytes:
        """A whole answer. Raises ApiTrouble."""
        try:
            response = await self._send(path, query, limits, sent)
            try:
                data = await response.read()
            finally:
                response.close()
        except (TimeoutError, OSError, aiohttp.ClientError) as error:
            raise ApiTrouble(f"{self.host} cannot be reached: {_words(error)}") from error
        if response.status >= 400:
            raise _refused(response.status, data, doing)
        return data

    async def _send(
        self, path: str, query: Sequence[tuple[str, str]], limits: aiohttp.ClientTimeout, sent: object = None
    ) -> aiohttp.ClientResponse:
        kinds = {"Accept": "application/json"} | ({} if sent is None else {"Content-Type": "application/json"})
        method, url, headers, body, _ = await self._api.param_serialize(
            "GET" if sent is None else "POST", path, query_params=list(query), header_params=kinds, body=sent,
            auth_settings=["BearerToken"],
        )  # fmt: skip
        answer = await self._api.call_api(method, url, headers, body, _request_timeout=limits)
        response: aiohttp.ClientResponse = answer.response
        return response

    def _path(self, what: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{what}"


_T = TypeVar("_T")


def _decode(data: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiTrouble(f"the API server's answer is not understood: {error}") from error


def _refused(status: int, data: bytes, what: str) -> ApiTrouble:
    try:
        message = msgspec.json.decode(data, type=_Status).message
    except (msgspec.MsgspecError, UnicodeDecodeError):
        message = ""
    kind = Expired if status == 410 else ApiTrouble
    return kind(f"{what} is refused ({status}){': ' if message else ''}{message}", status)


def _stream_error(what: str, code: int, message: str) -> ApiTrouble:
    kind = Expired if code == 410 else ApiTrouble
    return kind(f"{what} ended: {message or code}", code)


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
