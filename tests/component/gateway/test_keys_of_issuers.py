"""Issuers whose keys change, and issuers that are unreachable or slow."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from certificates import Authority
from fairlead_app.authentication import Trust
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.authenticator import Verdict
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import Tokens
from fairlead_gateway.identity.refusal import UNAVAILABLE
from fairlead_gateway.identity.request_authentication import Identities
from fixed_authenticator import Names
from gatewayworld import Clock, Wire, modern, running
from issuers import HERE, JWKS, LocalIssuer, issuing, settings_with_issuer, status
from rawserver import Reply, Request, raw_server
from waiting import until_async


async def test_a_new_key_is_found_and_an_old_one_ends(tmp_path: Path) -> None:
    """An unknown key id causes one request to the issuer; further ones soon after cause none."""
    ahead = Clock()
    async with issuing() as issuer:
        tokens = Tokens([Issuer(issuer=issuer.url)], address=HERE, now=time.time, clock=ahead)
        old = issuer.token(aud=HERE)
        assert isinstance(await tokens.look_up(old), Identity)
        issuer.rotate("second")
        new = issuer.token(aud=HERE)
        for number in range(20):
            await tokens.look_up(issuer.token(header={"kid": f"made-up-{number}"}, aud=HERE))
        assert issuer.key_requests == 1
        ahead.forward(11)
        assert isinstance(await tokens.look_up(new), Identity)
        assert issuer.key_requests == 2
        assert tokens.check(old) is None
        assert not isinstance(await tokens.look_up(old), Identity)


async def test_a_withdrawn_key_ends_what_it_let_in(tmp_path: Path) -> None:
    ahead = Clock()
    async with issuing() as issuer:
        tokens = Tokens([Issuer(issuer=issuer.url)], address=HERE, now=time.time, clock=ahead)
        identities = Identities([tokens])
        await identities.start()
        try:
            header = b"Bearer " + issuer.token(aud=HERE).encode()
            identity = await identities.identify(header)
            assert isinstance(identity, Identity)
            ended: list[str] = []
            identities.watch(identity, lambda: ended.append("stream"))
            issuer.rotate("second")
            ahead.forward(11)
            await identities.identify(b"Bearer " + issuer.token(aud=HERE).encode())
            assert ended == ["stream"]
            assert identities.recall(header) is None
        finally:
            await identities.aclose()


async def test_an_issuer_that_is_away_locks_out_only_whom_it_would_have_to_vouch_for(tmp_path: Path) -> None:
    async with issuing() as issuer:
        issuer.away = True
        async with (
            running(tmp_path, **settings_with_issuer(tmp_path, issuer)) as gateway,
            await Wire.connect(gateway) as wire,
        ):
            token = issuer.token(aud=HERE)
            refused = await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {token}"))
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert await status(gateway, issuer.token(aud=HERE, exp=1)) == 503
            issuer.away = False

            async def is_taken() -> bool:
                return await status(gateway, token) == 200

            await until_async("the keys fetched", is_taken, seconds=30)
            issuer.away = True
            assert await status(gateway, issuer.token(aud=HERE, sub="another")) == 200


@pytest.mark.parametrize(
    "path",
    [
        "/realms/a/.well-known/openid-configuration",
        "/.well-known/openid-configuration/realms/a",
        "/.well-known/oauth-authorization-server/realms/a",
    ],
)
async def test_keys_are_found_by_metadata_at_each_well_known_path(path: str) -> None:
    keys = LocalIssuer()
    accepted = set()

    async def handle(request: Request, reply: Reply) -> None:
        accepted.add(request.headers["accept"])
        if request.path == path:
            reply.send(200, json.dumps({"issuer": keys.url, "jwks_uri": keys.url + JWKS}).encode())
        elif request.path == "/realms/a" + JWKS:
            padding = {"x5c": ["A" * 200_000]}
            members = [{**key.as_dict(private=False), **padding} for key in keys.keys]
            reply.send(200, json.dumps({"keys": members}).encode(), kind="application/jwk-set+json")
        else:
            reply.send(404)

    async with raw_server(handle) as server:
        keys.url = f"{server.url.rsplit('/', 1)[0]}/realms/a"
        tokens = Tokens([Issuer(issuer=keys.url)], address=HERE, now=time.time, clock=time.monotonic)
        assert isinstance(await tokens.look_up(keys.token(aud=HERE)), Identity)
        assert accepted == {"application/json, */*;q=0.1"}


async def test_keys_come_over_tls_by_the_certificates_of_ca_file_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, keys, ca_file = Authority(), LocalIssuer(), tmp_path / "ca.pem"
    async with raw_server(keys.handle, tls=authority.server_context(tmp_path)) as server:
        keys.url = f"https://127.0.0.1:{server.port}"

        async def verdict(file: Path | None) -> Verdict:
            tokens = Tokens([Issuer(issuer=keys.url, ca_file=file)], address=HERE, now=time.time, clock=time.monotonic)
            return await tokens.look_up(keys.token(aud=HERE))

        assert await verdict(None) is UNAVAILABLE
        assert f"the issuer 127.0.0.1:{server.port} cannot be reached: TLS with" in caplog.text
        assert await verdict(ca_file) is UNAVAILABLE
        assert f"caFile {ca_file} cannot be read" in caplog.text
        ca_file.write_text(authority.bundle)
        assert isinstance(await verdict(ca_file), Identity)


async def test_a_slow_issuer_holds_nobody_else_up(tmp_path: Path) -> None:
    """Requests with known credentials continue while another credential is being verified."""
    requested = asyncio.Event()
    go_on = asyncio.Event()

    class Slow(Names):
        async def look_up(self, token: str) -> Verdict:
            if token == "slow":
                requested.set()
                await go_on.wait()
            return await super().look_up(token)

    async with (
        running(tmp_path, trust=Trust((Slow("ann", "slow"),))) as gateway,
        await Wire.connect(gateway) as first,
        await Wire.connect(gateway) as other,
    ):
        first.send(modern("tools/list").with_headers(authorization="Bearer slow"))
        await requested.wait()
        assert (await other.ask(modern("tools/list").with_headers(authorization="Bearer ann"))).status == 200
        go_on.set()
        assert (await first.answer()).status == 200
