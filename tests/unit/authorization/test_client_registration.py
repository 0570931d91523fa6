"""Registration by clients: requests of real clients are accepted, and the sealed id contains the whole registration."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clientdocuments import CURSOR_REGISTRATION, PYTHON_SDK_REGISTRATION, REGISTRATIONS
from fairlead_authorization.clients.client import UnknownClient
from fairlead_authorization.clients.registration import (
    INVALID_CLIENT_METADATA,
    INVALID_REDIRECT_URI,
    MAX_ID,
    RegistrationRefused,
    Registrations,
)
from fairlead_gateway.identity.authorization_server import ClientRegistrationSettings
from virtualtime import HandClock

HOSTS = ("localhost", "vscode.dev", "insiders.vscode.dev", "cursor://anysphere.cursor-mcp", "www.cursor.com")
KEY = b"k" * 32
DAY = 86_400


def registrations(clock: HandClock, hosts: tuple[str, ...] = HOSTS, key: bytes = KEY) -> Registrations:
    return Registrations(ClientRegistrationSettings(redirect_hosts=hosts, days=30), key, clock)


def encode(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode()


@pytest.mark.parametrize("request_", REGISTRATIONS, ids=lambda request: request["client_name"])
def test_a_real_client_registers_and_every_replica_knows_it(request_: dict[str, Any]) -> None:
    clock = HandClock(1_000_000.5)
    answer = registrations(clock).register(encode(request_))
    assert answer.redirect_uris == tuple(request_["redirect_uris"])
    assert (answer.client_name, answer.client_id_issued_at) == (request_["client_name"], 1_000_000)
    assert (answer.grant_types, answer.response_types) == (("authorization_code", "refresh_token"), ("code",))
    assert len(answer.client_id) <= MAX_ID
    client = registrations(clock).find(answer.client_id)
    assert (client.kind, client.agent, client.authentication) == ("registered", None, "none")
    assert (client.name, client.redirect_uris) == (answer.client_name, answer.redirect_uris)
    assert client.expires_at == 1_000_000 + 30 * DAY


def test_a_client_that_wants_a_secret_is_registered_without_one() -> None:
    answer = registrations(HandClock()).register(encode(PYTHON_SDK_REGISTRATION))
    assert answer.token_endpoint_auth_method == "none"


def test_redirect_uris_at_other_hosts_are_left_out_and_the_answer_says_so() -> None:
    hosts = ("localhost", "www.cursor.com")
    answer = registrations(HandClock(), hosts).register(encode(CURSOR_REGISTRATION))
    assert answer.redirect_uris == (
        "https://www.cursor.com/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
    )


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        (b"", INVALID_CLIENT_METADATA, "is not a JSON object"),
        (b"[]", INVALID_CLIENT_METADATA, "is not a JSON object"),
        (b"\xff", INVALID_CLIENT_METADATA, "is not a JSON object"),
        (b"[" * 10_000, INVALID_CLIENT_METADATA, "is not a JSON object"),
        (b"{}", INVALID_REDIRECT_URI, "has to be a list"),
        (b'{"redirect_uris": "https://vscode.dev/redirect"}', INVALID_REDIRECT_URI, "has to be a list"),
        (b'{"redirect_uris": []}', INVALID_REDIRECT_URI, "none of the redirect URIs is usable"),
        (b'{"redirect_uris": [7, "javascript:x"]}', INVALID_REDIRECT_URI, "none of the redirect URIs is usable"),
        (
            b'{"redirect_uris": ["https://evil.example/cb"]}',
            INVALID_REDIRECT_URI,
            "clients at evil.example cannot register here: an administrator can add evil.example to redirectHosts",
        ),
        (b'{"redirect_uris": ["https://vscode.dev.evil.example/"]}', INVALID_REDIRECT_URI, "cannot register here"),
        (b'{"redirect_uris": ["https://vscode.dev:8443/"]}', INVALID_REDIRECT_URI, "add vscode.dev:8443"),
        (b'{"redirect_uris": ["cursor://evil/oauth"]}', INVALID_REDIRECT_URI, "clients at cursor://evil cannot"),
        (
            b'{"redirect_uris": ["http://localhost/"], "grant_types": ["client_credentials"]}',
            INVALID_CLIENT_METADATA,
            "grant_types has to include authorization_code",
        ),
        (
            b'{"redirect_uris": ["http://localhost/"], "response_types": ["token"]}',
            INVALID_CLIENT_METADATA,
            "response_types has to include code",
        ),
        (b'{"x": "' + b"a" * (16 << 10) + b'"}', INVALID_CLIENT_METADATA, "has more than 16384 bytes"),
        (
            encode({"redirect_uris": [f"http://localhost/{n}{'a' * 400}" for n in range(5)]}),
            INVALID_CLIENT_METADATA,
            "too long together",
        ),
        (
            encode({"redirect_uris": [f"http://localhost/{n}{'a' * 480}" for n in range(20)]}),
            INVALID_CLIENT_METADATA,
            "too long together",
        ),
    ],
)
def test_a_client_that_cannot_be_registered_is_told_why(body: bytes, error: str, says: str) -> None:
    with pytest.raises(RegistrationRefused, match=says) as caught:
        registrations(HandClock()).register(body)
    assert caught.value.error == error


def test_a_registration_ends_with_its_time() -> None:
    clock = HandClock(0.0)
    ours = registrations(clock)
    client_id = ours.register(encode(CURSOR_REGISTRATION)).client_id
    clock.now = 30 * DAY - 1
    assert ours.find(client_id).id == client_id
    clock.now = 30 * DAY
    with pytest.raises(UnknownClient, match="has expired"):
        ours.find(client_id)


def test_a_registration_ends_with_the_hosts_that_it_was_made_for() -> None:
    clock = HandClock()
    client_id = registrations(clock).register(encode(CURSOR_REGISTRATION)).client_id
    narrowed = registrations(clock, ("localhost",)).find(client_id)
    assert narrowed.redirect_uris == ("http://localhost:8787/callback",)
    assert narrowed.digest != registrations(clock).find(client_id).digest
    with pytest.raises(UnknownClient, match=r"can add cursor://anysphere\.cursor-mcp to redirectHosts"):
        registrations(clock, ("claude.ai",)).find(client_id)


def test_an_id_that_was_not_given_here_is_unknown() -> None:
    clock = HandClock()
    client_id = registrations(clock).register(encode(CURSOR_REGISTRATION)).client_id
    changed = client_id[:-6] + ("A" if client_id[-6] != "A" else "B") + client_id[-5:]
    for wrong in (changed, "registered.", "registered.AAAA", "registered.ä", client_id + "A" * 4_000):
        with pytest.raises(UnknownClient, match="is not registered here"):
            registrations(clock).find(wrong)
    with pytest.raises(UnknownClient, match="is not registered here"):
        registrations(clock, key=b"o" * 32).find(client_id)
