"""What a server listed and what its McpServer says about it, made into a catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import (
    Catalog,
    CredentialRef,
    DeclaredLatency,
    Definition,
    Endpoint,
    HttpEndpoint,
    Limits,
    ToolEntry,
    definition_hash,
    list_hash,
    search_hash,
)
from fairlead_api.v1alpha1.mcpserver import McpServer, ToolLatency, ToolLimits, ToolOverride
from fairlead_mcp import eras
from fairlead_operator.discovery.judging import PROMPT, RESOURCE, TEMPLATE, TOOL, Kind, Sieve
from fairlead_operator.discovery.listing import Found
from fairlead_operator.discovery.remarks import Remarks

LATENCY_META: Final = "fairlead.dev/latency"
"""Key of a tool's `_meta` under which its author declares latency, with the members of `spec.tools[].latency`."""
NOTES_LIMIT: Final = 20


@dataclass(frozen=True)
class Reached:
    """How a server is reached: what the platform and the credentials gave."""

    endpoint: Endpoint
    credential: CredentialRef | None
    prefix: str | None


class _Declared(msgspec.Struct, rename="camel"):
    """Latency as an author declares it; a member of another type counts as absent."""

    estimated_duration_ms: Any = None
    max_duration_ms: Any = None
    idempotent: Any = None
    cacheable_seconds: Any = None


def _own(name: str) -> Any:
    """A key of ours in `_meta`."""
    return msgspec.field(default=None, name=f"fairlead.dev/{name}")


class _Meta(msgspec.Struct):
    """As one object, as single keys of ours, and as plain ones, in this order of preference."""

    latency: Raw = msgspec.field(default=Raw(b"{}"), name=LATENCY_META)
    own_estimated: Any = _own("estimated_duration_ms")
    own_max: Any = _own("max_duration_ms")
    own_idempotent: Any = _own("idempotent")
    own_cacheable: Any = _own("cacheable_seconds")
    estimated_duration_ms: Any = None
    max_duration_ms: Any = None
    idempotent: Any = None
    cacheable_seconds: Any = None


class _Carried(msgspec.Struct):
    """As much of a definition as the catalog needs."""

    meta: Raw = msgspec.field(default=Raw(b"{}"), name="_meta")


_carried = msgspec.json.Decoder(_Carried).decode
_meta = msgspec.json.Decoder(_Meta).decode
_declared = msgspec.json.Decoder(_Declared).decode


def build_catalog(server: McpServer, found: Found, reached: Reached) -> tuple[Catalog, Remarks]:
    """The catalog, every list sorted by name, and what is to be said of what was left out of it.

    `online` is True and `updated_at` empty: they say something about now, and the publisher sets them.
    """
    notes: list[str] = []
    modern = eras.era_of(found.protocol_version) is eras.Era.MODERN
    sieve = Sieve(in_headers=modern and isinstance(reached.endpoint, HttpEndpoint))
    overrides = {override.name: override for override in server.spec.tools}
    tools = _tools(found.tools, overrides, sieve, trusted=server.spec.trusts_annotations)
    missing = sorted(set(overrides) - {tool.name for tool in tools})
    if missing:
        notes.append(f"spec.tools names tools that the server does not list: {', '.join(missing[:NOTES_LIMIT])}")
    spec = server.spec
    catalog = Catalog(
        namespace=server.metadata.namespace,
        name=server.metadata.name,
        uid=server.metadata.uid,
        generation=server.metadata.generation,
        prefix=reached.prefix,
        endpoint=reached.endpoint,
        credential=reached.credential,
        protocol_version=found.protocol_version,
        server_info=found.server_info,
        capabilities=found.capabilities,
        instructions=found.instructions,
        session=spec.session,
        on_disconnect=spec.discovery.on_disconnect,
        trust_annotations=spec.trusts_annotations,
        limits=_limits(server),
        tools=tools,
        resources=_definitions(found.resources, RESOURCE, sieve),
        resource_templates=_definitions(found.resource_templates, TEMPLATE, sieve),
        prompts=_definitions(found.prompts, PROMPT, sieve),
    )
    remarks = Remarks(found.listed, tuple(sieve.faults), found.notes, tuple(notes))
    return msgspec.structs.replace(catalog, hash=list_hash(catalog)), remarks


def _tools(
    items: Iterable[Raw], overrides: dict[str, ToolOverride], sieve: Sieve, *, trusted: bool
) -> tuple[ToolEntry, ...]:
    tools = [_tool(name, raw, overrides.get(name), trusted=trusted) for name, raw in sieve.usable(items, TOOL)]
    return tuple(sorted(tools, key=lambda tool: tool.name))


def _tool(name: str, raw: Raw, override: ToolOverride | None, *, trusted: bool) -> ToolEntry:
    tags = tuple(override.tags) if override else ()
    categories = tuple(override.categories) if override else ()
    probe = override.probe if override else None
    limits = override.limits if override and override.limits else ToolLimits()
    return ToolEntry(
        name=name,
        definition=raw,
        hash=definition_hash(raw),
        search_hash=search_hash(name, raw, tags=tags, categories=categories),
        enabled=override.enabled if override else True,
        description=override.description if override else None,
        tags=tags,
        categories=categories,
        latency=_latency(override.latency if override else None, _carried(raw).meta, trusted=trusted),
        probe_arguments=probe.arguments if probe else None,
        calls_per_minute=limits.calls_per_minute,
        concurrency=limits.concurrency,
    )


def _latency(said: ToolLatency | None, meta: Raw, *, trusted: bool) -> DeclaredLatency | None:
    """The McpServer's word, member by member, before the author's, who is believed `idempotent` only where the
    annotations of the server are trusted.
    """
    declared = _author_latency(meta)
    if not trusted:
        declared = msgspec.structs.replace(declared, idempotent=None)
    merged = DeclaredLatency(
        estimated_duration_ms=_first(said and said.estimated_duration_ms, declared.estimated_duration_ms),
        max_duration_ms=_first(said and said.max_duration_ms, declared.max_duration_ms),
        idempotent=_first(said and said.idempotent, declared.idempotent),
        cacheable_seconds=_first(said and said.cacheable_seconds, declared.cacheable_seconds),
    )
    return merged if merged != DeclaredLatency() else None


def _author_latency(meta: Raw) -> DeclaredLatency:
    try:
        found = _meta(meta)
        declared = _declared(found.latency)
    except msgspec.MsgspecError:
        return DeclaredLatency()
    return DeclaredLatency(
        estimated_duration_ms=_number(declared.estimated_duration_ms, found.own_estimated, found.estimated_duration_ms),
        max_duration_ms=_number(declared.max_duration_ms, found.own_max, found.max_duration_ms),
        idempotent=_first(*map(_truth, (declared.idempotent, found.own_idempotent, found.idempotent))),
        cacheable_seconds=_number(declared.cacheable_seconds, found.own_cacheable, found.cacheable_seconds),
    )


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(*candidates: Any) -> int | None:
    """The first that is a number of at least 0."""
    for value in candidates:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
            return round(value)
    return None


def _first(*candidates: Any) -> Any:
    return next((value for value in candidates if value is not None), None)


def _definitions(items: Iterable[Raw], kind: Kind, sieve: Sieve) -> tuple[Definition, ...]:
    found = [
        Definition(name=name, definition=raw, hash=definition_hash(raw)) for name, raw in sieve.usable(items, kind)
    ]
    return tuple(sorted(found, key=lambda definition: definition.name))


def _limits(server: McpServer) -> Limits:
    limits = server.spec.limits
    return Limits(
        concurrency=limits.concurrency,
        calls_per_second=limits.calls_per_second,
        timeout_ms=limits.timeout.milliseconds,
        retries=limits.retries,
        hedge_after_ms=limits.hedge_after.milliseconds if limits.hedge_after is not None else None,
        max_result_bytes=limits.max_result_bytes,
    )
