"""Authorization servers to which a caller's token may be sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_api.documents.oauth import TOKEN_EXCHANGE, OAuthSettings
from fairlead_gateway.core.token_destinations import ANYWHERE, TokenDestination

OURS = "https://login.example.com/realms/team"
EVIL = "https://evil.example.com"
TOKEN_URL = OURS + "/token"


def destination(*allowed: str, issuer: str = "", token_url: str = "") -> TokenDestination:
    settings = OAuthSettings(grant=TOKEN_EXCHANGE, client_id="gateway", issuer=issuer, token_url=token_url)
    return TokenDestination(settings, allowed)


@pytest.mark.parametrize("spelling", [OURS, OURS + "/"])
def test_a_token_may_go_to_its_own_issuer_and_to_no_other(spelling: str) -> None:
    for own in (OURS, OURS + "/"):
        assert destination(issuer=spelling).may_receive(own)
    for other in (EVIL, OURS + "//", OURS + "/x", OURS.upper(), "https://login.example.com", "", None, 7, [OURS]):
        assert not destination(issuer=spelling).may_receive(other)


def test_an_issuer_in_the_settings_does_not_make_a_token_url_its_own() -> None:
    for allowed in ((), (OURS,), (TOKEN_URL + "/",), (EVIL,)):
        assert not destination(*allowed, issuer=OURS, token_url=EVIL + "/token").may_receive(OURS)
        assert not destination(*allowed, issuer=OURS, token_url=TOKEN_URL).may_receive(OURS)


def test_the_installation_allows_an_issuer_a_token_url_or_all() -> None:
    for allowed in (OURS, OURS + "/", ANYWHERE):
        assert destination(allowed, issuer=OURS).may_receive(EVIL)
    for allowed in (TOKEN_URL, ANYWHERE):
        assert destination(EVIL, allowed, token_url=TOKEN_URL).may_receive(EVIL)
    assert destination(ANYWHERE, issuer=OURS).may_receive(None)
    assert not destination(TOKEN_URL, issuer=OURS).may_receive(EVIL)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_token_without_an_issuer_goes_nowhere_by_default(issuer: str, token_url: str) -> None:
    assert not destination(issuer=issuer, token_url=token_url).may_receive("")
    assert not destination(issuer=issuer, token_url=token_url).may_receive(None)
