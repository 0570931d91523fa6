"""Documents of clients, fetched from real servers under https names: which documents are accepted, and attacks that
fail.

The tests' resolver resolves the names to this machine. Other tests, here and in `tests/unit/mcp/test_egress.py`, show
that the product's resolver refuses such addresses.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from clientdocuments import CHATGPT
from documenthosts import DOCUMENT, HOSTS, URL, document_host, http
from fairlead_authorization.clients.client import ClientUnavailable, UnknownClient
from fairlead_authorization.clients.client_ids import document_address
from fairlead_authorization.clients.document_clients import DocumentClients
from fairlead_authorization.clients.documents import MAX_DOCUMENT_BYTES
from fairlead_authorization.clients.fetching import FETCH_SECONDS, DocumentFetcher
from fairlead_mcp.egress import public_only

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_document_is_fetched_by_one_plain_request(tmp_path: Path) -> None:
    async with document_host(tmp_path) as host:
        host.answer = http(DOCUMENT, "Cache-Control: public, max-age=600")
        assert await host.fetch() == (DOCUMENT, 600.0)
        (request,) = host.requests
    assert request.startswith(b"GET /oauth/mcp-oauth-client-metadata HTTP/1.1\r\nHost: claude.ai\r\n")
    assert b"cookie" not in request.lower()
    assert b"authorization" not in request.lower()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("X-None: 1", 0.0),
        ("Cache-Control: no-store,no-cache,max-age=0", 0.0),
        ("Cache-Control: max-age=60, no-store", 0.0),
        ("Cache-Control: private, Max-Age=60", 60.0),
        ('Cache-Control: max-age="60"', 60.0),
        ("Cache-Control: s-maxage=60", 0.0),
        ("Cache-Control: max-age=-1", 0.0),
        ("Cache-Control: max-age=lots", 0.0),
    ],
)
async def test_the_age_is_read_as_hosts_write_it(tmp_path: Path, header: str, seconds: float) -> None:
    async with document_host(tmp_path) as host:
        host.answer = http(DOCUMENT, header)
        assert (await host.fetch()).max_age == seconds


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "application/jwk-set+json"])
async def test_json_is_taken_by_its_type(tmp_path: Path, kind: str) -> None:
    async with document_host(tmp_path) as host:
        host.answer = http(DOCUMENT, kind=kind)
        assert (await host.fetch()).body == DOCUMENT


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (http(b"", "Location: https://claude.ai/other", status=302), r"redirects elsewhere \(302\)"),
        (http(b"", "Location: http://169.254.169.254/latest/", status=307), r"redirects elsewhere \(307\)"),
        (http(DOCUMENT, "Location: https://claude.ai/x", status=301), "redirects elsewhere"),
        (http(DOCUMENT, status=201), "there is no document at"),
        (http(b"", status=204), "there is no document at"),
        (http(DOCUMENT, status=404), r"there is no document at .* \(status 404\)"),
        (http(DOCUMENT, status=401), "there is no document at"),
        (http(DOCUMENT, kind="text/html"), "is not JSON by its Content-Type"),
        (http(DOCUMENT, kind="application/jsonp"), "is not JSON by its Content-Type"),
        (http(DOCUMENT, kind="text/event-stream"), "is not JSON by its Content-Type"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "is not JSON by its Content-Type"),
        (http(b" " * (MAX_DOCUMENT_BYTES + 1)), "has more than 5120 bytes"),
        (
            CHUNKED + b"400\r\n" + b" " * 1_024 + b"\r\n",
            "cannot be fetched now",
        ),
        (
            CHUNKED + (b"400\r\n" + b" " * 1_024 + b"\r\n") * 6 + b"0\r\n\r\n",
            "has more than 5120 bytes",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 100_000, "has more than 5120 bytes"),
        (b"SSH-2.0-OpenSSH_9.2\r\n" * 3, "does not speak HTTP"),
    ],
)
async def test_another_answer_than_a_small_json_document_is_not_taken(tmp_path: Path, answer: bytes, says: str) -> None:
    async with document_host(tmp_path) as host:
        host.answer = answer
        with pytest.raises((UnknownClient, ClientUnavailable), match=says):
            await host.fetch()
        assert len(host.requests) == 1


async def test_a_document_of_the_largest_size_is_taken(tmp_path: Path) -> None:
    async with document_host(tmp_path) as host:
        body = DOCUMENT + b" " * (MAX_DOCUMENT_BYTES - len(DOCUMENT))
        host.answer = http(body)
        assert (await host.fetch()).body == body


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_host_in_trouble_is_away_and_not_without_a_document(tmp_path: Path, status: int) -> None:
    async with document_host(tmp_path) as host:
        host.answer = http(b"", status=status)
        with pytest.raises(ClientUnavailable, match=f"answers with status {status}"):
            await host.fetch()


@pytest.mark.parametrize("drips", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"])
async def test_a_slow_host_is_given_up_in_time(tmp_path: Path, drips: bytes) -> None:
    """The clock of the fetch runs a hundred times faster than the host's clock."""
    ended = asyncio.Event()

    async def drip(writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(drips)
            while not writer.is_closing():
                writer.write(drips[-1:] and b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with document_host(tmp_path) as host:
        host.answer = drip
        loop = asyncio.get_running_loop()
        fetcher = DocumentFetcher(host.resolve, host.make_tls, lambda: 100 * loop.time())
        with pytest.raises(ClientUnavailable, match="try again"):
            await fetcher(document_address(URL), MAX_DOCUMENT_BYTES)
        if drips:
            await ended.wait()
    assert FETCH_SECONDS == 5.0


async def test_a_host_without_a_certificate_for_its_name_is_not_believed(tmp_path: Path) -> None:
    async with document_host(tmp_path, "other.example") as host:
        host.answer = http(DOCUMENT)
        with pytest.raises(ClientUnavailable, match=r"TLS with claude\.ai:443 failed"):
            await host.fetch()
        assert host.requests == []


async def test_proxies_of_the_environment_get_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with document_host(tmp_path) as host:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        host.answer = http(DOCUMENT)
        assert (await host.fetch()).body == DOCUMENT


async def test_a_name_that_leads_inside_is_not_fetched_even_if_it_led_outside_before(tmp_path: Path) -> None:
    async with document_host(tmp_path) as host:
        host.answer = http(DOCUMENT)
        fetcher = DocumentFetcher(public_only(host.resolve), host.make_tls)
        with pytest.raises(UnknownClient, match=r"claude\.ai leads to an address that is not public"):
            await fetcher(document_address(URL), MAX_DOCUMENT_BYTES)
        assert host.requests == []
        assert host.lookups == ["claude.ai"]


async def test_a_host_that_is_not_allowed_is_not_even_looked_up(tmp_path: Path) -> None:
    async with document_host(tmp_path) as host:
        host.answer = http(DOCUMENT)
        clients = DocumentClients(host.fetcher(), ("chatgpt.com",), {})
        for url in (
            URL,
            "https://chatgpt.com@claude.ai/x",
            "https://chatgpt.com:22/x",
            "https://chatgpt.com.evil.example/",
        ):
            with pytest.raises(UnknownClient):
                await clients.find(url)
        assert (host.lookups, host.requests) == ([], [])


async def test_chatgpt_is_found_with_its_keys(tmp_path: Path) -> None:
    from joserfc.jwk import RSAKey

    key = RSAKey.generate_key(2048, {"kid": "one"}).as_dict(private=False)
    async with document_host(tmp_path) as host:
        host.answer = http(b"", status=404)
        host.documents = {
            "/oauth/client.json": http(json.dumps(CHATGPT).encode()),
            "/oauth/jwks.json": http(json.dumps({"keys": [key]}).encode()),
        }
        client = await DocumentClients(host.fetcher(), HOSTS, {}).find(CHATGPT["client_id"])
    assert (client.name, client.authentication, [key["kid"] for key in client.keys]) == (
        "ChatGPT",
        "private_key_jwt",
        ["one"],
    )
