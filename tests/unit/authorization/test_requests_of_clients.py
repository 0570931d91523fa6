"""Sign-ins of clients: parameters, resources, rate limits, metadata and cookies."""

from __future__ import annotations

import pytest

from fairlead_authorization.protocol.browser_state import (
    SIGN_IN_SECONDS,
    AwaitingConsent,
    AwaitingProvider,
    BrowserStates,
)
from fairlead_authorization.protocol.metadata import metadata_paths, server_metadata
from fairlead_authorization.protocol.parameters import (
    MAX_PARAMETERS,
    UnreadableParameters,
    read_parameters,
    with_parameters,
)
from fairlead_authorization.protocol.rates import MAX_ADDRESSES, AddressRates
from fairlead_authorization.protocol.resources import canonical_resource
from fairlead_authorization.protocol.responses import description_of, error_url
from virtualtime import HandClock

BASE = "https://tools.example.com"


def test_parameters_keep_their_first_value_and_name_those_that_are_repeated() -> None:
    parameters = read_parameters("a=1&b=2&a=3&empty=")
    assert parameters.values == {"a": "1", "b": "2"}
    assert parameters.repeated == {"a"}
    with pytest.raises(UnreadableParameters):
        read_parameters("&".join(f"p{number}=1" for number in range(MAX_PARAMETERS + 1)))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("https://desk.example/back", "https://desk.example/back?code=a+b"),
        ("https://desk.example/back?x=1", "https://desk.example/back?x=1&code=a+b"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/callback?code=a+b"),
        ("com.example.app:/back", "com.example.app:/back?code=a+b"),
    ],
)
def test_answer_is_added_to_the_redirect_uri_as_it_is(uri: str, expected: str) -> None:
    assert with_parameters(uri, {"code": "a b"}) == expected


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (BASE, BASE),
        (f"{BASE}/", BASE),
        ("HTTPS://Tools.Example.COM:443/mcp", f"{BASE}/mcp"),
        (f"{BASE}/servers/team/shop/mcp/", f"{BASE}/servers/team/shop/mcp"),
        ("http://tools.example.com/mcp", None),
        ("https://tools.example.com:8443/mcp", None),
        ("https://tools.example.com.evil.example/mcp", None),
        ("https://user@tools.example.com/mcp", None),
        (f"{BASE}/mcp/../v1", None),
        (f"{BASE}/mcp/%2e%2e/v1", None),
        (f"{BASE}//mcp", None),
        (f"{BASE}/mcp?a=b", None),
        (f"{BASE}/mcp?", None),
        (f"{BASE}/mcp#a", None),
        (f"{BASE}\\mcp", None),
        ("https://tools.example.com:port/mcp", None),
        ("https://[tools", None),
        ("mcp", None),
        ("", None),
        (f"{BASE}/{'x' * 2_000}", None),
    ],
)
def test_resource_is_compared_in_one_spelling(resource: str, expected: str | None) -> None:
    assert canonical_resource(resource, BASE) == expected


def test_resource_of_a_gateway_with_a_path_is_below_the_path() -> None:
    base = f"{BASE}/fairlead"
    assert canonical_resource(f"{base}/mcp", base) == f"{base}/mcp"
    assert canonical_resource(f"{base}-other/mcp", base) is None
    assert canonical_resource(f"{BASE}/mcp", base) is None


def test_metadata_is_where_clients_look_for_an_issuer_with_a_path() -> None:
    assert metadata_paths(f"{BASE}/fairlead") >= {
        "/.well-known/oauth-authorization-server/fairlead",
        "/.well-known/openid-configuration/fairlead",
        "/fairlead/.well-known/openid-configuration",
    }
    document = server_metadata(f"{BASE}/fairlead", ("a",), takes_documents=True, allows_registration=False)
    assert document.token_endpoint == f"{BASE}/fairlead/oauth/token"
    assert document.registration_endpoint == ""


def test_rates_are_of_each_address_and_forget_the_oldest() -> None:
    clock = HandClock()
    rates = AddressRates(clock, per_minute=60, burst=2)
    assert [rates.take("192.0.2.1") > 0 for _ in range(3)] == [False, False, True]
    assert rates.take("192.0.2.2") == 0
    assert rates.take("2001:db8::1") == rates.take("2001:db8::2") == 0
    assert rates.take("2001:db8::3") > 0
    clock.now += 1.0
    assert rates.take("192.0.2.1") == 0
    for number in range(MAX_ADDRESSES):
        rates.take(f"10.0.{number >> 8}.{number & 255}")
    assert rates.take("192.0.2.1") == 0


def test_state_is_found_in_its_cookie_until_its_time() -> None:
    clock = HandClock()
    states = BrowserStates(b"key", secure=True, now=clock)
    state = AwaitingConsent(
        id="one",
        client_id="desk",
        redirect_uri="https://desk.example/back",
        expires_at=states.expiry(),
        session_id="s",
        issuer="https://corp.example",
        subject="alice",
        client_digest="d",
        token="t",  # of a test
    )
    line = states.cookie(state)
    assert line.startswith("__Host-")
    for attribute in ("Path=/", "Secure", "HttpOnly", "SameSite=Lax"):
        assert attribute in line
    name, _, value = line.partition(";")[0].partition("=")
    assert states.find(AwaitingConsent, {name: value}, "one") == state
    assert states.find(AwaitingProvider, {name: value}, "one") is None
    assert states.find(AwaitingConsent, {name: value}, "two") is None
    assert BrowserStates(b"other", secure=True, now=clock).find(AwaitingConsent, {name: value}, "one") is None
    clock.now += SIGN_IN_SECONDS + 1
    assert states.find(AwaitingConsent, {name: value}, "one") is None


def test_description_has_no_character_that_the_standard_forbids() -> None:
    assert description_of('“a” is "b" \\ c\n') == "?a? is 'b' / c?"
    url = error_url("https://desk.example/back", "invalid_request", "no", "", BASE)
    assert (
        url
        == "https://desk.example/back?error=invalid_request&error_description=no&iss=https%3A%2F%2Ftools.example.com"
    )
