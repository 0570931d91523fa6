"""Seals a `requestState` that only asks the client to repeat its call, for example after the user has opened a page.

The server never sees the state. It is bound to principal, server, method, target and a digest of the params, expires
after REPEAT_SECONDS, and is not stored: replicas that share the session key accept each other's states (MCP 2026-07-28,
"Multi Round-Trip Requests", server requirements).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import McpRequest
from fairlead_mcp import jsonrpc, states
from fairlead_mcp.errors import RpcError

REPEAT_SECONDS: Final = 600
"""Seconds for which a state is accepted."""
_PREFIX: Final = "fairlead-repeat."
_STATE: Final = re.compile(r"fairlead-repeat\.([0-9]{1,12})\.([0-9]{1,3})\.([0-9a-f]{32})")
_FREE_MEMBERS: Final = frozenset({"_meta", "inputResponses", states.STATE})
"""Members of params that may differ in the repeated request."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode


class RepeatStates:
    """Seals and verifies states with one key. With an empty `key`, a random key of this process is used.

    `clock` is in seconds since the epoch.
    """

    def __init__(self, key: bytes = b"", clock: Callable[[], float] = time.time) -> None:
        self._seal = Seal(key, "repeats")
        self._clock = clock

    def seal(
        self, identity: Identity, server: ServerKey, target: str, request: McpRequest, member: str, *, dialogs: int = 1
    ) -> str:
        """Seal a state for a request. `target` is the clients' name of the target, `member` is the param that contains
        it, and `dialogs` is how often the client was asked during this call.
        """
        head = f"{int(self._clock()) + REPEAT_SECONDS}.{dialogs}"
        text = _authenticated_text(head, server, target, request, member)
        return f"{_PREFIX}{head}.{self._seal.mac(identity.owner, text)}"

    def verify(self, identity: Identity, server: ServerKey, target: str, request: McpRequest, member: str) -> int:
        """Verify the state of a request, and return how often the client was asked; 0 without a state. Raises RpcError
        (-32602) if the state belongs to another principal or call, or has expired.
        """
        state = states.state_in(request.params)
        if state is None or not state.startswith(_PREFIX):
            return 0
        match = _STATE.fullmatch(state)
        if match is not None:
            text = _authenticated_text(f"{match[1]}.{match[2]}", server, target, request, member)
            if self._seal.verifies(match[3], identity.owner, text) and self._clock() < int(match[1]):
                return int(match[2])
        raise RpcError(
            jsonrpc.INVALID_PARAMS,
            "requestState has expired, or was issued to another client or for other arguments; call the tool again "
            "without it",
            None,
        )


def _authenticated_text(head: str, server: ServerKey, target: str, request: McpRequest, member: str) -> str:
    """Text that the seal of a state authenticates."""
    params = request.params
    if request.client_arguments is not None:
        params = {**params, "arguments": request.client_arguments}
    canonical_params = {
        name: _canonical_json(raw) for name, raw in params.items() if name not in _FREE_MEMBERS and name != member
    }
    digest = hashlib.blake2b(_encode(canonical_params), digest_size=16).hexdigest()
    return f"{head} {server} {request.method} {digest} {target}"


def _canonical_json(raw: Raw) -> Raw:
    try:
        return Raw(_encode(_decode(raw)))
    except jsonrpc.UNREADABLE:
        return raw
