"""Client ID metadata documents: documents of real clients are accepted, and requests for unsupported features are
removed from them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from joserfc.jwk import ECKey, RSAKey

from clientdocuments import CHATGPT, CLAUDE, PUBLIC_DOCUMENTS, VSCODE
from fairlead_authorization.clients.client import RegisteredClient, UnknownClient
from fairlead_authorization.clients.client_ids import document_address
from fairlead_authorization.clients.documents import ClientDocument, client_of_document, display_name, read_document
from fairlead_authorization.clients.key_sets import MAX_KEYS, BadKeySet, read_key_set, thumbprint

KEY = ECKey.generate_key("P-256", {"kid": "one"})
PUBLIC_KEY = KEY.as_dict(private=False)


def read(document: dict[str, Any], url: str = "") -> ClientDocument:
    return read_document(json.dumps(document).encode(), document_address(url or document["client_id"]))


def client(document: dict[str, Any], keys: tuple[dict[str, Any], ...] = ()) -> RegisteredClient:
    address = document_address(document["client_id"])
    checked = read(document)
    return client_of_document(checked, address, address.agent, checked.keys or keys)


@pytest.mark.parametrize("document", PUBLIC_DOCUMENTS, ids=lambda document: document["client_name"])
def test_the_document_of_a_real_client_makes_a_public_client_whatever_grants_it_lists(document: dict[str, Any]) -> None:
    made = client(document)
    assert (made.id, made.kind, made.name) == (document["client_id"], "document", document["client_name"])
    assert made.redirect_uris == tuple(document["redirect_uris"])
    assert (made.authentication, made.keys, made.secret_sha256) == ("none", (), "")
    assert made.agent == document["client_id"].removeprefix("https://")


def test_chatgpt_signs_with_keys_at_a_url() -> None:
    document = read(CHATGPT)
    assert (document.authentication, document.jwks_uri, document.keys) == (
        "private_key_jwt",
        "https://chatgpt.com/oauth/jwks.json",
        (),
    )


def test_keys_in_the_document_win_over_keys_at_a_url() -> None:
    document = read({**CHATGPT, "jwks": {"keys": [PUBLIC_KEY]}})
    assert (document.jwks_uri, [key["kid"] for key in document.keys]) == ("", ["one"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"client_id": "https://claude.ai/oauth/other"}, "another client_id than its URL"),
        ({"client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata/"}, "another client_id"),
        ({"client_id": 7}, "is not JSON with client_id"),
        ({"client_secret": "s3cr3t"}, "has a client_secret, which everybody can read"),
        ({"client_secret": None}, "has a client_secret"),
        ({"client_secret_expires_at": 0}, "has a client_secret"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "other than none and private_key_jwt"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "other than none and private_key_jwt"),
        ({"token_endpoint_auth_method": "client_secret_jwt"}, "other than none and private_key_jwt"),
        ({"token_endpoint_auth_method": "tls_client_auth"}, "other than none and private_key_jwt"),
        ({"token_endpoint_auth_method": ["none"]}, "other than none and private_key_jwt"),
        ({"redirect_uris": []}, "no usable redirect URI"),
        ({"redirect_uris": ["javascript:alert(1)", "http://claude.ai/cb", 7, None]}, "no usable redirect URI"),
        ({"redirect_uris": "https://claude.ai/cb"}, "is not JSON with client_id and redirect_uris"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "key set has no usable public key"),
        ({"token_endpoint_auth_method": "private_key_jwt", "jwks": []}, "key set has no usable public key"),
        (
            {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [KEY.as_dict(private=True)]}},
            "has a private or shared key",
        ),
    ],
)
def test_a_document_that_cannot_be_used_is_refused_with_the_reason(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UnknownClient, match=says) as caught:
        read({**CLAUDE, **change}, CLAUDE["client_id"])
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"client_id":'])
def test_a_document_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(UnknownClient, match="is not JSON with client_id and redirect_uris"):
        read_document(body, document_address(CLAUDE["client_id"]))


def test_redirect_uri_that_is_odd_costs_only_itself() -> None:
    document = read({**CLAUDE, "redirect_uris": ["http://evil.example/cb", 1, *CLAUDE["redirect_uris"] * 2]})
    assert document.redirect_uris == tuple(CLAUDE["redirect_uris"])


def test_members_of_another_type_are_ignored_and_unknown_ones_too() -> None:
    document = read({**CLAUDE, "client_name": 7, "jwks_uri": 7, "grant_types": 7, "scope": [], "x": {"y": 1}})
    assert (document.name, document.authentication) == ("", "none")


def test_a_document_without_a_method_is_one_of_a_public_client() -> None:
    document = {name: value for name, value in CLAUDE.items() if name != "token_endpoint_auth_method"}
    assert read(document).authentication == "none"


def test_a_name_is_one_short_line_that_cannot_rearrange_the_page() -> None:
    assert display_name("Claude\n\u202eedualC\u0000 \u200b") == "Claude edualC"
    assert display_name("a" * 1_000) == "a" * 79 + "…"


def test_a_person_is_asked_again_when_redirects_or_keys_change_and_not_for_anything_else() -> None:
    same = client({**VSCODE, "client_name": "Other", "redirect_uris": VSCODE["redirect_uris"][::-1]})
    assert same.digest == client(VSCODE).digest
    assert client({**VSCODE, "redirect_uris": VSCODE["redirect_uris"][:1]}).digest != same.digest
    signed = {**VSCODE, "token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [PUBLIC_KEY]}}
    other = {**signed, "jwks": {"keys": [ECKey.generate_key("P-256").as_dict(private=False)]}}
    assert len({client(document).digest for document in (VSCODE, signed, other)}) == 3
    assert client({**signed, "jwks": {"keys": [{**PUBLIC_KEY, "kid": "renamed"}]}}).digest == client(signed).digest


def test_keys_that_a_client_replaces_at_its_url_are_the_same_client() -> None:
    assert client(CHATGPT, (PUBLIC_KEY,)).digest == client(CHATGPT, ()).digest


def test_usable_keys_of_a_set_are_kept_without_what_does_not_matter() -> None:
    rsa = RSAKey.generate_key(2048, {"kid": "rsa"}).as_dict(private=False)
    short = {**rsa, "n": str(rsa["n"])[:171], "kid": "short"}
    long = {**rsa, "n": str(rsa["n"]) * 5, "kid": "long"}
    keys = [
        7,
        {},
        {"kty": "LLAMA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        short,
        long,
        {**PUBLIC_KEY, "use": "enc"},
        {**rsa, "x5c": ["A" * 4_000], "use": "sig", "alg": "RS256"},
        PUBLIC_KEY,
    ]
    read_keys = read_key_set(json.dumps({"keys": keys}).encode())
    assert [key["kid"] for key in read_keys] == ["rsa", "one"]
    assert "x5c" not in read_keys[0]
    assert all(len(thumbprint(key)) == 64 for key in read_keys)
    assert len(read_key_set(json.dumps({"keys": [PUBLIC_KEY] * 50}).encode())) == MAX_KEYS


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"keys": 7}', b"\xff", b'{"keys": []}', b'{"keys": [{"kty": "oct"}]}']
)
def test_a_set_without_a_usable_key_is_refused(body: bytes) -> None:
    with pytest.raises(BadKeySet):
        read_key_set(body)


def test_a_shared_key_in_a_set_is_refused_as_everybody_can_read_it() -> None:
    with pytest.raises(BadKeySet, match="has a private or shared key"):
        read_key_set(b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}')
