"""A server that refuses to list: the message depends on whether the operator had a credential."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.errors import HttpRefused
from fairlead_mcp.oauth.errors import INVALID_CLIENT, PROVIDER_ERROR, TIMEOUT, UNREACHABLE, GrantFailed
from fairlead_operator.discovery.refused_listing import explain_refusal
from fairlead_operator.discovery.state import DiscoveryFailure
from operatorfakes import mcp_server

CLIENT = {"issuer": "https://login.example.com", "clientID": "fairlead", "secretRef": {"name": "client"}}
EXCHANGE = {"auth": {"tokenExchange": CLIENT}}
LISTS = {"discovery": {"auth": {"clientCredentials": CLIENT}}}


@pytest.mark.parametrize(
    ("spec", "status", "cause"),
    [
        (EXCHANGE, 401, Cause.LISTS_NEED_CREDENTIAL),
        (EXCHANGE, 403, Cause.LISTS_NEED_CREDENTIAL),
        ({"auth": {"userKey": {"header": {"name": "X-Key"}}}}, 401, Cause.LISTS_NEED_CREDENTIAL),
        ({"auth": {"userConsent": {}}}, 401, Cause.LISTS_NEED_CREDENTIAL),
        ({"auth": {"userConsent": {}}, **LISTS}, 401, Cause.UNAUTHORIZED),
        (EXCHANGE, 500, Cause.SERVER_ERROR),
        ({**EXCHANGE, **LISTS}, 401, Cause.UNAUTHORIZED),
        ({"auth": {"clientCredentials": CLIENT}}, 401, Cause.UNAUTHORIZED),
        ({}, 401, Cause.UNAUTHORIZED),
    ],
)
def test_a_refusal_names_discovery_auth_only_where_it_helps(spec: dict[str, Any], status: int, cause: Cause) -> None:
    failure = DiscoveryFailure.of(HttpRefused("no", status=status))

    verdict = explain_refusal(mcp_server(**spec), failure)

    assert (verdict.ok, verdict.cause) == (False, cause)
    assert ("spec.discovery.auth" in verdict.message) == (cause is Cause.LISTS_NEED_CREDENTIAL)


@pytest.mark.parametrize(
    ("grant_cause", "cause"),
    [
        (INVALID_CLIENT, Cause.GRANT_FAILED),
        (UNREACHABLE, Cause.ISSUER_UNREACHABLE),
        (TIMEOUT, Cause.ISSUER_UNREACHABLE),
        (PROVIDER_ERROR, Cause.ISSUER_UNREACHABLE),
    ],
)
def test_a_failed_grant_is_a_cause_of_its_own(grant_cause: str, cause: Cause) -> None:
    assert DiscoveryFailure.of(GrantFailed("no token", cause=grant_cause)).verdict().cause is cause
