"""Request states that only make a client repeat a call: they are valid for one principal, one call and a limited
time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.sealed.repeat_states import REPEAT_SECONDS, RepeatStates
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.request import McpRequest
from fairlead_mcp.errors import RpcError

ANN = Identity(kind="jwt", principal="jwt:https://idp.example#ann/desk")
BOB = Identity(kind="jwt", principal="jwt:https://idp.example#bob/desk")
SERVER = ServerKey("default", "demo")


class Now:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


def request(arguments: Any = None, state: str | None = None, **more: Any) -> McpRequest:
    params = {"name": "demo__x", "arguments": arguments or {}, **more}
    if state is not None:
        params["requestState"] = state
    raw = {name: Raw(json.dumps(value).encode()) for name, value in params.items()}
    return McpRequest(modern=True, method="tools/call", id=b"1", params=raw, session=None)


def verify(states: RepeatStates, identity: Identity, state: str, arguments: Any = None, **more: Any) -> int:
    return states.verify(identity, SERVER, "x", request(arguments, state, **more), "name")


def test_a_state_is_good_at_every_replica_until_it_expires() -> None:
    now = Now()
    state = RepeatStates(b"key", now).seal(ANN, SERVER, "x", request(), "name")
    other = RepeatStates(b"key", now)
    assert verify(other, ANN, state)
    assert verify(other, ANN, state, _meta={"progressToken": 2}, inputResponses={"page0": {"action": "accept"}})
    now.seconds += REPEAT_SECONDS - 1
    assert verify(other, ANN, state)
    now.seconds += 1
    with pytest.raises(RpcError, match="expired"):
        verify(other, ANN, state)


@pytest.mark.parametrize("whose", [BOB, ANONYMOUS])
def test_a_state_is_of_no_use_to_another_principal(whose: Identity) -> None:
    states = RepeatStates(b"key")
    state = states.seal(ANN, SERVER, "x", request(), "name")
    with pytest.raises(RpcError):
        verify(states, whose, state)


def test_a_state_of_another_key_or_with_another_time_is_refused() -> None:
    state = RepeatStates(b"key").seal(ANN, SERVER, "x", request(), "name")
    with pytest.raises(RpcError):
        verify(RepeatStates(b"other"), ANN, state)
    prefix, expires, rounds, mac = state.split(".")
    with pytest.raises(RpcError):
        verify(RepeatStates(b"key"), ANN, f"{prefix}.{int(expires) + 1}.{rounds}.{mac}")
    with pytest.raises(RpcError):
        verify(RepeatStates(b"key"), ANN, f"{prefix}.{expires}.0.{mac}")


def test_a_state_says_how_often_its_client_was_asked() -> None:
    states = RepeatStates(b"key")
    assert verify(states, ANN, states.seal(ANN, SERVER, "x", request(), "name", dialogs=3)) == 3


def test_a_state_of_a_server_is_left_to_it() -> None:
    states = RepeatStates(b"key")
    assert not verify(states, ANN, "v1.of the server")
    assert not states.verify(ANN, SERVER, "x", request(), "name")


def test_a_state_says_nothing_of_the_call() -> None:
    state = RepeatStates(b"key").seal(ANN, SERVER, "secret-tool", request({"secret": 1}), "name")
    assert "secret" not in state
    assert len(state) < 100


def test_a_state_is_bound_to_the_arguments_that_the_client_sent_whatever_the_tools_shape_made_of_them() -> None:
    states = RepeatStates(b"key")
    first = request()
    first.client_arguments = first.params["arguments"]
    first.params = {**first.params, "arguments": Raw(b'{"other":1}')}
    state = states.seal(ANN, SERVER, "x", first, "name")
    assert verify(states, ANN, state) == 1
