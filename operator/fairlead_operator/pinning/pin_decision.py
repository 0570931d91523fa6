"""Decides which of a server's definitions are in force, and which are held back until they are approved. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.pins import Pinned, Sort, held_hash
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import Reason
from fairlead_operator.discovery.listing import RawListing
from fairlead_operator.ports import Announcement, ConditionVerdict
from fairlead_tools.definitions.printable import fit

SHOWN: Final = 5
"""Definitions that a message names."""

Place = tuple[Sort, str]


@dataclass(frozen=True)
class PinDecision:
    """`in_force` may be served, `held` may not; `newly_approved` counts what an approval has just let through."""

    approved: tuple[Pinned, ...]
    held: tuple[Pinned, ...]
    in_force: tuple[Pinned, ...]
    newly_approved: int = 0
    approval: str = ""
    """Hash of what was just let through: of everything that was held back, or of the definitions that were named."""
    used: tuple[str, ...] = ()
    """Approvals that let something through."""


def decide(now: tuple[Pinned, ...], approved: tuple[Pinned, ...], approvals: Collection[str]) -> PinDecision:
    """`now` is what the server lists, `approvals` are the hashes that somebody approves.

    An approval lets through what was held back when its hash was shown, to the byte, or nothing at all: everything, or
    one definition alone.
    """
    in_force = {definition.identity: definition for definition in approved}
    held = tuple(definition for definition in now if not _same(definition, in_force.get(definition.identity)))
    given = set(approvals) - {""}
    if held and given and (hash_ := held_hash(held)) in given:
        return PinDecision(now, (), now, len(held), hash_, (hash_,))
    return _approve_alone(now, in_force, held, given)


def _approve_alone(
    now: tuple[Pinned, ...], in_force: dict[tuple[Sort, str], Pinned], held: tuple[Pinned, ...], given: Collection[str]
) -> PinDecision:
    """Put those of the definitions that are held back in force whose own hash is among those given."""
    named = tuple(definition for definition in held if definition.approval in given) if given else ()
    in_force = in_force | {definition.identity: definition for definition in named}
    used = tuple(definition.approval for definition in named)
    return PinDecision(
        tuple(in_force.values()),
        tuple(definition for definition in held if definition not in named),
        tuple(in_force[definition.identity] for definition in now if definition.identity in in_force),
        len(named),
        used[0] if len(used) == 1 else held_hash(named),
        used,
    )


def _same(definition: Pinned, other: Pinned | None) -> bool:
    return other is not None and bytes(definition.definition) == bytes(other.definition)


def restore(listing: RawListing, in_force: tuple[Pinned, ...]) -> RawListing:
    """The answer of a server as if it had listed what is in force."""
    of: dict[Sort, list[Raw]] = {}
    for definition in in_force:
        of.setdefault(definition.sort, []).append(definition.definition)
    instructions = of.get("instructions")
    return msgspec.structs.replace(
        listing,
        tools=tuple(of.get("tool", ())),
        resources=tuple(of.get("resource", ())),
        resource_templates=tuple(of.get("resource template", ())),
        prompts=tuple(of.get("prompt", ())),
        skills=tuple(of.get("skill", ())),
        instructions=msgspec.json.decode(instructions[0], type=str) if instructions else None,
    )


def verdict(decision: PinDecision, suspicious: int = 0) -> ConditionVerdict:
    """The condition `Approved`; `suspicious` counts findings in what is held back."""
    if not decision.held:
        return ConditionVerdict(True, Cause.APPROVED, "what the server lists is what was approved, or was listed first")
    warning = f"; {suspicious} of them look suspicious" if suspicious else ""
    return ConditionVerdict(False, Cause.CHANGES_HELD_BACK, f"{summary(decision)}{warning}; {_how(decision)}")


def announcement(decision: PinDecision) -> Announcement:
    """The event about what is held back."""
    return Announcement("Warning", Reason.CHANGES_HELD_BACK, f"{summary(decision)}; {_how(decision)}")


def summary(decision: PinDecision) -> str:
    """How many definitions differ from what is approved, and which, some of them by name."""
    approved_identities = {definition.identity for definition in decision.approved}
    changed = [definition for definition in decision.held if definition.identity in approved_identities]
    new = [definition for definition in decision.held if definition.identity not in approved_identities]
    parts = [_part(word, some) for word, some in (("changed", changed), ("new", new)) if some]
    return "held back: " + "; ".join(parts)


def _part(word: str, some: list[Pinned]) -> str:
    counts = Counter(definition.sort for definition in some)
    counted = ", ".join(f"{number} {_plural(sort, number)}" for sort, number in counts.items())
    return f"{counted} {word} ({_names(some)})" if any(definition.name for definition in some) else f"{counted} {word}"


def _plural(sort: Sort, number: int) -> str:
    return sort if number == 1 or sort == "instructions" else f"{sort}s"


def _names(some: Iterable[Pinned]) -> str:
    names = [fit(definition.name) for definition in some if definition.name]
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _how(decision: PinDecision) -> str:
    return f"approve with fairlead approve, or spec.approval.hash: {held_hash(decision.held)}"
