"""Clients with a metadata document: fetches, checks and caches the documents, with one fetch per URL at a time.

Errors are never cached. While a host cannot be reached, the last valid document stays in use, for at most MAX_AGE. A
client whose document was removed, or is no longer valid, is dropped at once.
"""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from fairlead_authorization.clients.client import ClientUnavailable, RegisteredClient, UnknownClient
from fairlead_authorization.clients.client_ids import DocumentAddress, capacity_group, document_address, require_allowed
from fairlead_authorization.clients.documents import MAX_DOCUMENT_BYTES, client_of_document, read_document
from fairlead_authorization.clients.fetching import Fetch
from fairlead_authorization.clients.key_sets import BadKeySet, read_key_set
from fairlead_mcp.oauth.shared_task import SharedTask, TaskStopped

MIN_AGE: Final = 300.0
"""Minimum seconds for which a document is cached. VS Code's document forbids caching, but each refresh of a token needs
the document."""
MAX_AGE: Final = 86_400.0
"""Maximum seconds for which a document is cached, and for which it stays in use while its host cannot be reached."""
MAX_KEYS_AGE: Final = 3_600.0
"""Maximum seconds for which a client with `jwks_uri` is cached, because such a client replaces its keys."""
RETRY_SECONDS: Final = 30.0
"""Seconds between two attempts while an expired document is in use."""
MAX_CLIENTS: Final = 256
"""Maximum number of cached clients of each host that the settings name, and of all other hosts together. At the limit,
the least recently used client is dropped.
"""
MAX_FETCHES: Final = 16
"""Maximum number of concurrent fetches from each host that the settings name, and from all other hosts together."""
MAX_KEY_SET_BYTES: Final = 32 << 10


class _CachedDocument(msgspec.Struct):
    client: RegisteredClient
    fetched_at: float
    fresh_until: float
    retry_at: float = 0.0


class DocumentClients:
    """Clients by the URLs of their documents. `hosts` is the setting `clientHosts`; `agents` has the agent names by
    client id. `clock` is in monotonic seconds.
    """

    def __init__(
        self,
        fetch: Fetch,
        hosts: Collection[str],
        agents: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch_document = fetch
        self._hosts = frozenset(hosts)
        self._agents = agents
        self._clock = clock
        self._cached_clients: defaultdict[str, OrderedDict[str, _CachedDocument]] = defaultdict(OrderedDict)
        self._fetches: defaultdict[str, dict[str, SharedTask[RegisteredClient]]] = defaultdict(dict)
        """Both by group (`capacity_group`) and URL, so that unnamed hosts do not use the capacity of named hosts."""

    async def find(self, client_id: str) -> RegisteredClient:
        """The client whose document is at a URL. Raises UnknownClient, ClientUnavailable."""
        address = document_address(client_id)
        require_allowed(address, self._hosts)
        cache = self._cached_clients[capacity_group(address, self._hosts)]
        entry = cache.get(client_id)
        if entry is None:
            return await self._fetch_shared(address)
        cache.move_to_end(client_id)
        now = self._clock()
        if now < max(entry.fresh_until, min(entry.retry_at, entry.fetched_at + MAX_AGE)):
            return entry.client
        try:
            return await self._fetch_shared(address)
        except ClientUnavailable:
            if self._clock() >= entry.fetched_at + MAX_AGE:
                cache.pop(client_id, None)
                raise
            entry.retry_at = self._clock() + RETRY_SECONDS
            return entry.client

    async def aclose(self) -> None:
        """End all fetches."""
        for fetch in [fetch for fetches in self._fetches.values() for fetch in fetches.values()]:
            await fetch.aclose()

    async def _fetch_shared(self, address: DocumentAddress) -> RegisteredClient:
        fetches = self._fetches[capacity_group(address, self._hosts)]
        fetch = fetches.get(address.url)
        if fetch is None or not fetch.running:
            if len(fetches) >= MAX_FETCHES:
                raise ClientUnavailable("too many documents of clients are fetched at once: try again")
            fetch = SharedTask(self._fetch(address), "client document")
            fetches[address.url] = fetch
        try:
            return await fetch.result()
        except TaskStopped:
            raise ClientUnavailable(f"the fetch of the document {address.url} was ended: try again") from None
        finally:
            if not fetch.running and fetches.get(address.url) is fetch:
                del fetches[address.url]

    async def _fetch(self, address: DocumentAddress) -> RegisteredClient:
        began, cache = self._clock(), self._cached_clients[capacity_group(address, self._hosts)]
        try:
            client, age = await self._load(address)
        except UnknownClient:
            cache.pop(address.url, None)
            raise
        cache[address.url] = _CachedDocument(client, began, began + age)
        cache.move_to_end(address.url)
        while len(cache) > MAX_CLIENTS:
            cache.popitem(last=False)
        return client

    async def _load(self, address: DocumentAddress) -> tuple[RegisteredClient, float]:
        """Fetch and check a client. Returns it, and the seconds for which it may be cached."""
        answer = await self._fetch_document(address, MAX_DOCUMENT_BYTES)
        document = read_document(answer.body, address)
        keys: tuple[dict[str, Any], ...] = document.keys
        age = min(max(answer.max_age, MIN_AGE), MAX_AGE)
        if document.jwks_uri:
            key_address = document_address(document.jwks_uri, f"jwks_uri of the client {address.url}")
            require_allowed(key_address, self._hosts)
            key_set = await self._fetch_document(key_address, MAX_KEY_SET_BYTES)
            try:
                keys = read_key_set(key_set.body)
            except BadKeySet as error:
                raise UnknownClient(f"the key set {key_address.url} of the client {address.url} {error}") from None
            age = min(age, max(key_set.max_age, MIN_AGE), MAX_KEYS_AGE)
        agent = self._agents.get(address.url, address.agent)
        is_named = address.authority in self._hosts or address.url in self._agents
        return client_of_document(document, address, agent, keys, is_named=is_named), age
