"""Prompts, resources and resource templates of a server, as they are shown.

Pure module. Prompts are named like tools on merged endpoints. Resources of the schemes that mean something at their
server alone carry its part there (`fairlead_mcp.uris`). All others keep their URI, for models give it to tools; where
two servers have the same one, the first by namespace and name answers for it on merged endpoints. A skill is all of one
server: one whose file another server would answer for is left out there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from operator import attrgetter
from typing import Final

from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_api.slices import order_in_slices
from fairlead_formats.tools.verbatim import UnusableDefinition, plain, verbatim, with_name
from fairlead_gateway.core.server import Item, Offered
from fairlead_mcp.apps import remove_domain
from fairlead_mcp.skills import uris_of
from fairlead_mcp.uris import SKILL, Places, UriNames
from fairlead_tools.definitions.forms import ListedType, make_forms
from fairlead_tools.names import exposed_name

_OWN_URI: Final[Places] = {"uri": {}, "uriTemplate": {}}


def offer_in_slices(catalog: Catalog) -> Generator[None, None, Offered]:
    """Everything usable that a catalog holds beside tools; in slices, as each entry is judged by MCP's schema."""
    problems: list[str] = []

    def prompt(entry: Definition) -> Item:
        definition = verbatim(_usable(entry, ListedType.PROMPT), name=entry.name)
        exposed = None if catalog.prefix is None else exposed_name(catalog.prefix, entry.name)
        return Item(entry.name, definition, exposed, with_name(definition, name=exposed) if exposed else b"")

    def resource(entry: Definition, listed: ListedType = ListedType.RESOURCE) -> Item:
        definition = _usable(entry, listed)
        if catalog.prefix is None:
            return Item(entry.name, definition, None, b"")
        names = UriNames(catalog.prefix)
        exposed = names.show(entry.name)
        merged = definition if exposed == entry.name else remove_domain(names.show_in(definition, _OWN_URI))
        return Item(entry.name, definition, exposed, bytes(merged))

    def skill(entry: Definition) -> Item:
        definition = plain(bytes(entry.definition))
        if catalog.prefix is None:
            return Item(entry.name, definition, None, b"")
        names = UriNames(catalog.prefix)
        files = tuple(uri for uri in uris_of(definition) if names.show(uri) == uri)
        return Item(entry.name, definition, names.show(entry.name), bytes(names.show_in(definition, SKILL)), files)

    def taken(
        kind: str, entries: Iterable[Definition], make: Callable[[Definition], Item]
    ) -> Generator[None, None, tuple[Item, ...]]:
        items: dict[str, Item] = {}
        for entry in (yield from order_in_slices(entries, attrgetter("name"))):
            if entry.name in items:
                continue
            try:
                items[entry.name] = make(entry)
            except UnusableDefinition as error:
                problems.append(f"{kind} {entry.name!r} of {catalog.key} is left out: {error}")
            yield
        return tuple(items.values())

    prompts = yield from taken("prompt", catalog.prompts, prompt)
    resources = yield from taken("resource", catalog.resources, resource)
    template = partial(resource, listed=ListedType.TEMPLATE)
    templates = yield from taken("resource template", catalog.resource_templates, template)
    skills = yield from taken("skill", catalog.skills, skill)
    return Offered(prompts, resources, templates, skills, tuple(problems))


def _usable(entry: Definition, listed: ListedType) -> bytes:
    """The form that clients take; of these definitions it is the same in both eras. Raises UnusableDefinition."""
    form = make_forms(bytes(entry.definition), listed).modern
    if form.refusal:
        raise UnusableDefinition(form.refusal)
    return form.definition
