"""Connections that cannot be opened, for real reasons of TLS and of the network: the message has the cause in words."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from certificates import Authority
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.connect_errors import connect_error
from fairlead_mcp.http.dial import Dialer, resolve_by_dns
from ports import free_port


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """A server that closes each connection; yields its port."""

    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(close, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


async def connect(port: int, tls: ssl.SSLContext | None, server_hostname: str | None = None) -> ConnectFailed:
    """The failure to connect to a port of this machine."""
    dialer = Dialer("127.0.0.1", port, tls, server_hostname, resolve_by_dns, 20.0)
    with pytest.raises(ConnectFailed) as caught:
        await dialer.connect(asyncio.Protocol)
    return caught.value


async def test_a_certificate_of_an_unknown_authority_is_told_as_such(tmp_path: Path) -> None:
    async with listening(Authority().server_context(tmp_path)) as port:
        failure = await connect(port, ssl.create_default_context())
    why = "certificate verify failed: unable to get local issuer certificate"
    assert (str(failure), failure.reason) == (f"TLS with 127.0.0.1:{port} failed ({why})", "TLSFailed")


@pytest.mark.parametrize("server_hostname", [None, "mcp.test"])
async def test_a_certificate_for_another_host_is_told_with_the_host_that_it_lacks(
    tmp_path: Path, server_hostname: str | None
) -> None:
    authority = Authority()
    trusting = ssl.create_default_context(cadata=authority.bundle)
    async with listening(authority.server_context(tmp_path, "other.test")) as port:
        failure = await connect(port, trusting, server_hostname)
    why = f"the certificate is not valid for {server_hostname or '127.0.0.1'}"
    assert (str(failure), failure.reason) == (f"TLS with 127.0.0.1:{port} failed ({why})", "TLSFailed")


async def test_a_connection_that_is_closed_before_tls_is_set_up_is_told_as_such() -> None:
    async with listening(None) as port:
        failure = await connect(port, ssl.create_default_context())
    assert failure.reason == "TLSFailed"
    assert str(failure) in (
        f"TLS with 127.0.0.1:{port} failed (the connection was closed)",
        f"TLS with 127.0.0.1:{port} failed (Connection reset by peer)",
    )


async def test_a_refused_connection_is_reported_as_such() -> None:
    port = free_port()
    failure = await connect(port, None)
    assert (str(failure), failure.reason) == (f"127.0.0.1:{port} refused the connection", "ConnectionRefused")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 80)"), os.strerror(errno.EHOSTUNREACH)),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 80), …"), "none of its addresses"),
    ],
)
def test_an_error_of_the_system_is_told_by_its_number_without_the_address(error: OSError, why: str) -> None:
    """The texts are those of asyncio and of aiohttp."""
    failure = connect_error(error, "models.test:80", tls=False)
    assert str(failure).startswith(f"models.test:80 cannot be reached ({why}")
    assert failure.reason == "Unreachable"


async def test_a_name_without_an_address_is_told_as_such() -> None:
    async def nowhere(host: str, port: int) -> list[tuple[str, int]]:
        return []

    with pytest.raises(ConnectFailed, match=r"mcp\.test:80 cannot be reached \(the name has no address\)"):
        await Dialer("mcp.test", 80, None, None, nowhere, 1.0).connect(asyncio.Protocol)


async def test_an_unknown_name_is_told_by_the_words_of_the_resolver() -> None:
    with pytest.raises(socket.gaierror) as caught:
        await resolve_by_dns("nowhere.invalid", 80)
    failure = connect_error(caught.value, "the provider", tls=True)
    assert failure.reason == "UnknownHost"
    assert str(failure) == f"the host name of the provider cannot be resolved ({caught.value.strerror})"
