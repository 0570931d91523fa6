"""Decides which of a server's definitions are in force, and which are held back until they are approved. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.pins import Pinned, Sort, held_hash
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import Reason
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.ports import Announcement, ConditionVerdict
from fairlead_tools.definitions.printable import fit

MAX_NAMES: Final = 5
"""Maximum number of definitions that a message names."""


@dataclass(frozen=True)
class PinDecision:
    """Decision about the definitions of one listing."""

    approved: tuple[Pinned, ...]
    """All definitions that count as approved from now on, including those that the server does not list at present."""
    held: tuple[Pinned, ...]
    """Listed definitions that are held back."""
    in_force: tuple[Pinned, ...]
    """Definitions that may be served."""
    newly_approved: int = 0
    """Number of definitions that an approval has just released."""
    approval: str = ""
    """Hash of the definitions that were just released: of all definitions that were held back, or of those that were
    approved individually.
    """
    used_hashes: tuple[str, ...] = ()
    """Approved hashes that released definitions."""


def decide(
    listed_definitions: tuple[Pinned, ...], approved_definitions: tuple[Pinned, ...], approvals: Collection[str]
) -> PinDecision:
    """Decide about the listed definitions. `approved_definitions` are the definitions that are approved so far,
    `approvals` the approved hashes.

    An approved hash identifies the exact bytes of either all definitions that are held back, or a single definition.
    The approval releases these definitions, or nothing if they have changed since.
    """
    in_force = {definition.identity: definition for definition in approved_definitions}
    held = tuple(
        definition for definition in listed_definitions if not _is_same(definition, in_force.get(definition.identity))
    )
    approved_hashes = set(approvals) - {""}
    if held and approved_hashes and (hash_ := held_hash(held)) in approved_hashes:
        return PinDecision(listed_definitions, (), listed_definitions, len(held), hash_, (hash_,))
    return _approve_individually(listed_definitions, in_force, held, approved_hashes)


def _approve_individually(
    listed_definitions: tuple[Pinned, ...],
    in_force: dict[tuple[Sort, str], Pinned],
    held: tuple[Pinned, ...],
    approved_hashes: Collection[str],
) -> PinDecision:
    """Release those definitions that are held back and whose own hash is approved."""
    released_definitions = (
        tuple(definition for definition in held if definition.approval in approved_hashes) if approved_hashes else ()
    )
    in_force = in_force | {definition.identity: definition for definition in released_definitions}
    used_hashes = tuple(definition.approval for definition in released_definitions)
    return PinDecision(
        tuple(in_force.values()),
        tuple(definition for definition in held if definition not in released_definitions),
        tuple(in_force[definition.identity] for definition in listed_definitions if definition.identity in in_force),
        len(released_definitions),
        used_hashes[0] if len(used_hashes) == 1 else held_hash(released_definitions),
        used_hashes,
    )


def _is_same(definition: Pinned, other: Pinned | None) -> bool:
    """Whether two definitions have the same bytes."""
    return other is not None and bytes(definition.definition) == bytes(other.definition)


def restore(listing: RawListing, in_force: tuple[Pinned, ...]) -> RawListing:
    """The listing with the definitions in force in place of the definitions that the server listed."""
    definitions_by_sort: dict[Sort, list[Raw]] = {}
    for definition in in_force:
        definitions_by_sort.setdefault(definition.sort, []).append(definition.definition)
    instructions = definitions_by_sort.get("instructions")
    return msgspec.structs.replace(
        listing,
        tools=tuple(definitions_by_sort.get("tool", ())),
        resources=tuple(definitions_by_sort.get("resource", ())),
        resource_templates=tuple(definitions_by_sort.get("resource template", ())),
        prompts=tuple(definitions_by_sort.get("prompt", ())),
        skills=tuple(definitions_by_sort.get("skill", ())),
        instructions=msgspec.json.decode(instructions[0], type=str) if instructions else None,
    )


def verdict(decision: PinDecision, suspicious_count: int = 0) -> ConditionVerdict:
    """The verdict Approved; `suspicious_count` is the number of suspicious definitions that are held back."""
    if not decision.held:
        return ConditionVerdict(True, Cause.APPROVED, "all listed definitions are approved, or from the first listing")
    warning = (
        f"; {suspicious_count} of them look{'s' if suspicious_count == 1 else ''} suspicious"
        if suspicious_count
        else ""
    )
    hash_of_all = f"; the hash of all of them is {held_hash(decision.held)}"
    return ConditionVerdict(False, Cause.CHANGES_HELD_BACK, f"{summary(decision)}{warning}{hash_of_all}")


def announcement(decision: PinDecision, key: ServerKey) -> Announcement:
    """Announcement about definitions of a server that are held back."""
    advice = f"fairlead diff {key} shows them, and fairlead approve {key} approves them"
    return Announcement("Warning", Reason.CHANGES_HELD_BACK, f"{summary(decision)}; {advice}")


def summary(decision: PinDecision) -> str:
    """Summary of the definitions that are held back, with their numbers and some of their names."""
    approved_identities = {definition.identity for definition in decision.approved}
    changed_definitions = [definition for definition in decision.held if definition.identity in approved_identities]
    new_definitions = [definition for definition in decision.held if definition.identity not in approved_identities]
    parts = [
        _part(word, definitions)
        for word, definitions in (("changed", changed_definitions), ("new", new_definitions))
        if definitions
    ]
    return "held back: " + "; ".join(parts)


def _part(word: str, definitions: list[Pinned]) -> str:
    """Number and names of definitions, such as "2 tools changed (a, b)"."""
    numbers = Counter(definition.sort for definition in definitions)
    counts = ", ".join(f"{number} {_plural(sort, number)}" for sort, number in numbers.items())
    names = _names(definitions)
    return f"{counts} {word} ({names})" if names else f"{counts} {word}"


def _plural(sort: Sort, number: int) -> str:
    return sort if number == 1 or sort == "instructions" else f"{sort}s"


def _names(definitions: Iterable[Pinned]) -> str:
    names = [fit(definition.name) for definition in definitions if definition.name]
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
