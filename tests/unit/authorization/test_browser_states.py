"""Browser cookies with the state of unfinished sign-ins."""

from __future__ import annotations

from http.cookies import SimpleCookie

import msgspec

from fairlead_authorization.protocol.browser_state import AwaitingConsent, BrowserState, BrowserStates

KEY = b"k" * 32
STATE = AwaitingConsent(
    id="a",
    client_id="https://client.example/id",
    redirect_uri="https://client.example/back",
    expires_at=600,
    session_id="b",
    issuer="https://idp.example",
    subject="ann",
    client_digest="c",
    token="d",
)


class _FormerState(BrowserState, frozen=True, kw_only=True, tag="consent"):
    """State as an earlier release wrote it, with other members."""


def cookies_of(state: BrowserState) -> dict[str, str]:
    line = BrowserStates(KEY, secure=True, now=lambda: 0.0).cookie(state)
    return {name: morsel.value for name, morsel in SimpleCookie(line).items()}


def test_the_state_in_a_cookie_is_found_until_its_end() -> None:
    cookies = cookies_of(STATE)
    assert BrowserStates(KEY, secure=True, now=lambda: 599.0).find(AwaitingConsent, cookies, "a") == STATE
    assert BrowserStates(KEY, secure=True, now=lambda: 600.0).find(AwaitingConsent, cookies, "a") is None
    assert BrowserStates(b"x" * 32, secure=True, now=lambda: 0.0).find(AwaitingConsent, cookies, "a") is None


def test_a_state_of_another_release_counts_as_none() -> None:
    members = {name: getattr(STATE, name) for name in BrowserState.__struct_fields__}
    cookies = cookies_of(msgspec.convert({"type": "consent", **members}, _FormerState))
    assert BrowserStates(KEY, secure=True, now=lambda: 0.0).find(AwaitingConsent, cookies, "a") is None
