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
from fairlead_cli.waiting import attempts
from fairlead_cli.wording import ready_to_paste

RECENT: Final = timedelta(minutes=1)
"""If no operator has fetched requests from the gateway for this long, the operator counts as absent."""


def run_refresh(destination: Destination, server: str, wait: bool, output: Output) -> None:
    """Request a discovery, and with `wait` wait up to the destination's timeout for its result. Raises Failure."""
    client = ManagementClient.of(destination)
    path = f"/v1/servers/{quote(server, safe='/')}"
    before = client.get(path)
    accepted = client.post(f"{path}/refresh", {})
    if not wait:
        if output is Output.json:
            print_json(accepted)
        else:
            print(f"The discovery of {accepted['server']} is requested.")
        return
    after = _wait_for_answer(client, accepted, destination.timeout)
    why = after.get("signIn")
    sign_in_request = f"{after['server']} needs your sign-in, because {why}: fairlead login {after['server']}"
    if output is Output.json:
        print_json(after)
    elif after["refreshed"]["failure"] is None:
        tools = "1 tool" if after["tools"] == 1 else f"{after['tools']} tools"
        if why:
            print(ready_to_paste(sign_in_request))
            print(f"Until then, its last list of tools stays in use: {tools}, {_comparison(before, after)}.")
        else:
            print(f"{after['server']} responded: {tools}, {_comparison(before, after)}.")
        if held := after.get("held"):
            number = "1 definition is" if held == 1 else f"{held} definitions are"
            print(ready_to_paste(f"{number} held back until approved: `fairlead diff {after['server']}` shows them."))
    if (failure := after["refreshed"]["failure"]) is not None:
        is_sign_in = why and after.get("cause") == Cause.SIGN_IN_REQUIRED
        raise Failure(sign_in_request if is_sign_in else f"the discovery of {after['server']} failed: {failure}")


def _comparison(before: dict[str, Any], after: dict[str, Any]) -> str:
    if before.get("tools") is None:
        return f"for the first time; its state was {before['state']}"
    return "unchanged" if after["hash"] == before["hash"] else f"{before['tools']} before, with changes"


def _wait_for_answer(client: ManagementClient, accepted: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Wait until the server's `refreshed` shows the requested discovery, and return the server's state."""
    state = ""
    for _ in attempts(seconds):
        try:
            shown: dict[str, Any] = client.get(f"/v1/servers/{quote(accepted['server'], safe='/')}")
        except Failure as error:
            raise Failure(
                f"{error}: the server was removed, as servers with onDisconnect: Remove are when they are unreachable"
            ) from error
        refreshed = shown["refreshed"]
        has_result = shown.get("tools") is not None or (refreshed is not None and refreshed["failure"] is not None)
        if has_result and refreshed is not None and refreshed["at"] != accepted["before"]:
            return shown
        state = shown["state"]
    raise Failure(_timeout_reason(accepted, state, seconds))


def _timeout_reason(accepted: dict[str, Any], state: str, seconds: float) -> str:
    seen = accepted["operatorSeenAt"]
    if seen is None or datetime.fromisoformat(seen) < datetime.now(UTC) - RECENT:
        last = "since this gateway started" if seen is None else f"since {seen}"
        return (
            f"no operator has polled this gateway {last}: check that an operator is running, and its FAIRLEAD_GATEWAYS "
            "and FAIRLEAD_PULL_TOKEN. The request stays pending."
        )
    return f"{accepted['server']} did not respond within {seconds:g} s, its state is {state}; --timeout waits longer"
