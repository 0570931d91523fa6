"""Catalogs of two servers: one lists a valid entry of each kind, the other all odd definitions of the corpus."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from definition_corpus import LISTED, corpus
from fairlead_api.documents.catalog import Catalog
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.discovery.findings import ListingFindings
from operatorfakes import RUNS, mcp_server

GOOD: Final[dict[str, dict[str, Any]]] = {
    "Tool": {"name": "good", "inputSchema": {"type": "object"}},
    "Prompt": {"name": "good"},
    "Resource": {"name": "good", "uri": "test://good"},
    "ResourceTemplate": {"name": "good", "uriTemplate": "test://good/{x}"},
}
"""One entry for each list, by the name of its definition in MCP's schema."""
_MEMBERS: Final = {
    "Tool": "tools",
    "Prompt": "prompts",
    "Resource": "resources",
    "ResourceTemplate": "resource_templates",
}


def good_server() -> Catalog:
    """Server with the entries of GOOD."""
    return _discover("good", {listed: (msgspec.json.encode(GOOD[listed]),) for listed in LISTED})[0]


def odd_server() -> tuple[Catalog, ListingFindings]:
    """Server with the corpus, and the faults that the operator found in it."""
    return _discover("odd", {listed: tuple(odd.definition for odd in corpus(listed)) for listed in LISTED})


def _discover(name: str, entries: dict[str, tuple[bytes, ...]]) -> tuple[Catalog, ListingFindings]:
    assert RUNS.endpoint is not None
    lists: dict[str, Any] = {_MEMBERS[listed]: tuple(map(Raw, raws)) for listed, raws in entries.items()}
    capabilities = Raw(b'{"tools":{},"prompts":{},"resources":{}}')
    listing = RawListing("2026-07-28", capabilities=capabilities, **lists)
    return build_catalog(mcp_server(name), listing, CallAccess(RUNS.endpoint, None, name))
