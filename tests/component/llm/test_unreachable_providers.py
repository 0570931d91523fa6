"""Providers to which no connection can be opened: clients get the cause and what to do, and the log has the address."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import aiohttp
import pytest

from certificates import Authority
from fairlead_formats.tokens.models import LiveSource
from fairlead_models.provider_requests import ProviderClient, ProviderRequest, ProviderUnavailable
from fairlead_models.providers import Provider
from fairlead_offers.models.live_models import NoModels, fetch_windows
from ports import free_port

Failing: TypeAlias = Callable[[str], Awaitable[str]]
"""Sends a request to a URL, and returns the message of its failure."""


async def post(url: str) -> str:
    async with aclosing(ProviderClient()) as client:
        with pytest.raises(ProviderUnavailable) as caught:
            await client.send(Provider(base_url=url), ProviderRequest("/chat/completions", b"{}"))
    return str(caught.value)


async def open_socket(url: str) -> str:
    async with aclosing(ProviderClient()) as client:
        with pytest.raises(ProviderUnavailable) as caught:
            await client.connect(Provider(base_url=url), "/realtime", {}, max_message=1000, ping=30)
    return str(caught.value)


async def list_models(url: str) -> str:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(NoModels) as caught:
            await fetch_windows(session, LiveSource(url))
    return str(caught.value)


CLIENTS: Final = pytest.mark.parametrize(
    ("failing", "peer"),
    [(post, "the provider"), (open_socket, "the provider"), (list_models, "the model server")],
)
UNTRUSTED: Final = "certificate verify failed: unable to get local issuer certificate"


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """A server that answers each connection with an error of HTTP; yields its port."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


@CLIENTS
async def test_an_untrusted_certificate_is_reported_as_such(tmp_path: Path, failing: Failing, peer: str) -> None:
    async with listening(Authority().server_context(tmp_path)) as port:
        message = await failing(f"https://127.0.0.1:{port}/v1")
    assert message.startswith(f"TLS with {peer} failed ({UNTRUSTED})")
    assert "127.0.0.1" not in message
    assert failing is list_models or "SSL_CERT_FILE" in message


@CLIENTS
async def test_an_unknown_host_is_reported_in_the_words_of_the_resolver(failing: Failing, peer: str) -> None:
    message = await failing("https://nowhere.invalid/v1")
    assert message.startswith(f"the host name of {peer} cannot be resolved (")
    assert "nowhere" not in message
    assert "Unknown error" not in message
    assert failing is list_models or message.endswith("): correct the provider's baseUrl")


@CLIENTS
async def test_plain_http_behind_https_is_reported_as_such(failing: Failing, peer: str) -> None:
    async with listening(None) as port:
        message = await failing(f"https://127.0.0.1:{port}/v1")
    assert message == f"{peer} does not speak TLS: use http:// instead of https://"


@CLIENTS
async def test_a_refused_connection_is_reported_as_such(failing: Failing, peer: str) -> None:
    message = await failing(f"http://127.0.0.1:{free_port()}/v1")
    assert message.startswith(f"{peer} refused the connection")


async def test_the_log_has_the_address_that_clients_do_not_get(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    message = await post(f"http://127.0.0.1:{port}/v1")
    assert caplog.messages == [f"A request to the provider at 127.0.0.1:{port} failed: {message}"]
