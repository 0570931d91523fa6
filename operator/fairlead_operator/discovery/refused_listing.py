"""Verdict about a server that refuses to list its tools to the operator. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.discovery.state import DiscoveryFailure
from fairlead_operator.ports import ConditionVerdict

_REFUSALS: Final = (Cause.UNAUTHORIZED, Cause.FORBIDDEN)
LISTS_NEED_CREDENTIAL: Final = (
    "the server lists its tools only with a credential, and spec.auth.tokenExchange gives one to people only: give "
    "Fairlead a credential for lists in spec.discovery.auth"
)


def explain_refusal(server: McpServer, failure: DiscoveryFailure) -> ConditionVerdict:
    """The verdict about a failed discovery, which names `discovery.auth` where the operator has no credential."""
    auth = server.spec.auth
    exchanges = auth is not None and auth.token_exchange is not None
    if exchanges and server.spec.discovery.auth is None and failure.reason in _REFUSALS:
        return ConditionVerdict(False, Cause.LISTS_NEED_CREDENTIAL, LISTS_NEED_CREDENTIAL)
    return failure.verdict()
