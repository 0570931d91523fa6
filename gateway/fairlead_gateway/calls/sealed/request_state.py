"""Signs the `requestState` that a server returns for a call. Only the principal who made the call can resume it, and
only at that server (SEP-2322).

To the server all calls come from one client, the gateway, so the server's own protection of `requestState` (MCP
2026-07-28, "Multi Round-Trip Requests") cannot tell principals apart. States of anonymous clients are signed too,
because a server may use guessable ones. No state is stored; replicas that share the session key verify each other's
signatures.
"""

from __future__ import annotations

from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.core.identity import Identity
from fairlead_mcp import jsonrpc, states
from fairlead_mcp.errors import RpcError


class RequestStateSigner:
    """Signs and verifies `requestState` with one key. With an empty `key`, a random key of this process is used."""

    def __init__(self, key: bytes = b"") -> None:
        self._seal = Seal(key, "states")

    def sign(self, result: Raw, server: ServerKey, identity: Identity) -> Raw:
        """A server's result, with its `requestState` signed for a principal."""
        return states.rewrite_state(result, lambda state: self._seal.mark(identity.owner, str(server), state))

    def verify(self, params: jsonrpc.RawObject, server: ServerKey, identity: Identity) -> jsonrpc.RawObject:
        """Params with the server's original state. Raises RpcError (-32602) for a state of another principal
        or server.
        """
        signed_state = states.state_in(params)
        if signed_state is None:
            return params
        state = self._seal.unmark(identity.owner, str(server), signed_state)
        if state is None:
            raise RpcError(
                jsonrpc.INVALID_PARAMS,
                f"requestState was not issued to this client by the server {server}; repeat the request without it",
                None,
            )
        return states.with_state(params, state)
