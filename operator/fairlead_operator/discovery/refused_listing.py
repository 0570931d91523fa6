"""Verdict about a server that refuses to list its tools to the operator. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer, TokenExchangeAuth, UserKeyAuth
from fairlead_operator.discovery.state import DiscoveryFailure
from fairlead_operator.ports import ConditionVerdict

_REFUSALS: Final = (Cause.UNAUTHORIZED, Cause.FORBIDDEN)
LISTS_NEED_CREDENTIAL: Final = (
    "the server lists its tools only with a credential, and spec.auth.tokenExchange obtains one only for users: give "
    "Fairlead a credential for lists in spec.discovery.auth"
)
LISTS_NEED_GRANT: Final = (
    "the server lists its tools only with a credential, and spec.auth.userConsent obtains one only for users: give "
    "Fairlead a credential for lists in spec.discovery.auth, or set firstGrant: true there, to list with the grant of "
    "the first user who signs in"
)
LISTS_NEED_KEY: Final = (
    "the server lists its tools only with a credential, and the keys of spec.auth.userKey are those of users: give "
    "Fairlead a credential for lists in spec.discovery.auth, or set firstGrant: true there, to list with the key of "
    "the first user who enters one"
)


def explain_refusal(server: McpServer, failure: DiscoveryFailure) -> ConditionVerdict:
    """The verdict about a failed discovery. If the operator lacks a credential, the message names `discovery.auth`."""
    auth = server.spec.auth
    user_auth = None if auth is None else auth.of_caller
    if user_auth is not None and server.spec.discovery.auth is None and failure.reason in _REFUSALS:
        message = LISTS_NEED_KEY if isinstance(user_auth, UserKeyAuth) else LISTS_NEED_GRANT
        if isinstance(user_auth, TokenExchangeAuth):
            message = LISTS_NEED_CREDENTIAL
        return ConditionVerdict(False, Cause.LISTS_NEED_CREDENTIAL, message)
    return failure.verdict()
