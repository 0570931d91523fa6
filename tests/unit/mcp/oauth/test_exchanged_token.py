"""Exchanged tokens with which a server could call the gateway as the caller."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_mcp.oauth.errors import BAD_ANSWER, GrantFailed
from fairlead_mcp.oauth.exchanged_token import require_token_of_server

GATEWAY = "https://tools.example.com"
ENDPOINT = "login.example.com:443"


def part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def jwt_of(claims: Any) -> str:
    return f"{part(b'{}')}.{part(json.dumps(claims).encode())}.signature"


def check(token: str, subject_token: str = "the caller's own") -> None:
    require_token_of_server(token, subject_token, ENDPOINT, lambda audience: audience == GATEWAY)


@pytest.mark.parametrize("audience", [GATEWAY, [GATEWAY], ["desk", GATEWAY], ["desk", 7, None, [GATEWAY], GATEWAY]])
def test_a_token_for_the_gateway_is_refused_whatever_else_it_is_for(audience: Any) -> None:
    with pytest.raises(
        GrantFailed, match=r"login.example.com:443 .* is this gateway, .*: set the server's audience"
    ) as refused:
        check(jwt_of({"aud": audience, "iss": "https://anybody"}))
    assert refused.value.cause == BAD_ANSWER


def test_the_callers_own_token_is_refused_and_not_quoted() -> None:
    with pytest.raises(GrantFailed, match=r"the caller's own token, .*: set the server's audience") as refused:
        check("opaque-own-token", "opaque-own-token")
    assert refused.value.cause == BAD_ANSWER
    assert "opaque-own-token" not in str(refused.value)


@pytest.mark.parametrize(
    "token",
    [
        jwt_of({"aud": "desk"}),
        jwt_of({"aud": ["desk", "account"]}),
        jwt_of({"aud": {"tools": GATEWAY}}),
        jwt_of({}),
        jwt_of([GATEWAY]),
        jwt_of(GATEWAY),
        f"a.{part(b'[' * 5_000)}.c",
        f"a.{part(bytes(range(128, 200)))}.c",
        "a.b.c",
        "..",
        GATEWAY,
        "a.b.c.d.e",
    ],
)
def test_any_other_token_passes(token: str) -> None:
    check(token)


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60))
def test_arbitrary_tokens_neither_fail_nor_are_refused(token: str) -> None:
    check(token)
    check(f"a.{token}.c")
