"""Sentences of errors about HTTP answers that refuse a request."""

from __future__ import annotations

from typing import cast

import pytest

from fairlead_mcp.http.answer import Answer, Carrier
from fairlead_mcp.http.reading import refusal

EXPIRED = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the token\\nhas expired"}}'


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (EXPIRED, "(401): the token has expired"),
        (b'{"error": "invalid_token"}', "(401)"),
        (b"<!doctype html><p>Sign in", "(401)"),
        (b"", "(401)"),
    ],
)
def test_a_refused_credential_is_told_with_the_reason_of_a_server_that_speaks_mcp(body: bytes, end: str) -> None:
    headers, nobody = {b"www-authenticate": b"Bearer realm=x"}, cast("Carrier", None)
    answer = Answer(
        401, b"application/json", headers, body, streamed=False, reused=False, sent_at=0, done_at=0, connection=nobody
    )
    assert str(refusal(answer)).startswith("the server requires credentials (Bearer), or rejects the credentials")
    assert str(refusal(answer)).endswith(end)
