"""`fairlead diff` and `fairlead approve`: shows the held-back definitions of a server, and approves them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fairlead_api.documents.pins import Pinned, Pins
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json, printable, some_names
from fairlead_cli.pinning.holding import PinLocation
from fairlead_cli.pinning.showing import (
    IN_FORCE,
    NOT_SEEN,
    HeldDefinition,
    check_answerable,
    confirm,
    print_nothing_held,
)
from fairlead_cli.waiting import attempts
from fairlead_tools.definitions.difference import decode, unify
from fairlead_tools.definitions.scan import scan


def run_diff(location: PinLocation, server: str, output: Output) -> None:
    """Print the differences between the held-back definitions and those that are served. Raises Failure."""
    pins = _pins_of_server(location, server)
    if output is Output.json:
        history = [msgspec.to_builtins(approval) for approval in pins.approvals]
        document = {"server": str(pins.key), "hash": pins.held_hash or None, "held": [*_entries(pins)]}
        print_json({**document, "approvals": history})
        return
    if not pins.held:
        count = len(pins.approved)
        approved_count = "1 definition is" if count == 1 else f"{count} definitions are"
        print(f"{pins.key}: nothing is held back; {approved_count} approved.")
        _show_history(pins)
        return
    _show(pins)
    _show_history(pins)
    print(f"\nTo approve all of this: fairlead approve {pins.key}   ({pins.held_hash})")


def run_approve(
    location: PinLocation, server: str, yes: bool, wait: float, output: Output, exact_hash: str | None = None
) -> None:
    """Approve the held-back definitions after a confirmation. With `exact_hash`, only definitions with that hash are
    approved, without a confirmation: the hash of all held-back definitions, or of a single one. Raises Failure.
    """
    pins = _pins_of_server(location, server)
    if exact_hash is not None:
        _approve_exactly(location, pins, exact_hash, wait, output)
        return
    if not yes:
        check_answerable(output)
    if not pins.held:
        print_nothing_held(str(pins.key), output)
        return
    if not yes:
        _show(pins)
        confirm(len(pins.held), pins.held_hash)
    _approve(location, pins, pins.held_hash, wait, output)


def _approve_exactly(location: PinLocation, pins: Pins, exact_hash: str, wait: float, output: Output) -> None:
    """Approve without a confirmation: a user who gives a hash has seen the definitions. Raises Failure."""
    if exact_hash not in {pins.held_hash, *(definition.approval for definition in pins.held)} - {""}:
        raise Failure(f"no held-back definition of {pins.key} has that hash: see `fairlead diff {pins.key}`")
    _approve(location, pins, exact_hash, wait, output)


def _approve(location: PinLocation, pins: Pins, approval: str, wait: float, output: Output) -> None:
    target = location.approve(pins.key, approval)
    if output is Output.json:
        outcome = _outcome(location, pins, approval, wait)
        print_json({"server": str(pins.key), "approved": approval, "written": target, "outcome": outcome})
    else:
        print(f"{pins.key}: approved {approval} ({target} is written)")
        print(_outcome(location, pins, approval, wait))


def _outcome(location: PinLocation, old_pins: Pins, approval: str, seconds: float) -> str:
    for _ in attempts(seconds):
        new_pins = location.pins().get(old_pins.key)
        if new_pins is not None and new_pins.held_hash == old_pins.held_hash:
            continue
        if new_pins is not None and new_pins.held and approval == old_pins.held_hash:
            return "The server has changed again since; later changes are still held back: fairlead diff shows them."
        return IN_FORCE
    return NOT_SEEN


def _pins_of_server(location: PinLocation, server: str) -> Pins:
    """The pins of a server, given as NAMESPACE/NAME or by its name only."""
    all_pins = location.pins()
    matching = [pins for key, pins in all_pins.items() if server in (str(key), key.name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise Failure(f"{server} is ambiguous: {', '.join(sorted(str(p.key) for p in matching))}", code=USAGE_ERROR)
    names = some_names(sorted(map(str, all_pins))) or "none"
    message = f"no server {server} has pinned definitions; servers with pin: true: {names}"
    message = f"{message} (looked in {location.description})"
    raise Failure(message, code=USAGE_ERROR)


def _approved_by_name(pins: Pins) -> dict[tuple[str, str], Pinned]:
    return {(definition.sort, definition.name): definition for definition in pins.approved}


def _entries(pins: Pins) -> Iterator[dict[str, Any]]:
    approved_by_name = _approved_by_name(pins)
    for definition in pins.held:
        approved_definition = approved_by_name.get((definition.sort, definition.name))
        yield {
            "kind": definition.sort,
            "name": definition.name,
            "change": "changed" if approved_definition else "new",
            "hash": definition.approval,
            "before": decode(approved_definition.definition) if approved_definition else None,
            "after": decode(definition.definition),
            "suspicious": _findings(definition),
        }


def _findings(definition: Pinned) -> list[str]:
    return [str(finding) for finding in scan([definition])]


def _show(pins: Pins) -> None:
    approved_by_name = _approved_by_name(pins)
    for definition in pins.held:
        approved_definition = approved_by_name.get((definition.sort, definition.name))
        lines = unify(approved_definition.definition if approved_definition else None, definition.definition)
        is_changed = approved_definition is not None
        held_definition = HeldDefinition(
            definition.sort, definition.name, lines, _findings(definition), changed=is_changed
        )
        held_definition.print(str(pins.key))


def _show_history(pins: Pins) -> None:
    for approval in pins.approvals:
        author = f" by {printable(approval.by)}" if approval.by else ""
        count = "1 definition" if approval.definitions == 1 else f"{approval.definitions} definitions"
        print(f"  approved {approval.at}{author}: {count} ({approval.hash[:12]}…)")
