"""Credentials of security schemes of an OpenAPI document: their location in requests, and values that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.documents.catalog import SentCredential
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import SchemeCredential
from fairlead_operator.server.presented_credentials import ReferencedSecret, UnusableSecret
from fairlead_operator.server.scheme_credentials import sent_credential

URL = "https://api.example.com/v1"
REF = {"secretRef": {"name": "api"}}


def credential_for(member: dict[str, Any], value: bytes, hosts: str | None = None) -> SentCredential:
    secret = ReferencedSecret("api", "token", value, hosts)
    return sent_credential(SchemeCredential.model_validate(member), secret, URL)


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ({"bearer": REF}, SentCredential(headers={"Authorization": "Bearer hush"})),
        ({"header": {"name": "X-Key", **REF}}, SentCredential(headers={"X-Key": "hush"})),
        ({"query": {"name": "key", **REF}}, SentCredential(query={"key": "hush"})),
        ({"cookie": {"name": "sid", **REF}}, SentCredential(cookies={"sid": "hush"})),
    ],
)
def test_the_value_of_a_scheme_is_sent_where_its_credential_says(
    member: dict[str, Any], expected: SentCredential
) -> None:
    assert credential_for(member, b" hush\r\n") == expected


@pytest.mark.parametrize(
    ("member", "value", "cause", "words"),
    [
        ({"bearer": REF}, b"a\nb", Cause.SECRET_VALUE_INVALID, "HTTP headers"),
        ({"header": {"name": "X-Key", **REF}}, "ключ".encode(), Cause.SECRET_VALUE_INVALID, "HTTP headers"),
        ({"cookie": {"name": "sid", **REF}}, b"a; admin=1", Cause.SECRET_VALUE_INVALID, "cookies"),
        ({"cookie": {"name": "sid", **REF}}, b" \n", Cause.SECRET_VALUE_INVALID, "empty"),
        ({"query": {"name": "key", **REF}}, b"\xff", Cause.SECRET_VALUE_INVALID, "UTF-8"),
        ({"query": {"name": "key", **REF}}, b"\n", Cause.SECRET_KEY_MISSING, "no value"),
    ],
)
def test_a_value_that_cannot_be_sent_for_a_scheme_is_refused_without_quoting_it(
    member: dict[str, Any], value: bytes, cause: Cause, words: str
) -> None:
    with pytest.raises(UnusableSecret, match=words) as refused:
        credential_for(member, value)
    assert refused.value.cause == cause
    assert "key token of Secret api" in str(refused.value)


def test_a_scheme_that_the_servers_auth_is_for_needs_no_secret_and_nothing_more() -> None:
    credential = SchemeCredential.model_validate({"auth": True})
    assert credential.secret_ref is None
    assert sent_credential(credential, None, URL) == SentCredential()


def test_a_secret_of_other_hosts_is_sent_for_no_scheme() -> None:
    with pytest.raises(UnusableSecret, match=r"other\.example\.com only") as refused:
        credential_for({"query": {"name": "key", **REF}}, b"hush", "other.example.com")
    assert refused.value.cause == Cause.HOST_NOT_ALLOWED
