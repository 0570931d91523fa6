"""Requests of more than a mebibyte, for example with pictures or a minute of speech, are sent in pieces."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from fairlead_models.provider_requests import ProviderClient, ProviderRequest
from fairlead_models.providers import Provider
from toolservers import serve_asgi


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, 5 << 20])
async def test_a_large_request_arrives_whole_and_with_its_length(size: int) -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        digest = hashlib.sha256()
        more = True
        while more:
            message = await receive()
            digest.update(message.get("body", b""))
            more = message.get("more_body", False)
        seen.update(headers=dict(scope["headers"]), digest=digest.digest())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b"{}"})

    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    client = ProviderClient()
    async with serve_asgi(app) as port:
        answer = await client.send(Provider(f"http://127.0.0.1:{port}"), ProviderRequest("/x", body))
        assert await answer.read_whole() == b"{}"
        answer.close()
        await client.aclose()
    assert seen["digest"] == hashlib.sha256(body).digest()
    assert seen["headers"][b"content-length"] == str(size).encode()
    assert b"transfer-encoding" not in seen["headers"]
