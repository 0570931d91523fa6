"""Issuers whose keys change, and issuers that are unreachable or slow."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from fairlead_app.authentication import Trust
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.authenticator import Verdict
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwt_authenticator import Tokens
from fairlead_gateway.identity.request_authentication import Identities
from fixed_authenticator import Names
from gatewayworld import Clock, Wire, modern, running
from issuers import HERE, issuing, secured, status
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
            identities.hold(identity, lambda: ended.append("stream"))
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
        async with running(tmp_path, **secured(tmp_path, issuer)) as gateway, await Wire.connect(gateway) as wire:
            token = issuer.token(aud=HERE)
            refused = await wire.ask(modern("tools/list").with_headers(authorization=f"Bearer {token}"))
            assert (refused.status, refused.headers["retry-after"]) == (503, "5")
            assert await status(gateway, issuer.token(aud=HERE, exp=1)) == 503
            issuer.away = False

            async def taken() -> bool:
                return await status(gateway, token) == 200

            await until_async("the keys fetched", taken, seconds=30)
            issuer.away = True
            assert await status(gateway, issuer.token(aud=HERE, sub="another")) == 200


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
