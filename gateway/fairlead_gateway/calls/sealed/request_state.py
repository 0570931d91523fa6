"""Signs a server's `requestState`, so that only its principal can resume the call, at that server (SEP-2322).

A server seals its state (MCP 2026-07-28, "Multi Round-Trip Requests") for the gateway, which speaks for many
principals: the one that it belongs to is added here. States of anonymous clients are signed too: a server may count its
states, and the next one is not theirs who can guess it. Nothing is kept; replicas that share the key of sessions verify
each other's signatures.
"""

from __future__ import annotations

from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.core.identity import Identity
from fairlead_mcp import jsonrpc, states
from fairlead_mcp.errors import RpcError


class RequestStateSigner:
    """Signs and verifies states with one key."""

    def __init__(self, key: bytes = b"") -> None:
        self._seal = Seal(key, "states")

    def sign(self, result: Raw, server: ServerKey, identity: Identity) -> Raw:
        """A server's result, its state signed for a principal."""
        return states.rewrite_state(result, lambda state: self._seal.marked(identity.owner, str(server), state))

    def verify(self, params: jsonrpc.RawObject, server: ServerKey, identity: Identity) -> jsonrpc.RawObject:
        """Params with the server's own state. Raises RpcError (-32602) for one of another principal or server."""
        given = states.state_in(params)
        if given is None:
            return params
        state = self._seal.unmarked(identity.owner, str(server), given)
        if state is None:
            raise RpcError(
                jsonrpc.INVALID_PARAMS,
                "requestState was not issued to this client for this tool; call the tool again without it",
                None,
            )
        return states.with_state(params, state)
