"""Redirect URIs: which URIs a client may register, and which requests match a registered URI."""

from __future__ import annotations

import pytest

from clientdocuments import CHATGPT, CLAUDE_CODE, PUBLIC_DOCUMENTS, REGISTRATIONS, VSCODE
from fairlead_authorization.clients.redirects import is_loopback_redirect, matches, redirect_host, redirect_problem

REAL = sorted({uri for client in (*PUBLIC_DOCUMENTS, CHATGPT, *REGISTRATIONS) for uri in client["redirect_uris"]})
CODE = tuple(CLAUDE_CODE["redirect_uris"])


@pytest.mark.parametrize("uri", REAL)
def test_the_redirect_uris_of_real_clients_are_usable_and_match_themselves(uri: str) -> None:
    assert redirect_problem(uri) == ""
    assert matches(uri, (uri,))


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/callback",
        "callback",
        "//evil.example/callback",
        "http://evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://localhost.evil.example/callback",
        "http://127.0.0.1@evil.example/callback",
        "http://127.0.0.1:80@evil.example/callback",
        "http://user@localhost/callback",
        "http://127.0.0.2/callback",
        "http://0.0.0.0/callback",
        "http://2130706433/callback",
        "http://127.0.0.1:0/callback",
        "http://127.0.0.1:/callback",
        "http://LOCALHOST/callback",
        "HTTP://localhost/callback",
        "https://app.example/callback#part",
        "https://app.example/callback#",
        "https://app.example/a b",
        "https://app.example/a\\b",
        "https://app.example/a\r\nSet-Cookie: x=y",
        "https://app.example\\@evil.example/",
        "https://app.example@evil.example/",
        "https://user:secret@app.example/",
        "https:///callback",
        "https://app.exämple/callback",
        "javascript:alert(1)",
        "javascript://app.example/%0aalert(1)",
        "data:text/html,hello",
        "file:///etc/passwd",
        "blob:https://app.example/1",
        "vbscript:x",
        "about:blank",
        "intent://scan/#Intent;end",
        "ms-msdt:/id",
        "ms-settings://x/y",
        "mailto:a@b.example",
        "cursor:",
        "cursor://",
        "cursor:oauth",
        "https://app.example/" + "a" * 512,
    ],
)
def test_a_redirect_uri_that_leads_elsewhere_or_is_run_by_the_browser_is_refused(uri: str) -> None:
    assert redirect_problem(uri)
    assert redirect_host(uri) == ""


@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost:58135/callback",
        "http://localhost/callback",
        "http://127.0.0.1:1/callback",
        "http://127.0.0.1:65535/callback",
    ],
)
def test_a_program_may_listen_at_any_loopback_port(uri: str) -> None:
    assert matches(uri, CODE)


def test_another_port_than_the_registered_one_and_an_empty_path_match_at_a_loopback_address() -> None:
    registered = tuple(VSCODE["redirect_uris"])
    assert matches("http://127.0.0.1:33418", registered)
    assert matches("http://127.0.0.1:59656/", registered)
    assert not matches("http://localhost:33418/", registered)
    assert matches("http://[::1]:4000/cb", ("http://[::1]/cb",))


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:8080/callback/",
        "http://127.0.0.1:8080/Callback",
        "http://127.0.0.1:8080/callback?next=x",
        "http://127.0.0.1:8080/callback#x",
        "http://127.0.0.1:65536/callback",
        "http://127.0.0.1:99999/callback",
        "http://127.0.0.2:8080/callback",
        "http://127.0.0.1:8080/callback/../evil",
        "http://127.0.0.1:8080@evil.example/callback",
        "https://127.0.0.1:8080/callback",
        "http://[::1]:8080/callback",
        "http://localhost.evil.example:8080/callback",
    ],
)
def test_all_but_the_port_of_a_loopback_address_is_compared_as_text(uri: str) -> None:
    assert not matches(uri, CODE)


@pytest.mark.parametrize(
    "uri",
    [
        "https://vscode.dev:8443/redirect",
        "https://vscode.dev:443/redirect",
        "https://vscode.dev/redirect/",
        "https://vscode.dev/redirect?x",
        "https://VSCODE.dev/redirect",
        "https://vscode.dev/%72edirect",
        "https://evil.example/redirect",
        "cursor://anysphere.cursor-mcp/oauth/callback2",
        "cursor://evil/oauth/callback",
        "CURSOR://anysphere.cursor-mcp/oauth/callback",
    ],
)
def test_web_and_private_redirect_uris_are_compared_as_text(uri: str) -> None:
    assert not matches(uri, ("https://vscode.dev/redirect", "cursor://anysphere.cursor-mcp/oauth/callback"))


@pytest.mark.parametrize(
    ("uri", "host"),
    [
        ("https://claude.ai/api/mcp/auth_callback", "claude.ai"),
        ("https://claude.ai:8443/cb", "claude.ai:8443"),
        ("http://127.0.0.1:33418/", "localhost"),
        ("http://[::1]/cb", "localhost"),
        ("http://localhost:1/cb", "localhost"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp"),
        ("com.example.app:/oauth", "com.example.app:"),
    ],
)
def test_a_person_sees_where_a_redirect_leads(uri: str, host: str) -> None:
    assert redirect_host(uri) == host
    assert is_loopback_redirect(uri) == (host == "localhost")
