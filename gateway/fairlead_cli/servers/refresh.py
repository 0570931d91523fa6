"""`fairlead refresh`: requests a discovery of a server's tools, and waits for its result."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from fairlead_api.v1alpha1.causes import Cause
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output, print_json
from fairlead_cli.rest import ManagementClient
from fairlead_cli.waiting import attempts, spinner
from fairlead_cli.wording import ready_to_paste, with_advice

MAX_OPERATOR_SILENCE: Final = timedelta(minutes=1)
"""If no operator has fetched requests from the gateway for this long, the operator counts as absent."""


def run_refresh(destination: Destination, server: str, wait: bool, output: Output) -> None:
    """Request a discovery, and with `wait` wait up to the destination's timeout for its result. Raises Failure."""
    client = ManagementClient.of(destination)
    path = f"/v1/servers/{quote(server, safe='/')}"
    old_state = client.get(path)
    request = client.post(f"{path}/refresh", {})
    if not wait:
        if output is Output.json:
            print_json(request)
        else:
            print(f"The discovery of {request['server']} is requested.")
        return
    with spinner(f"asking {request['server']} for its tools"):
        new_state = _wait_for_answer(client, request, destination.timeout)
    sign_in_reason = new_state.get("signIn")
    sign_in_request = (
        f"{new_state['server']} needs your sign-in, because {sign_in_reason}: fairlead login {new_state['server']}"
    )
    if output is Output.json:
        print_json(new_state)
    elif new_state["refreshed"]["failure"] is None:
        tools = "1 tool" if new_state["tools"] == 1 else f"{new_state['tools']} tools"
        if sign_in_reason:
            print(ready_to_paste(sign_in_request))
            print(f"Until then, its last list of tools stays in use: {tools}, {_comparison(old_state, new_state)}.")
        else:
            print(f"{new_state['server']} responded: {tools}, {_comparison(old_state, new_state)}.")
        if held := new_state.get("held"):
            count = "1 definition is" if held == 1 else f"{held} definitions are"
            print(
                ready_to_paste(f"{count} held back until approved: `fairlead diff {new_state['server']}` shows them.")
            )
    if (failure := new_state["refreshed"]["failure"]) is not None:
        is_sign_in = sign_in_reason and new_state.get("cause") == Cause.SIGN_IN_REQUIRED
        raise Failure(sign_in_request if is_sign_in else f"the discovery of {new_state['server']} failed: {failure}")


def _comparison(old_state: dict[str, Any], new_state: dict[str, Any]) -> str:
    if old_state.get("tools") is None:
        return f"for the first time; its state was {old_state['state']}"
    return "unchanged" if new_state["hash"] == old_state["hash"] else f"{old_state['tools']} before, with changes"


def _wait_for_answer(client: ManagementClient, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Wait until the server's `refreshed` shows the requested discovery, and return the server's state."""
    server: dict[str, Any] = {}
    for _ in attempts(seconds):
        try:
            server = client.get(f"/v1/servers/{quote(request['server'], safe='/')}")
        except Failure as error:
            raise Failure(
                f"{error}: the server was removed, as servers with onDisconnect: Remove are when they are unreachable"
            ) from error
        refreshed = server["refreshed"]
        has_result = server.get("tools") is not None or (refreshed is not None and refreshed["failure"] is not None)
        if has_result and refreshed is not None and refreshed["at"] != request["before"]:
            return server
    raise Failure(timeout_reason(request, server, seconds))


def timeout_reason(request: dict[str, Any], server: dict[str, Any], seconds: float) -> str:
    """Why no result came within `seconds`: of a requested discovery, by the last state of its server."""
    seen_at = request["operatorSeenAt"]
    if seen_at is None or datetime.fromisoformat(seen_at) < datetime.now(UTC) - MAX_OPERATOR_SILENCE:
        period = "since this gateway started" if seen_at is None else f"since {seen_at}"
        return (
            f"no operator has polled this gateway {period}: check that an operator is running, and its "
            "FAIRLEAD_GATEWAYS and FAIRLEAD_PULL_TOKEN. The request stays pending."
        )
    reason = f"{request['server']} did not respond within {seconds:g} s, its state is {server['state']}"
    reason += "; --timeout waits longer"
    return with_advice(reason, server["message"]) if server.get("message") else reason
