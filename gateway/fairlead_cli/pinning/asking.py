"""`fairlead diff` and `fairlead approve` by asking a gateway, which lets administrators see and approve."""

from __future__ import annotations

import sys
import time
from typing import Any, Final
from urllib.parse import quote

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output, print_json, printable
from fairlead_cli.rest import Plane
from fairlead_cli.wording import ready_to_paste

LOOK_SECONDS: Final = 0.25
AT_ONCE: Final = 100
"""Definitions of one answer, as many as a gateway gives."""


def show_held(destination: Destination, server: str, output: Output) -> None:
    """Print the held-back definitions against those in force. Raises Failure."""
    document = _held(Plane.of(destination), server)
    if output is Output.json:
        print_json(document)
        return
    _show(document)
    if document["total"]:
        command = f"fairlead approve {document['server']}"
        print(ready_to_paste(f"\nTo let all of this through: {command}   ({document['hash']})"))


def approve_held(
    destination: Destination, server: str, yes: bool, wait: float, output: Output, wanted: str | None
) -> None:
    """Approve what is held back now, after asking; with the hash `wanted` that alone. Raises Failure."""
    plane, as_json = Plane.of(destination), output is Output.json
    document = _held(plane, server)
    key, approval = document["server"], wanted or document["hash"]
    if approval is None:
        if as_json:
            print_json({"server": key, "approved": None, "outcome": "nothing is held back"})
        else:
            print(f"{key}: nothing is held back.")
        return
    if wanted is None and not yes:
        if as_json:
            advice = "nobody is asked where JSON is printed: look at `fairlead diff`, then give --yes"
            raise Failure(advice, code=USED_WRONGLY)
        _show(document)
        if not sys.stdin.isatty():
            raise Failure("nobody can be asked here: look at the changes above, then give --yes", code=USED_WRONGLY)
        if input(f"\nPut these {document['total']} definitions in force ({approval[:12]}…)? [y/N] ").lower() != "y":
            raise Failure("nothing was approved")
    plane.post(f"/v1/servers/{quote(key, safe='/')}/approve", {"hash": approval})
    outcome = _outcome(plane, key, document["hash"], wait)
    if as_json:
        print_json({"server": key, "approved": approval, "outcome": outcome})
    else:
        print(f"{key}: approved {approval} (by the gateway at {destination.url})\n{outcome}")


def _held(plane: Plane, server: str) -> dict[str, Any]:
    """The document of a server with all its pages. Raises Failure."""
    path = f"/v1/servers/{quote(server, safe='/')}/held"
    document: dict[str, Any] = plane.get(path, limit=str(AT_ONCE))
    definitions = document["definitions"]
    while len(definitions) < document["total"]:
        page = plane.get(path, limit=str(AT_ONCE), offset=str(len(definitions)))
        if page["hash"] != document["hash"] or not page["definitions"]:
            raise Failure(f"{document['server']} changes while it is looked at; try again")
        definitions += page["definitions"]
    return document


def _show(document: dict[str, Any]) -> None:
    key = document["server"]
    if not document["total"]:
        print(f"{key}: nothing is held back.")
    for change in document["definitions"]:
        what = f"{change['kind']} {printable(change['name'])}".strip()
        print(f"{key}: {what} {'has changed' if change['change'] == 'changed' else 'is new'}")
        for line in change["lines"]:
            print(f"  {printable(line)}")
        if change["cut"]:
            print("  … and more, which is not shown")
        for finding in change["suspicious"]:
            print(f"  ! {printable(finding)}")


def _outcome(plane: Plane, server: str, before: str | None, seconds: float) -> str:
    end = time.monotonic() + seconds
    while _held(plane, server)["hash"] == before:
        if time.monotonic() > end:
            return "The operator has not seen it yet; it takes effect with the server's next answer."
        time.sleep(LOOK_SECONDS)
    return "In force."
