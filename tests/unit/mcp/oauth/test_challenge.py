"""`WWW-Authenticate` headers of servers and of attackers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_mcp.errors import HttpRefused, McpError, RpcError
from fairlead_mcp.oauth.challenge import (
    INSUFFICIENT_SCOPE,
    MAX_CHALLENGE_BYTES,
    MAX_PARTS,
    UNAUTHORIZED,
    Challenge,
    challenge_of,
)
from fairlead_mcp.oauth.scopes import MAX_SCOPES

URL = "https://tools.example.com/.well-known/oauth-protected-resource/mcp"


@pytest.mark.parametrize(
    ("field", "challenge"),
    [
        (
            f'Bearer error="invalid_token", error_description="a, b", resource_metadata="{URL}"',
            Challenge("invalid_token", (), URL),
        ),
        (f"Bearer resource_metadata={URL}", Challenge(resource_metadata=URL)),
        ("bearer SCOPE = \"read write\" , Error='x'", Challenge("'x'", ("read", "write"))),
        ('Bearer error="insufficient_scope" scope="write"', Challenge("insufficient_scope", ("write",))),
        ('Basic realm="a, Bearer error=b", Bearer scope="x"', Challenge(scopes=("x",))),
        ("NTLM, Negotiate YWJj==, Bearer realm=x", Challenge()),
        ("NTLM TlRMTVNTUAAC, Bearer", Challenge()),
        ('Digest nonce="\\", Bearer scope=\\"evil\\"", Bearer scope=good', Challenge(scopes=("good",))),
        ("Bearer a=b; c, , ,, scope=x", Challenge(scopes=())),
        ('Bearer error="first", error="second"', Challenge("first")),
        ('Bearer scope="open', Challenge()),
        ('Bearer scope="a\\"b c\\\\d ok"', Challenge(scopes=("ok",))),
        ("Bearer scope=a, Bearer scope=b", Challenge(scopes=("a",))),
    ],
)
def test_challenge_has_the_parameters_of_the_first_bearer_scheme(field: str, challenge: Challenge) -> None:
    assert Challenge.parse(field.encode("latin-1")) == challenge


@pytest.mark.parametrize("field", [None, b"", b"Basic realm=x", b'"Bearer"', b"=, =", b"\xff\x00\r\n"])
def test_field_without_bearer_is_not_a_challenge(field: bytes | None) -> None:
    assert Challenge.parse(field) is None


def test_challenge_that_is_too_long_or_has_too_many_parts_is_cut_or_ignored() -> None:
    assert Challenge.parse(b"Bearer scope=" + b"x" * MAX_CHALLENGE_BYTES) is None
    assert Challenge.parse(b"a=b, " * MAX_PARTS + b"Bearer scope=x") is None
    assert Challenge.parse(b"Bearer resource_metadata=" + b"x" * 3000) == Challenge()
    scopes = " ".join(f"s{n}" for n in range(2 * MAX_SCOPES))
    challenge = Challenge.parse(f'Bearer scope="{scopes}"'.encode())
    assert challenge is not None
    assert len(challenge.scopes) == MAX_SCOPES


@settings(max_examples=examples())
@given(st.binary(max_size=300) | st.text('Bearer=",\\ abc', max_size=200).map(str.encode))
def test_challenge_parser_never_raises(field: bytes) -> None:
    challenge = Challenge.parse(field)
    assert challenge is None or all(" " not in scope and scope.isascii() for scope in challenge.scopes)


@settings(max_examples=examples())
@given(st.dictionaries(st.sampled_from(["error", "scope", "realm"]), st.text(st.characters(codec="latin-1"))))
def test_quoted_strings_of_any_text_are_read_back(parameters: dict[str, str]) -> None:
    def quote(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    field = "Bearer " + ", ".join(f"{name}={quote(value)}" for name, value in parameters.items())
    challenge = Challenge.parse(field.encode("latin-1"))
    assert challenge is not None
    error = parameters.get("error", "")
    assert challenge.error == (error if error.isprintable() and len(error) <= 64 else "")


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (HttpRefused("x", status=401), UNAUTHORIZED),
        (HttpRefused("x", status=401, challenge=b'Bearer error="invalid_token"'), UNAUTHORIZED),
        (HttpRefused("x", status=403, challenge=b'Bearer error="insufficient_scope"'), INSUFFICIENT_SCOPE),
        (HttpRefused("x", status=403, challenge=b'Bearer error="invalid_token"'), ""),
        (HttpRefused("x", status=403), ""),
        (HttpRefused("x", status=500), ""),
        (RpcError(-32000, "x", status=401), ""),
    ],
)
def test_only_a_refused_token_has_a_challenge_to_answer(error: McpError, refusal: str) -> None:
    challenge = challenge_of(error)
    assert ("" if challenge is None else challenge.refusal_reason) == refusal
