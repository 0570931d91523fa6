"""The listener with TLS: renewal of certificates, and clients that need a certificate."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from certificates import Authority
from commands import fairlead
from fairlead_api.bad_setting import BadSetting
from fairlead_app.gateway import Gateway
from gatewayworld import Wire, calling, catalog, modern, running
from toolservers import modern_server
from waiting import eventually, until_async

NOWHERE = "http://127.0.0.1:9/mcp"


async def connect(gateway: Gateway, authority: Authority, client: Path | None = None) -> Wire:
    trust = ssl.create_default_context(cadata=authority.bundle)
    if client is not None:
        trust.load_cert_chain(client)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, ssl=trust, limit=64 << 20)
    return Wire(reader, writer, f"127.0.0.1:{gateway.port}")


def serial(wire: Wire) -> str:
    certificate = wire.writer.get_extra_info("peercert")
    return str(certificate["serialNumber"])


async def test_calls_lists_and_streams_go_through_tls(tmp_path: Path) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    cert.write_text(authority.issue())
    async with (
        modern_server() as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), tls_cert=cert) as gateway,
        await connect(gateway, authority) as wire,
    ):
        for _ in range(3):
            assert (await wire.ask(calling("demo__add"))).status == 200
        big = calling("demo__add", {"text": "x" * 300_000})
        assert (await wire.ask(big)).status == 200
        wire.send(modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
        await wire.reader.readuntil(b"acknowledged")
        async with await Wire.connect(gateway) as plain:
            plain.send(modern("tools/list"))
            assert b"200" not in await plain.read_to_end()
        ca = tmp_path / "ca.pem"
        ca.write_text(authority.bundle)
        code, out, err = await fairlead(
            "tiers", "--url", f"https://127.0.0.1:{gateway.port}/mcp", SSL_CERT_FILE=str(ca)
        )
        assert code == 0, out + err
        code, out, err = await fairlead(
            "tiers", "--url", f"https://localhost:{gateway.port}/mcp", SSL_CERT_FILE=str(ca)
        )
        assert code == 1
        assert "Use a host in --url that the certificate is for" in err, "the CA is right, the name is not"


async def test_a_renewed_certificate_is_shown_to_the_next_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    cert = tmp_path / "tls.pem"
    cert.write_text(authority.issue())
    async with running(tmp_path, tls_cert=cert) as gateway, await connect(gateway, authority) as before:
        first = serial(before)
        cert.write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
        await eventually(lambda: "The changed certificate was not loaded" in caplog.text)
        async with await connect(gateway, authority) as wire:
            assert serial(wire) == first
        cert.write_text(authority.issue())

        async def is_renewed() -> bool:
            async with await connect(gateway, authority) as wire:
                return serial(wire) != first

        await until_async("the new certificate", is_renewed)
        assert (await before.ask(modern("tools/list"))).status == 200


async def test_with_a_client_authority_nobody_connects_without_its_certificate(tmp_path: Path) -> None:
    authority = Authority()
    clients = Authority("clients")
    strangers = Authority("strangers")
    files = {name: tmp_path / f"{name}.pem" for name in ("server", "ca", "mine", "theirs")}
    files["server"].write_text(authority.issue())
    files["ca"].write_text(clients.bundle)
    files["mine"].write_text(clients.issue())
    files["theirs"].write_text(strangers.issue())
    async with running(tmp_path, tls_cert=files["server"], tls_client_ca=files["ca"]) as gateway:
        async with await connect(gateway, authority, files["mine"]) as wire:
            assert (await wire.ask(modern("tools/list"))).status == 200
        for client in (None, files["theirs"]):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                # with TLS 1.3, a client notices its refusal only when it reads
                async with await connect(gateway, authority, client) as wire:
                    await wire.ask(modern("tools/list"))


async def test_certificates_that_cannot_be_used_are_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"none\.pem"):
        async with running(tmp_path, tls_cert=tmp_path / "none.pem"):
            pass
    with pytest.raises(BadSetting, match="FAIRLEAD_TLS_CERT"):
        async with running(tmp_path, tls_key=tmp_path / "none.pem"):
            pass
