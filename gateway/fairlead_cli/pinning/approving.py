"""`fairlead diff` and `fairlead approve`: what of a server's definitions is held back, and letting it through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fairlead_api.documents.pins import Pinned, Pins
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output, named, print_json, printable
from fairlead_cli.pinning.holding import PinLocation
from fairlead_cli.pinning.showing import IN_FORCE, NOT_SEEN, check_answerable, confirm, print_change, print_nothing_held
from fairlead_cli.waiting import looks
from fairlead_tools.definitions.difference import decoded, unified
from fairlead_tools.definitions.scan import scan


def run_diff(place: PinLocation, server: str, output: Output) -> None:
    """Print the held-back definitions against those in force. Raises Failure."""
    pins = _of(place, server)
    if output is Output.json:
        history = [msgspec.to_builtins(one) for one in pins.approvals]
        told = {"server": str(pins.key), "hash": pins.held_hash or None, "held": [*_entries(pins)]}
        print_json({**told, "approvals": history})
        return
    if not pins.held:
        print(f"{pins.key}: nothing is held back; {len(pins.approved)} definitions are approved.")
        _show_history(pins)
        return
    _show(pins)
    _show_history(pins)
    print(f"\nTo let all of this through: fairlead approve {pins.key}   ({pins.held_hash})")


def run_approve(
    place: PinLocation, server: str, yes: bool, wait: float, output: Output, wanted: str | None = None
) -> None:
    """Approve what is held back now, after asking; with the hash `wanted` that alone: everything, or one definition, as
    it was when somebody was shown it. Raises Failure.
    """
    pins = _of(place, server)
    if wanted is not None:
        _approve_exactly(place, pins, wanted, wait, output)
        return
    if not yes:
        check_answerable(output)
    if not pins.held:
        print_nothing_held(str(pins.key), output)
        return
    if not yes:
        _show(pins)
        confirm(len(pins.held), pins.held_hash)
    _approve(place, pins, pins.held_hash, wait, output)


def _approve_exactly(place: PinLocation, pins: Pins, wanted: str, wait: float, output: Output) -> None:
    """Approve without a question: a user who names a hash has seen what it stands for. Raises Failure."""
    if wanted not in {pins.held_hash, *(one.approval for one in pins.held)} - {""}:
        raise Failure(f"nothing of {pins.key} that is held back now has that hash: see `fairlead diff {pins.key}`")
    _approve(place, pins, wanted, wait, output)


def _approve(place: PinLocation, pins: Pins, approval: str, wait: float, output: Output) -> None:
    written = place.approve(pins.key, approval)
    if output is Output.json:
        outcome = _outcome(place, pins, approval, wait)
        print_json({"server": str(pins.key), "approved": approval, "written": written, "outcome": outcome})
    else:
        print(f"{pins.key}: approved {approval} ({written} is written)")
        print(_outcome(place, pins, approval, wait))


def _outcome(place: PinLocation, before: Pins, approval: str, seconds: float) -> str:
    for _ in looks(seconds):
        now = place.pins().get(before.key)
        if now is not None and now.held_hash == before.held_hash:
            continue
        if now is not None and now.held and approval == before.held_hash:
            return "Meanwhile the server has changed again; what came after is still held back: fairlead diff shows it."
        return IN_FORCE
    return NOT_SEEN


def _of(place: PinLocation, server: str) -> Pins:
    """The pins of a server by NAMESPACE/NAME, or by its name alone."""
    known = place.pins()
    found = [pins for key, pins in known.items() if server in (str(key), key.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise Failure(
            f"several servers are called {server}: {', '.join(sorted(str(p.key) for p in found))}", code=USED_WRONGLY
        )
    names = named(sorted(map(str, known))) or "none"
    raise Failure(f"nothing is pinned of {server}; servers with pin: true that were listed: {names}", code=USED_WRONGLY)


def _before(pins: Pins) -> dict[tuple[str, str], Pinned]:
    return {(one.sort, one.name): one for one in pins.approved}


def _entries(pins: Pins) -> Iterator[dict[str, Any]]:
    known = _before(pins)
    for one in pins.held:
        old = known.get((one.sort, one.name))
        yield {
            "kind": one.sort,
            "name": one.name,
            "change": "changed" if old else "new",
            "hash": one.approval,
            "before": decoded(old.definition) if old else None,
            "after": decoded(one.definition),
            "suspicious": _findings(one),
        }


def _findings(one: Pinned) -> list[str]:
    return [str(finding) for finding in scan([one])]


def _show(pins: Pins) -> None:
    known = _before(pins)
    for one in pins.held:
        old = known.get((one.sort, one.name))
        lines = unified(old.definition if old else None, one.definition)
        print_change(str(pins.key), one.sort, one.name, lines, _findings(one), changed=old is not None, cut=False)


def _show_history(pins: Pins) -> None:
    for one in pins.approvals:
        by = f" by {printable(one.by)}" if one.by else ""
        what = "1 definition" if one.definitions == 1 else f"{one.definitions} definitions"
        print(f"  approved {one.at}{by}: {what} ({one.hash[:12]}…)")
