"""Metadata of servers and issuers: the URLs where it is read, and which values are trusted."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_mcp.http.target import Target
from fairlead_mcp.oauth import metadata
from fairlead_mcp.oauth.errors import BAD_ANSWER, DISCOVERY, ISSUER_MISMATCH, GrantFailed

ISSUER = "https://login.example.com/tenant"
SERVER = Target.from_url("https://tools.example.com/team/mcp?key=1")


def test_resource_metadata_is_at_the_servers_path_and_then_at_the_root() -> None:
    root = b"/.well-known/oauth-protected-resource"
    assert metadata.resource_metadata_paths(SERVER) == (root + b"/team/mcp", root)
    assert metadata.resource_metadata_paths(Target.from_url("https://tools.example.com/")) == (root,)
    assert metadata.resource_metadata_paths(Target.from_url("https://tools.example.com/mcp/"))[0] == root + b"/mcp"


def test_issuer_is_the_first_that_the_server_names_else_its_origin_as_it_is_written() -> None:
    named = metadata.ProtectedResourceMetadata("https://tools.example.com", ("https://a.example.com", "https://b"))
    assert metadata.named_issuer(named, "https://tools.example.com/mcp") == "https://a.example.com"
    for without in (None, metadata.ProtectedResourceMetadata("https://tools.example.com")):
        assert metadata.named_issuer(without, "https://tools.example.com/mcp?key=1") == "https://tools.example.com"
        assert metadata.named_issuer(without, "http://127.0.0.1:8080/mcp") == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.com/metadata",
        "http://tools.example.com/metadata",
        "https://tools.example.com:8443/metadata",
        "http://169.254.169.254/latest/meta-data",
        "https://tools.example.com@evil.example.com/",
        "https://u:p@tools.example.com/metadata",
        "//evil.example.com/metadata",
        "/metadata",
        "file:///etc/passwd",
        "https://[::1/",
        "",
    ],
)
def test_resource_metadata_of_a_challenge_at_another_origin_is_refused(url: str) -> None:
    with pytest.raises(GrantFailed, match="not at the server's own origin") as failed:
        metadata.resource_metadata_path(SERVER, url)
    assert failed.value.cause == DISCOVERY


def test_resource_metadata_of_a_challenge_is_read_at_the_servers_origin_only() -> None:
    assert metadata.resource_metadata_path(SERVER, "https://TOOLS.example.com:443/a b?c=d#e") == b"/a%20b?c=d"
    alias = Target.from_url("http://10.0.0.1:8080/mcp", "tools.example.com")
    assert metadata.resource_metadata_path(alias, "http://tools.example.com/x") == b"/x"


@pytest.mark.parametrize(
    ("resource", "included"),
    [
        ("https://tools.example.com/team/mcp", True),
        ("https://tools.example.com/team/mcp/", True),
        ("https://tools.example.com/team", True),
        ("https://tools.example.com", True),
        ("https://tools.example.com:443/", True),
        ("https://tools.example.com/team/mcp/admin", False),
        ("https://tools.example.com/tea", False),
        ("https://tools.example.com/other", False),
        ("https://other.example.com/team/mcp", False),
        ("http://tools.example.com/team/mcp", False),
        ("https://tools.example.com/team/mcp#x", False),
        ("https://tools.example.com/team/mcp?other", False),
        ("/team/mcp", False),
        ("", False),
    ],
)
def test_resource_is_the_servers_url_or_a_parent_at_its_origin(resource: str, included: bool) -> None:
    assert metadata.covers(resource, SERVER) is included


def test_server_that_names_other_issuers_only_is_refused_with_all_names() -> None:
    others = metadata.ProtectedResourceMetadata("https://tools.example.com", ("https://evil.example.com", "https://b"))
    with pytest.raises(GrantFailed) as failed:
        metadata.require_issuer(others, ISSUER)
    assert failed.value.cause == ISSUER_MISMATCH
    assert "https://evil.example.com" in str(failed.value)
    assert ISSUER in str(failed.value)
    metadata.require_issuer(metadata.ProtectedResourceMetadata("x", ("https://b", ISSUER)), ISSUER)
    metadata.require_issuer(metadata.ProtectedResourceMetadata("x", (ISSUER + "/",)), ISSUER)
    metadata.require_issuer(metadata.ProtectedResourceMetadata("x"), ISSUER)


def test_issuer_metadata_is_at_three_places_with_a_path_and_at_two_without() -> None:
    origin = "https://login.example.com"
    assert metadata.server_metadata_urls(ISSUER) == (
        f"{origin}/.well-known/oauth-authorization-server/tenant",
        f"{origin}/.well-known/openid-configuration/tenant",
        f"{origin}/tenant/.well-known/openid-configuration",
    )
    assert metadata.server_metadata_urls(origin + "/") == (
        f"{origin}/.well-known/oauth-authorization-server",
        f"{origin}/.well-known/openid-configuration",
    )


@pytest.mark.parametrize(
    "issuer",
    ["http://login.example.com", "ftp://x", "login.example.com", "https://x?y=z", "https://x#y", "https://[::", ""],
)
def test_issuer_without_https_or_with_a_query_is_refused(issuer: str) -> None:
    with pytest.raises(GrantFailed) as failed:
        metadata.server_metadata_urls(issuer)
    assert failed.value.cause == DISCOVERY


def document(**members: object) -> bytes:
    return json.dumps({"issuer": ISSUER, "token_endpoint": "https://login.example.com/token", **members}).encode()


@pytest.mark.parametrize(
    "other",
    [ISSUER + "/", "https://LOGIN.example.com/tenant", "https://login.example.com:443/tenant", "https://evil.com", ""],
)
def test_issuer_of_metadata_is_compared_as_a_string(other: str) -> None:
    with pytest.raises(GrantFailed) as failed:
        metadata.read_server_metadata(document(issuer=other), ISSUER, "https://login.example.com/.well-known/x")
    assert failed.value.cause == ISSUER_MISMATCH
    assert ISSUER in str(failed.value)
    assert f"issuer {other}," in str(failed.value)


def test_names_from_metadata_are_shown_on_one_line_without_control_characters() -> None:
    name = "https://evil.example.com/\r\n\x1b[31m" + "x" * 1_000
    failures = []
    with pytest.raises(GrantFailed) as other_issuer:
        metadata.require_issuer(metadata.ProtectedResourceMetadata("x", (name,)), ISSUER)
    with pytest.raises(GrantFailed) as other_metadata:
        metadata.read_server_metadata(document(issuer=name), ISSUER, "u")
    with pytest.raises(GrantFailed) as insecure:
        metadata.read_server_metadata(document(token_endpoint=name.replace("https", "http")), ISSUER, "u")
    failures += [str(other_issuer.value), str(other_metadata.value), str(insecure.value)]
    failures.append(str(metadata.other_resource_failure(metadata.ProtectedResourceMetadata(name), SERVER)))
    for message in failures:
        assert "evil.example.com" in message
        assert message.isprintable()
        assert len(message) < 500


def test_token_endpoint_must_be_confidential_and_a_text() -> None:
    for url in ("http://login.example.com/token", "login.example.com/token", "ftp://login.example.com"):
        with pytest.raises(GrantFailed, match="must be an https URL"):
            metadata.read_server_metadata(document(token_endpoint=url), ISSUER, "u")
    for url in ("http://127.0.0.1:1/token", "http://[::1]:1/token", "http://dex.auth.svc:5556/token", "https://b/c"):
        assert metadata.read_server_metadata(document(token_endpoint=url), ISSUER, "u").token_endpoint == url
    values: list[object] = [None, 1, ["https://a"], {}]
    for value in values:
        with pytest.raises(GrantFailed) as failed:
            metadata.read_server_metadata(document(token_endpoint=value), ISSUER, "u")
        assert failed.value.cause == BAD_ANSWER


@settings(max_examples=examples())
@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: json.dumps({"issuer": text}).encode()))
def test_metadata_readers_raise_nothing_but_grant_failures(body: bytes) -> None:
    metadata.read_resource_metadata(body)
    with pytest.raises(GrantFailed):
        metadata.read_server_metadata(body, ISSUER, "u")


@settings(max_examples=examples())
@given(st.text(max_size=100))
def test_untrusted_urls_raise_nothing_but_grant_failures(text: str) -> None:
    assert metadata.covers(text, SERVER) in (True, False)
    for read in (metadata.server_metadata_urls, lambda url: metadata.resource_metadata_path(SERVER, url)):
        with contextlib.suppress(GrantFailed):
            read(f"https://tools.example.com{text}")


def test_metadata_of_an_authorization_server_ignores_members_of_other_types() -> None:
    odd = json.loads(document())
    for name in ("authorization_endpoint", "registration_endpoint", "revocation_endpoint"):
        for value in (None, 7, ["https://a"], "https://a b", "https://ü", "https://a/\n", "https://a/" + "x" * 3_000):
            read = metadata.read_server_metadata(json.dumps({**odd, name: value}).encode(), ISSUER, "u")
            assert getattr(read, name) == ""
    flags = {"authorization_response_iss_parameter_supported": "yes", "client_id_metadata_document_supported": 1}
    read = metadata.read_server_metadata(json.dumps({**odd, **flags, "scopes_supported": "a"}).encode(), ISSUER, "u")
    assert (read.sends_issuer, read.takes_documents, read.scopes, read.has_s256) == (False, False, (), True)
    flags = dict.fromkeys(flags, True)
    more = {"scopes_supported": ["a", 7, "b c"], "code_challenge_methods_supported": ["plain", 7]}
    read = metadata.read_server_metadata(json.dumps({**odd, **flags, **more}).encode(), ISSUER, "u")
    assert (read.sends_issuer, read.takes_documents, read.scopes, read.has_s256) == (True, True, ("a",), False)


def test_issuer_that_a_server_names_may_differ_by_a_slash_from_its_metadata_and_by_nothing_else() -> None:
    read = metadata.read_server_metadata(document(), ISSUER + "/", "u", named_by_server=True)
    assert read.issuer == ISSUER
    for issuer in (ISSUER + "/x", "https://evil.example.com"):
        with pytest.raises(GrantFailed):
            metadata.read_server_metadata(document(), issuer, "u", named_by_server=True)
    with pytest.raises(GrantFailed):
        metadata.read_server_metadata(document(), ISSUER + "/", "u")
