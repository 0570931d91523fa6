"""The pins document: what of a server with `pin: true` is approved, and what is held back until it is.

Written by the operator, one per pinned McpServer, beside its catalog; read by the operator after a restart, by
`fairlead diff`, and by a gateway for administrators who ask what is held back. No gateway serves tools from it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.documents.base import DocumentStruct, current_format, sha256_of_set
from fairlead_api.documents.catalog import Catalog, Definition, definition_hash
from fairlead_api.meta import ServerKey

PINS: Final = "pins"
APPROVALS: Final = 10
"""Approvals that are remembered of one server."""

Sort = Literal["tool", "resource", "resource template", "prompt", "skill", "instructions"]


class Pinned(DocumentStruct, kw_only=True, frozen=True):
    """One definition that a server listed, byte for byte. Its instructions are one without a name, a JSON string."""

    sort: Sort
    name: str = ""
    definition: Raw

    @property
    def identity(self) -> tuple[Sort, str]:
        """Sort and name; a definition replaces the approved one of the same place."""
        return self.sort, self.name

    @property
    def approval(self) -> str:
        """Hash that lets through this definition in these bytes, whatever else is held back; never a `held_hash`."""
        return sha256_of_set((f"alone {self.sort} {definition_hash(self.definition)} {self.name}",))


class GivenApproval(DocumentStruct, kw_only=True, frozen=True):
    """One approval that let definitions through."""

    hash: str
    at: str
    """RFC 3339, in whole seconds."""
    by: str = ""
    """User who gave it; empty where nobody said."""
    definitions: int = 0
    """Number of definitions that it let through."""


class Pins(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=PINS):
    """Approved and held-back definitions of one server with `pin: true`."""

    version: int = msgspec.field(default_factory=current_format)
    namespace: str
    name: str
    uid: str
    approved: tuple[Pinned, ...] = ()
    """Definitions that may be served. One that the server no longer lists stays here until the next approval, and is
    not served: if the server lists it again unchanged, nobody has to approve it again."""
    held: tuple[Pinned, ...] = ()
    """Definitions that differ from the approved one of their place, or have none."""
    approvals: tuple[GivenApproval, ...] = ()
    """The last `APPROVALS` approvals, newest first."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)

    @property
    def held_hash(self) -> str:
        """Hash that an approval names; it changes with any byte of `held`. Empty where nothing is held back."""
        return held_hash(self.held)


def held_hash(held: tuple[Pinned, ...]) -> str:
    """Hash over definitions that are held back, in any order; empty for none."""
    if not held:
        return ""
    return sha256_of_set(f"{pinned.sort} {definition_hash(pinned.definition)} {pinned.name}" for pinned in held)


def list_pinned(catalog: Catalog) -> tuple[Pinned, ...]:
    """Everything of a catalog that can be pinned."""
    definitions_in_order = [Pinned(sort="tool", name=tool.name, definition=tool.definition) for tool in catalog.tools]
    for sort, definitions in _beside(catalog):
        definitions_in_order += [
            Pinned(sort=sort, name=definition.name, definition=definition.definition) for definition in definitions
        ]
    if catalog.instructions is not None:
        definitions_in_order.append(
            Pinned(sort="instructions", definition=Raw(msgspec.json.encode(catalog.instructions)))
        )
    return tuple(definitions_in_order)


def _beside(catalog: Catalog) -> tuple[tuple[Sort, tuple[Definition, ...]], ...]:
    return (
        ("resource", catalog.resources),
        ("resource template", catalog.resource_templates),
        ("prompt", catalog.prompts),
        ("skill", catalog.skills),
    )
