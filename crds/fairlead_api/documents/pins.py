"""The pins document: the approved and the held-back definitions of a server with `pin: true`.

The operator writes one pins document per pinned McpServer, next to the catalog. Its readers are the operator after a
restart, `fairlead diff`, and a gateway on behalf of administrators who request the held-back definitions. Gateways
serve tools from catalogs only.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Raw

from fairlead_api.documents.base import DocumentStruct, current_format, sha256_of_set
from fairlead_api.documents.catalog import Catalog, Definition, definition_hash
from fairlead_api.documents.operations import join_operation
from fairlead_api.meta import ServerKey

PINS: Final = "pins"
APPROVALS: Final = 10
"""Number of past approvals that are stored per server."""

Sort = Literal["tool", "resource", "resource template", "prompt", "skill", "instructions"]


class Pinned(DocumentStruct, kw_only=True, frozen=True):
    """One listed definition, byte for byte. The server's instructions count as a definition too: a JSON string without
    a name.
    """

    sort: Sort
    name: str = ""
    definition: Raw

    @property
    def identity(self) -> tuple[Sort, str]:
        """Sort and name: a definition replaces the approved one with the same identity."""
        return self.sort, self.name

    @property
    def approval(self) -> str:
        """Hash that approves exactly this definition and no other held-back one; never equal to a `held_hash`."""
        # "alone" keeps this hash different from the `held_hash` of a set that has only this definition
        return sha256_of_set((f"alone {self.sort} {definition_hash(self.definition)} {self.name}",))


class GivenApproval(DocumentStruct, kw_only=True, frozen=True):
    """One approval that was given."""

    hash: str
    at: str
    """Time in RFC 3339, in whole seconds."""
    by: str = ""
    """User who approved; empty if unknown."""
    definitions: int = 0
    """Number of definitions that were approved."""


class Pins(DocumentStruct, kw_only=True, frozen=True, tag_field="kind", tag=PINS):
    """Approved and held-back definitions of one server with `pin: true`."""

    version: int = msgspec.field(default_factory=current_format)
    namespace: str
    name: str
    uid: str
    approved: tuple[Pinned, ...] = ()
    """Definitions that may be served. A definition that the server no longer lists stays here until the next approval,
    but is not served. If the server lists it again unchanged, it needs no new approval."""
    held: tuple[Pinned, ...] = ()
    """Definitions that are new or differ from the approved one of the same identity."""
    approvals: tuple[GivenApproval, ...] = ()
    """The last `APPROVALS` approvals, newest first."""

    @property
    def key(self) -> ServerKey:
        return ServerKey(self.namespace, self.name)

    @property
    def held_hash(self) -> str:
        """Hash by which all held-back definitions are approved together; empty if nothing is held back."""
        return held_hash(self.held)


def held_hash(held: tuple[Pinned, ...]) -> str:
    """Hash over definitions, independent of their order; empty for none."""
    if not held:
        return ""
    return sha256_of_set(f"{pinned.sort} {definition_hash(pinned.definition)} {pinned.name}" for pinned in held)


def pinnable_definitions(catalog: Catalog) -> tuple[Pinned, ...]:
    """All definitions of a catalog that can be pinned."""
    definitions_in_order = [
        Pinned(
            sort="tool",
            name=tool.name,
            definition=tool.definition if tool.operation is None else join_operation(tool.definition, tool.operation),
        )
        for tool in catalog.tools
    ]
    for sort, definitions in _other_definitions(catalog):
        definitions_in_order += [
            Pinned(sort=sort, name=definition.name, definition=definition.definition) for definition in definitions
        ]
    if catalog.instructions is not None:
        definitions_in_order.append(
            Pinned(sort="instructions", definition=Raw(msgspec.json.encode(catalog.instructions)))
        )
    return tuple(definitions_in_order)


def _other_definitions(catalog: Catalog) -> tuple[tuple[Sort, tuple[Definition, ...]], ...]:
    return (
        ("resource", catalog.resources),
        ("resource template", catalog.resource_templates),
        ("prompt", catalog.prompts),
        ("skill", catalog.skills),
    )
