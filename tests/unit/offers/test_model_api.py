"""Requests to an API of models: time limits, retries, and what messages say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from aiohttp import web

from certificates import Authority
from fairlead_mcp.errors import ConnectFailed, HttpRefused
from fairlead_mcp.http.dial import resolve_by_dns
from fairlead_mcp.retries import MAX_RETRY_AFTER_SECONDS
from fairlead_offers.models.model_api import ModelApi
from ports import free_port

in_loop_time = pytest.mark.looptime(start=0)
SECONDS = 30.0


class RefusingApi:
    """API that answers with refusals, and after the last one with success."""

    def __init__(self, refusals: Sequence[web.Response]) -> None:
        self._refusals = list(refusals)
        self.times: list[float] = []
        """Times of requests on the event loop's clock, in seconds."""

    async def answer(self, _: web.Request) -> web.Response:
        self.times.append(asyncio.get_running_loop().time())
        return self._refusals.pop(0) if self._refusals else web.Response(text="{}")


@asynccontextmanager
async def serving(*refusals: web.Response) -> AsyncIterator[tuple[RefusingApi, ModelApi]]:
    refusing, application = RefusingApi(refusals), web.Application()
    application.router.add_post("/v1/embeddings", refusing.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield refusing, model_api(f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
    finally:
        await runner.cleanup()


def model_api(url: str) -> ModelApi:
    return ModelApi(url, "", resolve_by_dns, seconds=SECONDS, max_bytes=1000)


@in_loop_time
async def test_the_lookup_of_the_host_name_ends_with_the_time_of_the_request() -> None:
    async def never(host: str, port: int) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    api = ModelApi("http://models.test/v1", "", never, seconds=SECONDS, max_bytes=1000)
    with pytest.raises(ConnectFailed, match=r"models\.test of the model API was not resolved within 30 s") as caught:
        await api.post("/embeddings", {})
    assert caught.value.reason == "UnknownHost"
    assert asyncio.get_running_loop().time() == pytest.approx(SECONDS, abs=0.1)


@in_loop_time
async def test_a_retry_waits_for_retry_after() -> None:
    async with serving(web.Response(status=503, headers={"Retry-After": "4"})) as (refusing, api):
        assert await api.post("/embeddings", {}) == b"{}"
        first, second = refusing.times
    assert second - first == pytest.approx(4, abs=0.1)


@in_loop_time
async def test_a_retry_after_that_is_too_long_ends_the_request() -> None:
    headers = {"Retry-After": str(MAX_RETRY_AFTER_SECONDS + 1)}
    async with serving(web.Response(status=503, headers=headers)) as (refusing, api):
        with pytest.raises(HttpRefused, match="status 503") as caught:
            await api.post("/embeddings", {})
    assert caught.value.retry_after_s == MAX_RETRY_AFTER_SECONDS + 1
    assert len(refusing.times) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"error": {"message": "no\\n room"}}', "no room"),
        ('{"error": {"message": null}}', "no reason stated"),
        ('{"error": null}', "no reason stated"),
        ("", "no reason stated"),
        ("busy", "busy"),
    ],
)
async def test_the_stated_reason_of_a_refusal_is_in_the_message(body: str, reason: str) -> None:
    async with serving(web.Response(status=400, text=body)) as (_, api):
        with pytest.raises(HttpRefused) as caught:
            await api.post("/embeddings", {})
    assert str(caught.value) == f"the model API answered with status 400: {reason}"


async def test_an_untrusted_certificate_is_told_with_the_address_and_not_retried(tmp_path: Path) -> None:
    connections: list[asyncio.StreamWriter] = []
    tls = Authority().server_context(tmp_path)
    async with await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectFailed) as caught:
            await model_api(f"https://127.0.0.1:{port}/v1").post("/embeddings", {})
    why = "certificate verify failed: unable to get local issuer certificate"
    assert str(caught.value) == f"TLS with the model API at 127.0.0.1:{port} failed ({why})"
    assert caught.value.reason == "TLSFailed"


async def test_a_refused_connection_is_told_with_the_address() -> None:
    port = free_port()
    with pytest.raises(ConnectFailed, match=f"^the model API at 127.0.0.1:{port} refused the connection$"):
        await model_api(f"http://127.0.0.1:{port}/v1").post("/embeddings", {})


async def test_an_unknown_host_is_reported_in_the_words_of_the_resolver() -> None:
    with pytest.raises(ConnectFailed, match=r"nowhere\.invalid of the model API cannot be resolved \(.+\)$"):
        await model_api("http://nowhere.invalid/v1").post("/embeddings", {})
