"""The browsers of `hack/bench sign_ins` tell why a sign-in failed, whatever the gateway answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from access.sign_in_browsers import Crowd


@asynccontextmanager
async def gateway(status: int, tokens: str) -> AsyncIterator[str]:
    """A gateway that signs everybody in, with this answer of its token endpoint; yields its base URL."""

    async def consent(_: web.Request) -> web.Response:
        return web.Response(text='<input type="hidden" name="key" value="k">', content_type="text/html")

    async def allow(_: web.Request) -> web.Response:
        return web.Response(status=303, headers={"location": "http://127.0.0.1:9/back?code=c"})

    async def token(_: web.Request) -> web.Response:
        return web.Response(status=status, text=tokens)

    application = web.Application()
    application.router.add_get("/oauth/authorize", consent)
    application.router.add_post("/oauth/consent", allow)
    application.router.add_post("/oauth/token", token)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "answer"),
    [(502, "<p>bad gateway"), (200, "[]"), (200, '{"access_token": "a"}'), (200, '{"refresh_token": 1}'), (200, "{")],
)
async def test_a_sign_in_that_gets_no_tokens_is_told_with_the_answer(status: int, answer: str) -> None:
    async with gateway(status, answer) as base:
        crowd = Crowd(base)
        crowd.begin()
        await asyncio.gather(*crowd.running)
    assert crowd.failure == f"SignInFailed: authorization_code: {status}, without refresh_token: {answer}"
    assert crowd.times_ms == []


async def test_a_sign_in_with_tokens_has_a_time() -> None:
    async with gateway(200, '{"access_token": "a", "refresh_token": "r"}') as base:
        crowd = Crowd(base)
        crowd.begin()
        await asyncio.gather(*crowd.running)
    assert (crowd.failure, len(crowd.times_ms)) == ("", 1)
