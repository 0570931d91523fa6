"""Signs a server's `requestState`, so that only its principal can resume the call (SEP-2322).

A server seals its state (MCP 2026-07-28, "Multi Round-Trip Requests") for the gateway, which speaks for many
principals: the one that it belongs to is added here. Nothing is kept; replicas that share the key of sessions verify
each other's signatures.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw

from fairlead_gateway.calls.seals import Seal
from fairlead_gateway.core.identity import Identity
from fairlead_mcp import jsonrpc, states
from fairlead_mcp.errors import RpcError

_MARK: Final = re.compile(r"fairlead-of\.([0-9a-f]{32})\.")


class RequestStateSigner:
    """Signs and verifies states with one key."""

    def __init__(self, key: bytes = b"") -> None:
        self._seal = Seal(key, "states")

    def signed(self, result: Raw, identity: Identity) -> Raw:
        """A server's result, its state signed for a principal. Results of anonymous clients stay as they are."""
        owner = identity.owner
        return (
            states.rewritten(result, lambda state: f"fairlead-of.{self._seal.mac(owner, state)}.{state}")
            if owner
            else result
        )

    def verified(self, params: jsonrpc.RawObject, identity: Identity) -> jsonrpc.RawObject:
        """Params with the server's own state. Raises RpcError (-32602) for one of another principal."""
        said = states.state_in(params)
        if said is None:
            return params
        found = _MARK.match(said)
        state = said if found is None else said[found.end() :]
        if found is None and not identity.owner:
            return params
        if found is None or not self._seal.verifies(found[1], identity.owner, state):
            raise RpcError(
                jsonrpc.INVALID_PARAMS,
                "requestState was issued to another principal; call the tool again without it",
                None,
            )
        return states.with_state(params, state)
