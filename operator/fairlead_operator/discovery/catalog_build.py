"""Builds a catalog from a server's lists and its McpServer. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import (
    Catalog,
    CredentialRef,
    Definition,
    Endpoint,
    HttpEndpoint,
    Limits,
    ToolEntry,
    definition_hash,
    list_hash,
    search_hash,
)
from fairlead_api.documents.oauth import OAuthSettings
from fairlead_api.documents.operations import split_operation
from fairlead_api.latency_metadata import Authored, authored_latency, effective_latency
from fairlead_api.v1alpha1.mcpserver import McpServer, McpServerSpec, ToolLimits, ToolOverride
from fairlead_mcp import eras
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.discovery.offerable import (
    DEFINITION_LIMIT,
    PROMPT,
    RESOURCE,
    SKILL,
    TEMPLATE,
    TOOL,
    DefinitionFilter,
    DefinitionKind,
)
from fairlead_operator.discovery.shaped_tool import shape_tools

TAG_LENGTH: Final = 63
"""Maximum characters of a tag, as in the CRD."""


@dataclass(frozen=True)
class CallAccess:
    """Endpoint, credential and prefix of a server in its catalog, and how gateways obtain tokens for calls."""

    endpoint: Endpoint
    credential: CredentialRef | None
    prefix: str | None
    oauth: OAuthSettings | None = None
    """Settings of the grants by which gateways obtain access tokens; None if calls need none."""


class _Hints(msgspec.Struct, rename="camel"):
    """Annotations that declare a tool's calls repeatable."""

    read_only_hint: Any = None
    idempotent_hint: Any = None


class _AnnotatedTool(msgspec.Struct):
    annotations: _Hints = msgspec.field(default_factory=_Hints)


_decode_annotations = msgspec.json.Decoder(_AnnotatedTool).decode


def build_catalog(server: McpServer, listing: RawListing, access: CallAccess) -> tuple[Catalog, ListingFindings]:
    """The catalog, with every list sorted by name, and the findings about the listing.

    `online` is True and `updated_at` empty; the publisher sets them.
    """
    notes: list[str] = []
    endpoint = listing.endpoint or access.endpoint
    modern = eras.era_of(listing.protocol_version) is eras.Era.MODERN
    definition_filter = DefinitionFilter(in_headers=modern and isinstance(endpoint, HttpEndpoint))
    overrides = {override.name: override for override in server.spec.tools}
    spec = server.spec
    tools, latency_notes = _tools(listing, overrides, definition_filter, spec)
    offers_any = spec.discovery.tools == "All" or any(tool.name in overrides for tool in tools)
    unnamed_tools = 0 if offers_any else len(tools)
    tools, shape_faults, shape_notes = shape_tools(tools, overrides)
    notes += [*latency_notes, *shape_notes]
    catalog = Catalog(
        namespace=server.metadata.namespace,
        name=server.metadata.name,
        uid=server.metadata.uid,
        generation=server.metadata.generation,
        prefix=access.prefix,
        endpoint=endpoint,
        credential=access.credential,
        oauth=access.oauth,
        protocol_version=listing.protocol_version,
        server_info=listing.server_info,
        capabilities=listing.capabilities,
        instructions=_instructions(listing, notes),
        gateways=listing.gateways,
        session=spec.session,
        on_disconnect=spec.discovery.on_disconnect,
        trust_annotations=spec.trusts_annotations,
        limits=_limits(server),
        tools=tuple(tools),
        resources=_definitions(listing.resources, RESOURCE, definition_filter),
        resource_templates=_definitions(listing.resource_templates, TEMPLATE, definition_filter),
        prompts=_definitions(listing.prompts, PROMPT, definition_filter),
        skills=_definitions(listing.skills, SKILL, definition_filter),
        api=listing.api,
        pinned=spec.pin,
        announced=dict(listing.announced),
    )
    untrusted_by_default = spec.trust_annotations is None and not spec.trusts_annotations
    findings = ListingFindings(
        listed=listing.definition_count,
        faults=(*definition_filter.faults, *shape_faults),
        failed_lists=listing.notes,
        notes=tuple(notes),
        untrusted_hints=sum(_claims_repeatable(tool) for tool in tools) if untrusted_by_default else 0,
        deviations=listing.remarks,
        api=listing.api,
        unnamed_tools=unnamed_tools,
        offered=tuple(tool.name for tool in tools),
    )
    return msgspec.structs.replace(catalog, hash=list_hash(catalog)), findings


def _tools(
    listing: RawListing, overrides: dict[str, ToolOverride], definition_filter: DefinitionFilter, spec: McpServerSpec
) -> tuple[list[ToolEntry], list[str]]:
    """The tools, sorted by name, and a note for each invalid declaration of latency."""
    tools, notes = [], []
    for name, raw in definition_filter.select_usable(listing.tools, TOOL):
        operation, hash_ = None, definition_hash(raw)
        if listing.api is not None:
            raw, operation = split_operation(raw)
        authored = authored_latency(raw)
        notes += [f"tool '{name}': {sentence}; this declaration is ignored" for sentence in authored.unusable]
        override = overrides.get(name)
        tags = _tags(name, override, spec.discovery.tag_separator)
        tool = _tool(name, raw, spec, override, authored, tags)
        requires = listing.requires.get(name, ())
        tools.append(msgspec.structs.replace(tool, hash=hash_, operation=operation, requires=requires))
    return sorted(tools, key=lambda tool: tool.name), notes


def _claims_repeatable(tool: ToolEntry) -> bool:
    """Whether the tool's author declares that its calls may be repeated. This counts only from a trusted author."""
    if authored_latency(tool.definition).latency.idempotent:
        return True
    try:
        hints = _decode_annotations(tool.definition).annotations
    except msgspec.MsgspecError:
        return False
    return hints.read_only_hint is True or hints.idempotent_hint is True


def _tags(name: str, override: ToolOverride | None, separator: str | None) -> tuple[str, ...]:
    """Tags of a tool: those in the spec, and the part of the tool's name before `separator`, if it fits a tag."""
    declared_tags = tuple(override.tags) if override else ()
    group, _, rest = name.partition(separator) if separator else ("", "", "")
    is_tag = group and rest and len(group) <= TAG_LENGTH
    return (*declared_tags, group) if is_tag and group not in declared_tags else declared_tags


def _tool(
    name: str, raw: Raw, spec: McpServerSpec, override: ToolOverride | None, authored: Authored, tags: tuple[str, ...]
) -> ToolEntry:
    """The catalog's entry of one tool, from its definition and its override in the spec."""
    categories = tuple(override.categories) if override else ()
    probe = override.probe if override else None
    limits = override.limits if override and override.limits else ToolLimits()
    return ToolEntry(
        name=name,
        definition=raw,
        hash=definition_hash(raw),
        search_hash=search_hash(name, raw, tags=tags, categories=categories),
        enabled=spec.offers(override),
        description=override.description if override else None,
        tags=tags,
        categories=categories,
        latency=effective_latency(
            override.latency if override else None, authored.latency, trusted=spec.trusts_annotations
        ),
        min_tier=override.min_tier if override else None,
        authored_min_tier=authored.min_tier,
        probe_arguments=probe.arguments if probe else None,
        calls_per_minute=limits.calls_per_minute,
        concurrency=limits.concurrency,
        result_tokens=authored.result_tokens if limits.result_tokens is None else limits.result_tokens,
        speech=override.speech if override else None,
    )


def _instructions(listing: RawListing, notes: list[str]) -> str | None:
    """The server's instructions; None, with a note, if they are too long."""
    if listing.instructions is None or len(listing.instructions.encode("utf-8", "replace")) <= DEFINITION_LIMIT:
        return listing.instructions
    notes.append(f"the server's instructions are left out: they have more than {DEFINITION_LIMIT >> 10} KiB")
    return None


def _definitions(
    items: Iterable[Raw], kind: DefinitionKind, definition_filter: DefinitionFilter
) -> tuple[Definition, ...]:
    """The usable definitions of one kind, sorted by name."""
    definitions = [
        Definition(name=name, definition=raw, hash=definition_hash(raw))
        for name, raw in definition_filter.select_usable(items, kind)
    ]
    return tuple(sorted(definitions, key=lambda definition: definition.name))


def _limits(server: McpServer) -> Limits:
    """The limits of the spec, in the units of the catalog."""
    limits = server.spec.limits
    return Limits(
        concurrency=limits.concurrency,
        calls_per_second=limits.calls_per_second,
        burst=limits.calls_per_minute if limits.burst is None else limits.burst,
        timeout_ms=limits.timeout.milliseconds,
        max_timeout_ms=limits.max_timeout.milliseconds,
        retries=limits.retries,
        hedge_after_ms=limits.hedge_after.milliseconds if limits.hedge_after is not None else None,
        max_result_bytes=limits.max_result_bytes,
    )
