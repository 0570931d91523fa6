"""Signed `requestState` of servers: bound to a principal and a server, not to a tool."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.sealed.request_state import RequestStateSigner
from fairlead_gateway.core.identity import Identity
from fairlead_mcp import jsonrpc, states
from fairlead_mcp.errors import RpcError

SHOP = ServerKey("team", "shop")
ALICE, BOB = (Identity(kind="apiKey", principal=f"name:{name}") for name in ("alice", "bob"))


def test_a_state_of_another_principal_or_server_is_refused_with_the_server_that_it_is_bound_to() -> None:
    signer = RequestStateSigner(b"key")
    result = signer.sign(Raw(b'{"resultType":"input_required","requestState":"s"}'), SHOP, ALICE)
    params = {"requestState": Raw(msgspec.json.encode(msgspec.json.decode(result)["requestState"]))}
    assert states.state_in(signer.verify(params, SHOP, ALICE)) == "s"
    for server, identity in ((SHOP, BOB), (ServerKey("team", "bank"), ALICE)):
        with pytest.raises(RpcError) as refused:
            signer.verify(params, server, identity)
        assert refused.value.code == jsonrpc.INVALID_PARAMS
        assert f"by the server {server}; repeat the request without it" in str(refused.value)
        assert "tool" not in str(refused.value)
