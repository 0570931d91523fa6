"""Claims of identity assertions: which clients may send the assertion, and claims of unexpected types."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_authorization.protocol.assertions import (
    AcceptedAssertion,
    RequestedToken,
    check_assertion,
    check_client,
)
from fairlead_authorization.protocol.responses import OAuthRefusal
from sessionworld import CLIENT, HERE, ISSUER, NOW

CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "sub": "ada",
    "aud": HERE,
    "client_id": CLIENT.id,
    "jti": "one",
    "iat": NOW,
    "exp": NOW + 300,
    "resource": f"{HERE}/mcp",
    "scope": "tools",
}
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(),
    st.text(alphabet=st.characters(categories=["Cs", "Cc"])),
    st.lists(st.one_of(st.none(), st.text(), st.integers()), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def check_claims(claims: dict[str, Any], **requested: str) -> AcceptedAssertion:
    wanted = RequestedToken(requested.get("resource"), requested.get("scope"))
    return check_assertion(claims, CLIENT, wanted, issuer=HERE, scopes=("tools", "admin"), now=NOW)


def test_assertion_grants_its_resource_and_scopes_to_its_person() -> None:
    accepted = check_claims({**CLAIMS, "groups": ["staff"], "auth_time": 5, "cnf": {"jkt": "x"}})
    assert (accepted.person.issuer, accepted.person.subject) == (ISSUER, "ada")
    assert accepted.person.claims == {"groups": ["staff"], "auth_time": 5}
    assert (accepted.id, accepted.resource, accepted.scopes) == ("one", f"{HERE}/mcp", ("tools",))
    assert accepted.ends_at > NOW + 300


@pytest.mark.parametrize("kind", ["configured", "registered"])
def test_client_without_a_credential_needs_a_document(kind: Any) -> None:
    check_client(CLIENT)
    public = msgspec.structs.replace(CLIENT, kind=kind)
    with pytest.raises(OAuthRefusal) as refusal:
        check_client(public)
    assert refusal.value.error == "unauthorized_client"
    check_client(msgspec.structs.replace(public, authentication="private_key_jwt"))


def test_half_a_character_is_refused() -> None:
    for name in ("jti", "sub", "email"):
        with pytest.raises(OAuthRefusal, match="Unicode"):
            check_claims({**CLAIMS, name: "a\ud800"})


@given(st.dictionaries(st.sampled_from([*CLAIMS.keys() - {"iss"}, "groups"]), ODD, min_size=1))
def test_odd_claims_are_refused_or_harmless(odd: dict[str, Any]) -> None:
    try:
        accepted = check_claims({**CLAIMS, **odd})
    except OAuthRefusal:
        return
    assert accepted.resource in (HERE, f"{HERE}/mcp")
    assert set(accepted.scopes) <= {"tools", "admin"}
    assert accepted.person.subject
