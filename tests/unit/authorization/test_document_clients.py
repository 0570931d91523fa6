"""Clients with documents: how long documents are cached, what an error changes, and one fetch per URL at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from joserfc.jwk import ECKey

from clientdocuments import CHATGPT, CLAUDE, VSCODE
from fairlead_authorization.clients import document_clients
from fairlead_authorization.clients.client import ClientUnavailable, UnknownClient
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_authorization.clients.document_clients import MAX_AGE, MAX_CLIENTS, MAX_FETCHES, MIN_AGE, DocumentClients
from fairlead_authorization.clients.fetching import FetchedMetadata
from virtualtime import HandClock, in_virtual_time

pytestmark = in_virtual_time
URL = CLAUDE["client_id"]
KEYS = {"keys": [ECKey.generate_key("P-256", {"kid": "one"}).as_dict(private=False)]}


class Hosts:
    """Hosts of documents. `documents`: by URL, an object to return or an exception to raise."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents: dict[str, Any] = {document["client_id"]: document for document in documents}
        self.max_age = 0.0
        self.fetched: list[str] = []
        self.seconds = 0.0

    async def fetch(self, address: DocumentAddress, max_bytes: int) -> FetchedMetadata:
        self.fetched.append(address.url)
        if self.seconds:
            await asyncio.sleep(self.seconds)
        document = self.documents.get(address.url, UnknownClient("there is no document"))
        if isinstance(document, Exception):
            raise document
        return FetchedMetadata(json.dumps(document).encode(), self.max_age)


def clients(
    hosts: Hosts,
    clock: Callable[[], float],
    allowed: tuple[str, ...] = ("claude.ai", "vscode.dev", "chatgpt.com"),
    agents: dict[str, str] | None = None,
) -> DocumentClients:
    return DocumentClients(hosts.fetch, allowed, agents or {}, clock)


@pytest.mark.parametrize(
    ("max_age", "cached_for"), [(0.0, MIN_AGE), (1.0, MIN_AGE), (3_600.0, 3_600.0), (31_536_000.0, MAX_AGE)]
)
async def test_a_document_is_cached_as_its_host_says_within_bounds(max_age: float, cached_for: float) -> None:
    hosts, clock = Hosts(CLAUDE), HandClock(1_000.0)
    hosts.max_age = max_age
    directory = clients(hosts, clock)
    await directory.find(URL)
    clock.now += cached_for - 1
    await directory.find(URL)
    assert len(hosts.fetched) == 1
    clock.now += 1
    await directory.find(URL)
    assert len(hosts.fetched) == 2


async def test_a_host_is_asked_for_nothing_unless_it_is_allowed() -> None:
    hosts = Hosts(CLAUDE)
    with pytest.raises(UnknownClient, match=r"clients of claude\.ai are not accepted here"):
        await clients(hosts, HandClock(), ("vscode.dev",)).find(URL)
    with pytest.raises(UnknownClient, match="is not a usable URL"):
        await clients(hosts, HandClock(), ("*",)).find("https://claude.ai/../x")
    assert hosts.fetched == []


async def test_requests_for_one_client_wait_for_one_fetch() -> None:
    hosts = Hosts(CLAUDE)
    hosts.seconds = 1.0
    directory = clients(hosts, asyncio.get_running_loop().time)
    answers = await asyncio.gather(*(directory.find(URL) for _ in range(100)))
    assert len(hosts.fetched) == 1
    assert {client.id for client in answers} == {URL}


async def test_a_request_that_is_given_up_does_not_end_the_fetch_of_others() -> None:
    hosts = Hosts(CLAUDE)
    hosts.seconds = 1.0
    directory = clients(hosts, asyncio.get_running_loop().time)
    first = asyncio.create_task(directory.find(URL))
    await asyncio.sleep(0.1)
    second = asyncio.create_task(directory.find(URL))
    await asyncio.sleep(0.1)
    first.cancel()
    assert (await second).id == URL
    assert len(hosts.fetched) == 1


async def test_slow_hosts_of_anybody_do_not_keep_out_clients_of_named_hosts() -> None:
    hosts = Hosts(CLAUDE, VSCODE)
    hosts.seconds = 1.0
    directory = clients(hosts, asyncio.get_running_loop().time, ("*", "claude.ai"))
    strangers = [f"https://host{number}.example/client" for number in range(MAX_FETCHES)]
    asking = [asyncio.create_task(directory.find(url)) for url in strangers]
    await asyncio.sleep(0.1)
    assert (await directory.find(URL)).id == URL
    await asyncio.gather(*asking, return_exceptions=True)
    made_up = [f"https://claude.ai/{number}" for number in range(MAX_FETCHES)]
    asking = [asyncio.create_task(directory.find(url)) for url in made_up]
    await asyncio.sleep(0.1)
    assert (await directory.find(VSCODE["client_id"])).id == VSCODE["client_id"]
    await asyncio.gather(*asking, return_exceptions=True)


async def test_fetches_at_once_are_bounded_and_those_beyond_are_told() -> None:
    hosts = Hosts()
    hosts.seconds = 1.0
    directory = clients(hosts, asyncio.get_running_loop().time, ("*",))
    urls = [f"https://host{number}.example/client" for number in range(MAX_FETCHES + 1)]
    answers = await asyncio.gather(*map(directory.find, urls), return_exceptions=True)
    assert [type(answer) for answer in answers] == [UnknownClient] * MAX_FETCHES + [ClientUnavailable]
    with pytest.raises(UnknownClient):
        await directory.find(urls[-1])


@pytest.mark.parametrize("error", [UnknownClient("there is no document"), ClientUnavailable("the host is away")])
async def test_an_error_is_not_cached(error: Exception) -> None:
    hosts = Hosts()
    hosts.documents[URL] = error
    directory = clients(hosts, HandClock())
    with pytest.raises(type(error)):
        await directory.find(URL)
    hosts.documents[URL] = CLAUDE
    assert (await directory.find(URL)).id == URL


async def test_the_last_good_document_is_used_while_its_host_is_away_for_a_day_at_most() -> None:
    hosts, clock = Hosts(CLAUDE), HandClock(1_000.0)
    directory = clients(hosts, clock)
    good = await directory.find(URL)
    hosts.documents[URL] = ClientUnavailable("the host is away")
    clock.now += MIN_AGE
    assert await directory.find(URL) is good
    assert await directory.find(URL) is good
    assert len(hosts.fetched) == 2
    clock.now += document_clients.RETRY_SECONDS
    assert await directory.find(URL) is good
    assert len(hosts.fetched) == 3
    clock.now = 1_000.0 + MAX_AGE
    with pytest.raises(ClientUnavailable):
        await directory.find(URL)
    with pytest.raises(ClientUnavailable):
        await directory.find(URL)


async def test_a_document_that_is_gone_or_no_longer_valid_ends_the_client_at_once() -> None:
    for bad in (UnknownClient("there is no document"), {**CLAUDE, "client_id": "https://evil.example/x"}):
        hosts, clock = Hosts(CLAUDE), HandClock()
        directory = clients(hosts, clock)
        await directory.find(URL)
        hosts.documents[URL] = bad
        clock.now += MIN_AGE
        with pytest.raises(UnknownClient):
            await directory.find(URL)
        hosts.documents[URL] = ClientUnavailable("the host is away")
        with pytest.raises(ClientUnavailable):
            await directory.find(URL)


async def test_cached_clients_are_bounded_and_the_one_used_longest_ago_goes_first() -> None:
    documents = [{**CLAUDE, "client_id": f"https://claude.ai/c{number}"} for number in range(MAX_CLIENTS + 1)]
    hosts = Hosts(*documents)
    directory = clients(hosts, HandClock())
    for document in documents[:-1]:
        await directory.find(document["client_id"])
    await directory.find(documents[0]["client_id"])
    await directory.find(documents[-1]["client_id"])
    hosts.fetched.clear()
    await directory.find(documents[0]["client_id"])
    assert hosts.fetched == []
    await directory.find(documents[1]["client_id"])
    assert hosts.fetched == [documents[1]["client_id"]]


async def test_keys_of_a_client_are_fetched_from_its_url_and_for_an_hour_at_most() -> None:
    hosts, clock = Hosts(CHATGPT), HandClock()
    hosts.documents[CHATGPT["jwks_uri"]] = KEYS
    hosts.max_age = MAX_AGE
    directory = clients(hosts, clock)
    client = await directory.find(CHATGPT["client_id"])
    assert [key["kid"] for key in client.keys] == ["one"]
    clock.now += document_clients.MAX_KEYS_AGE
    await directory.find(CHATGPT["client_id"])
    assert hosts.fetched == [CHATGPT["client_id"], CHATGPT["jwks_uri"]] * 2


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("https://evil.example/jwks.json", "clients of evil.example are not accepted"),
        (
            "http://chatgpt.com/jwks.json",
            "jwks_uri of the client https://chatgpt.com/oauth/client.json is not a usable",
        ),
        ("https://127.0.0.1/jwks.json", "is not a usable URL"),
    ],
)
async def test_keys_at_another_host_or_address_are_not_fetched(uri: str, says: str) -> None:
    hosts = Hosts({**CHATGPT, "jwks_uri": uri})
    with pytest.raises(UnknownClient, match=says):
        await clients(hosts, HandClock()).find(CHATGPT["client_id"])
    assert hosts.fetched == [CHATGPT["client_id"]]


async def test_a_client_is_the_agent_of_its_host_and_path_unless_the_settings_name_it() -> None:
    directory = clients(Hosts(CLAUDE, VSCODE), HandClock(), agents={URL: "claude"})
    assert (await directory.find(URL)).agent == "claude"
    assert (await directory.find(VSCODE["client_id"])).agent == "vscode.dev/oauth/client-metadata.json"


async def test_documents_of_anybody_do_not_push_out_those_of_named_hosts() -> None:
    strangers = [{**CLAUDE, "client_id": f"https://host{number}.example/c"} for number in range(MAX_CLIENTS)]
    for each in strangers:
        each["redirect_uris"] = [f"{each['client_id']}/back"]
    hosts = Hosts(CLAUDE, *strangers)
    directory = clients(hosts, HandClock(), ("*", "claude.ai"))
    good = await directory.find(URL)
    for each in strangers:
        await directory.find(each["client_id"])
    hosts.documents[URL] = ClientUnavailable("the host is away")
    assert await directory.find(URL) is good


async def test_an_end_ends_fetches() -> None:
    hosts = Hosts(CLAUDE)
    hosts.seconds = 3_600.0
    directory = clients(hosts, asyncio.get_running_loop().time)
    waiting = asyncio.create_task(directory.find(URL))
    await asyncio.sleep(1)
    await directory.aclose()
    with pytest.raises(ClientUnavailable, match="was ended"):
        await waiting
