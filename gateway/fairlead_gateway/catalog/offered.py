"""Prompts, resources and resource templates of a server, as they are shown.

Pure module. Prompts are named like tools on merged endpoints. Resources keep their URI everywhere, for URIs travel
inside results and prompts where nobody could rename them; where two servers have the same one, the first by namespace
and name answers for it on merged endpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_formats.tools.verbatim import UnusableDefinition, plain, shown, verbatim
from fairlead_gateway.core.names import exposed_name
from fairlead_gateway.core.server import Item, Offered


def offered(catalog: Catalog) -> Offered:
    """Everything usable that a catalog holds beside tools."""
    problems: list[str] = []

    def prompt(entry: Definition) -> Item:
        definition = verbatim(bytes(entry.definition), name=entry.name)
        exposed = None if catalog.prefix is None else exposed_name(catalog.prefix, entry.name)
        return Item(entry.name, definition, exposed, shown(definition, name=exposed) if exposed else b"")

    def resource(entry: Definition) -> Item:
        definition = plain(bytes(entry.definition))
        on_merged = catalog.prefix is not None
        return Item(entry.name, definition, entry.name if on_merged else None, definition if on_merged else b"")

    def taken(kind: str, entries: Iterable[Definition], make: Callable[[Definition], Item]) -> tuple[Item, ...]:
        items: dict[str, Item] = {}
        for entry in sorted(entries, key=lambda entry: entry.name):
            try:
                items.setdefault(entry.name, make(entry))
            except UnusableDefinition as error:
                problems.append(f"{kind} {entry.name!r} of {catalog.key} is left out: {error}")
        return tuple(items.values())

    return Offered(
        taken("prompt", catalog.prompts, prompt),
        taken("resource", catalog.resources, resource),
        taken("resource template", catalog.resource_templates, resource),
        tuple(problems),
    )
