"""Upstream of a server whose lists could not be read yet. Its only tool asks callers to sign in.

A call without a grant is refused with a sign-in link before it reaches any upstream. So the callers of this upstream
have signed in.
"""

from __future__ import annotations

import itertools
from typing import Final

from msgspec import Raw

from fairlead_gateway.core.ports import Pending, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.sending import NO_OP_PENDING
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import RpcError

_METHOD: Final = "tools/call"
_SIGNED_IN: Final = Raw(
    b'{"content":[{"type":"text","text":"You are signed in. The tools of this server are there in a moment: list the '
    b'tools again."}]}'
)


class SignInUpstream(Upstream):
    """Answers calls of the tool `sign_in` whose callers have a grant."""

    def __init__(self) -> None:
        self._next_number = itertools.count(1).__next__

    @property
    def modern(self) -> bool:
        return False

    def next_id(self) -> bytes:
        return b"%d" % self._next_number()

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> Pending:
        if request.method == _METHOD:
            sink.take_result(_SIGNED_IN)
        else:
            sink.take_error(
                RpcError(
                    jsonrpc.METHOD_NOT_FOUND,
                    f"the tools of this server are not known yet, and it has no {request.method}",
                )
            )
        return NO_OP_PENDING
