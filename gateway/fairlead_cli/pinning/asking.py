"""`fairlead diff` and `fairlead approve` over a gateway's REST API, for administrators of the gateway."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json
from fairlead_cli.pinning.showing import (
    IN_FORCE,
    NOT_SEEN,
    HeldDefinition,
    check_answerable,
    confirm,
    print_nothing_held,
)
from fairlead_cli.rest import ManagementClient
from fairlead_cli.waiting import attempts
from fairlead_cli.wording import ready_to_paste, with_advice

PAGE_SIZE: Final = 100
"""Definitions per page; a gateway returns no more."""
_ASK_CLUSTER: Final = "With rights on the cluster instead, add --namespace, with the namespace of the release."
_ASK_FOLDER: Final = "The user who runs it may leave --url out, or name its folder with --state-dir."


def show_held(destination: Destination, server: str, output: Output) -> None:
    """Print the differences between the held-back definitions and those that are served. Raises Failure."""
    document = _held_document(ManagementClient.of(destination), server)
    if output is Output.json:
        print_json(document)
        return
    _show(document)
    if document["total"]:
        command = f"fairlead approve {document['server']}"
        print(ready_to_paste(f"\nTo approve all of this: {command}   ({document['hash']})"))


def approve_held(
    destination: Destination, server: str, yes: bool, wait: float, output: Output, exact_hash: str | None
) -> None:
    """Approve the held-back definitions after a confirmation; with `exact_hash`, only definitions with that hash.
    Raises Failure.
    """
    client = ManagementClient.of(destination)
    document = _held_document(client, server)
    key, approval = document["server"], document["hash"] if exact_hash is None else exact_hash
    if not document.get("pinned", True):  # absent in the answer of an older gateway
        pinning = "set pin: true for it, if changed definitions are to be held back"
        raise Failure(f"{key} has no pinned definitions, so there is nothing to approve: {pinning}", code=USAGE_ERROR)
    if approval is None:
        print_nothing_held(key, output)
        return
    if exact_hash is None and not yes:
        check_answerable(output)
        _show(document)
        confirm(document["total"], approval)
    client.post(f"/v1/servers/{quote(key, safe='/')}/approve", {"hash": approval})
    outcome = _outcome(client, key, document["hash"], wait)
    if output is Output.json:
        print_json({"server": key, "approved": approval, "outcome": outcome})
    else:
        print(f"{key}: approved {approval} (by the gateway at {destination.url})\n{outcome}")


def _held_document(client: ManagementClient, server: str) -> dict[str, Any]:
    """The held-back definitions of a server, from all pages. Raises Failure."""
    path = _path(server)
    try:
        document: dict[str, Any] = client.get(path, limit=str(PAGE_SIZE))
    except Failure as failure:
        if failure.problem != "FORBIDDEN":
            raise
        advice = _ASK_FOLDER if "`fairlead up`" in str(failure) else _ASK_CLUSTER
        raise Failure(with_advice(str(failure), advice), code=failure.code, problem=failure.problem) from failure
    definitions = document["definitions"]
    while len(definitions) < document["total"]:
        page = client.get(path, limit=str(PAGE_SIZE), offset=str(len(definitions)))
        if page["hash"] != document["hash"] or not page["definitions"]:
            raise Failure(f"the definitions of {document['server']} changed while they were read; try again")
        definitions += page["definitions"]
    return document


def _show(document: dict[str, Any]) -> None:
    key = document["server"]
    if not document["total"]:
        print(f"{key}: nothing is held back.")
    for change in document["definitions"]:
        definition = HeldDefinition(
            change["kind"],
            change["name"],
            change["lines"],
            change["suspicious"],
            changed=change["change"] == "changed",
            cut=change["cut"],
        )
        definition.print(key)


def _outcome(client: ManagementClient, server: str, old_hash: str | None, seconds: float) -> str:
    for _ in attempts(seconds):
        if client.get(_path(server), limit="1")["hash"] != old_hash:
            return IN_FORCE
    return NOT_SEEN


def _path(server: str) -> str:
    return f"/v1/servers/{quote(server, safe='/')}/held"
