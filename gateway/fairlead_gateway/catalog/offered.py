"""Compiles the prompts, resources, resource templates and skills of a server for listing.

Pure module. On merged endpoints, names of prompts get the server's prefix, like names of tools. URIs of schemes whose
meaning is local to a server get the prefix too (`fairlead_mcp.uris`). All other resources keep their URI, because a
model may pass the URI to a tool, and the tool's server knows only the original URI. If two servers have a resource with
the same URI, merged endpoints serve the resource of the first server by namespace and name. Merged endpoints leave out
a skill if one of its files has a URI that another server serves.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from operator import attrgetter
from typing import Final

from fairlead_api.documents.catalog import Catalog, Definition
from fairlead_api.slices import order_in_slices
from fairlead_formats.tools.verbatim import UnusableDefinition, check_is_object, ensure_name, with_name
from fairlead_gateway.core.server import Item, OfferedItems
from fairlead_mcp.apps import remove_domain
from fairlead_mcp.skills import uris_of
from fairlead_mcp.uris import SKILL, UriNames, UriPositions
from fairlead_tools.definitions.forms import ListedType, make_forms
from fairlead_tools.names import exposed_name

_URI_MEMBERS: Final[UriPositions] = {"uri": {}, "uriTemplate": {}}
"""Members of a resource's definition that have its URI."""


def offer_in_slices(catalog: Catalog) -> Generator[None, None, OfferedItems]:
    """Compile the entries of a catalog other than tools; entries that clients would reject are left out.

    Runs in slices, because each entry is validated against the schema of MCP, which takes time.
    """
    problems: list[str] = []

    def prompt(entry: Definition) -> Item:
        definition = ensure_name(_form_for_both_eras(entry, ListedType.PROMPT), name=entry.name)
        exposed = None if catalog.prefix is None else exposed_name(catalog.prefix, entry.name)
        return Item(entry.name, definition, exposed, with_name(definition, name=exposed) if exposed else b"")

    def resource(entry: Definition, item_type: ListedType = ListedType.RESOURCE) -> Item:
        definition = _form_for_both_eras(entry, item_type)
        if catalog.prefix is None:
            return Item(entry.name, definition, None, b"")
        names = UriNames(catalog.prefix)
        exposed = names.show(entry.name)
        merged = definition if exposed == entry.name else remove_domain(names.show_in(definition, _URI_MEMBERS))
        return Item(entry.name, definition, exposed, bytes(merged))

    def skill(entry: Definition) -> Item:
        definition = check_is_object(bytes(entry.definition))
        if catalog.prefix is None:
            return Item(entry.name, definition, None, b"")
        names = UriNames(catalog.prefix)
        files = tuple(uri for uri in uris_of(definition) if names.show(uri) == uri)
        return Item(entry.name, definition, names.show(entry.name), bytes(names.show_in(definition, SKILL)), files)

    def compile_items(
        kind: str, entries: Iterable[Definition], compile_item: Callable[[Definition], Item]
    ) -> Generator[None, None, tuple[Item, ...]]:
        items: dict[str, Item] = {}
        for entry in (yield from order_in_slices(entries, attrgetter("name"))):
            if entry.name in items:
                continue
            try:
                items[entry.name] = compile_item(entry)
            except UnusableDefinition as error:
                problems.append(f"{kind} {entry.name!r} of {catalog.key} is left out: {error}")
            yield
        return tuple(items.values())

    prompts = yield from compile_items("prompt", catalog.prompts, prompt)
    resources = yield from compile_items("resource", catalog.resources, resource)
    template = partial(resource, item_type=ListedType.TEMPLATE)
    templates = yield from compile_items("resource template", catalog.resource_templates, template)
    skills = yield from compile_items("skill", catalog.skills, skill)
    return OfferedItems(prompts, resources, templates, skills, tuple(problems))


def _form_for_both_eras(entry: Definition, item_type: ListedType) -> bytes:
    """The form of a definition that clients of both eras accept. Raises UnusableDefinition."""
    form = make_forms(bytes(entry.definition), item_type).modern
    if form.refusal:
        raise UnusableDefinition(form.refusal)
    return form.definition
