"""`fairlead refresh`: have a server asked for its tools now, and wait until the gateway shows what it answered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output, print_json
from fairlead_cli.rest import Plane
from fairlead_cli.waiting import looks
from fairlead_cli.wording import ready_to_paste

RECENT: Final = timedelta(minutes=1)
"""An operator that has not been seen for so long is taken to be away."""


def run_refresh(destination: Destination, server: str, wait: bool, output: Output) -> None:
    """Ask, and unless told otherwise wait for up to the destination's timeout. Raises Failure."""
    plane = Plane.of(destination)
    path = f"/v1/servers/{quote(server, safe='/')}"
    before = plane.get(path)
    accepted = plane.post(f"{path}/refresh", {})
    if not wait:
        if output is Output.json:
            print_json(accepted)
        else:
            print(f"{accepted['server']} will be asked for its tools.")
        return
    after = _wait_for_answer(plane, accepted, destination.timeout)
    if output is Output.json:
        print_json(after)
    elif after["refreshed"]["failure"] is None:
        print(f"{after['server']} has answered: {after['tools']} tools, {_comparison(before, after)}.")
        if held := after.get("held"):
            what = "1 definition is" if held == 1 else f"{held} definitions are"
            print(ready_to_paste(f"{what} held back until approved: `fairlead diff {after['server']}` shows them."))
    if after["refreshed"]["failure"] is not None:
        raise Failure(f"{after['server']} was asked, but {after['refreshed']['failure']}")


def _comparison(before: dict[str, Any], after: dict[str, Any]) -> str:
    if before.get("tools") is None:
        return f"the first time; it was {before['state']}"
    return "unchanged" if after["hash"] == before["hash"] else f"{before['tools']} before, with changes"


def _wait_for_answer(plane: Plane, accepted: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The server once its last refresh is another one than before."""
    state = ""
    for _ in looks(seconds):
        try:
            shown: dict[str, Any] = plane.get(f"/v1/servers/{quote(accepted['server'], safe='/')}")
        except Failure as error:
            raise Failure(
                f"{error}: it went away (a server with onDisconnect: Remove does, when it is lost)"
            ) from error
        refreshed = shown["refreshed"]
        answered = shown.get("tools") is not None or (refreshed is not None and refreshed["failure"] is not None)
        if answered and refreshed is not None and refreshed["at"] != accepted["before"]:
            return shown
        state = shown["state"]
    raise Failure(_why_not(accepted, state, seconds))


def _why_not(accepted: dict[str, Any], state: str, seconds: float) -> str:
    seen = accepted["operatorSeenAt"]
    if seen is None or datetime.fromisoformat(seen) < datetime.now(UTC) - RECENT:
        last = "since this gateway started" if seen is None else f"since {seen}"
        return (
            f"no operator has fetched requests from this gateway {last}: is one running, and do its FAIRLEAD_GATEWAYS "
            "and FAIRLEAD_PULL_TOKEN fit? The request waits for it."
        )
    return f"{accepted['server']} has not answered within {seconds:g} s, and is {state}; --timeout waits longer"
