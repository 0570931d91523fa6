"""Names of persons on pages: people know their name or e-mail address, and nobody knows the `sub` of a token."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_gateway.core.identity import LOCAL, Identity
from fairlead_gateway.identity.persons import MAX_NAME_CHARS, name_of
from fixed_authenticator import person_with

TOKEN = {"iss": "http://dex.auth.svc:5556/dex", "sub": "CgExEgVsb2NhbA"}


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "ada", "email": "ada@example.com", "name": "Ada L."}, "ada at dex.auth.svc:5556"),
        ({"email": "ada@example.com", "name": "Ada L."}, "ada@example.com at dex.auth.svc:5556"),
        ({"name": "Ada L."}, "Ada L. at dex.auth.svc:5556"),
        ({"preferred_username": "", "name": "Ada"}, "Ada at dex.auth.svc:5556"),
        ({"preferred_username": 7, "name": " \u202e\n"}, "CgExEgVsb2NhbA at http://dex.auth.svc:5556/dex"),
        ({}, "CgExEgVsb2NhbA at http://dex.auth.svc:5556/dex"),
    ],
)
def test_a_person_has_the_name_of_the_token_and_the_subject_only_without_one(claims: dict[str, Any], name: str) -> None:
    assert name_of(person_with({**TOKEN, **claims})) == name


def test_a_name_of_a_token_is_one_line_of_limited_length() -> None:
    name = name_of(person_with({**TOKEN, "name": "Ada\nof\u202e London " + "x" * 10_000}))
    assert name.startswith("Ada of London xxx")
    assert len(name.removesuffix(" at dex.auth.svc:5556")) == MAX_NAME_CHARS


def test_callers_without_a_token_have_the_names_of_their_grants() -> None:
    assert name_of(Identity(kind="apiKey", principal="name:alice", agent="alice")) == "name:alice"
    assert name_of(LOCAL) == "local"
