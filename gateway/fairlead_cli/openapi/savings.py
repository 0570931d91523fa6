"""Tokens that the definitions of a document's tools take in each request to a model, and the tokens that each way to
list fewer tools saves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from fairlead_openapi.compiling.report import CompiledDocument

MANY_TOOLS: Final = 40
"""Number of tools above which the report says what their definitions cost."""
MAX_TAGS: Final = 3


def savings_lines(compiled: CompiledDocument) -> Iterator[str]:
    """Sentences for a document with more than MANY_TOOLS tools. Schemas of results are not counted, because models do
    not get them. Tokens are estimated from bytes.
    """
    if len(compiled.tools) <= MANY_TOOLS:
        return
    from fairlead_gateway.core.meta_tools import DEFINITIONS
    from fairlead_offers.router.found_tools import DEFAULT_LIMIT

    costs = {tool.name: _tokens(bytes(tool.definition)) for tool in compiled.tools}
    total = sum(costs.values())
    yield f"{len(costs):,} definitions take about {total:,} tokens of every request to a model. To take fewer:"
    for tag, names in _largest_tags(compiled):
        cost = sum(costs[name] for name in names)
        tools = f"{len(names):,} tool{'s' * (len(names) != 1)}"
        yield f"  with --include {shlex.quote(tag)}: {_saving(cost, total)} ({tools})"
    search = total * DEFAULT_LIMIT // len(costs)
    yield f"  with a search before the request (GET /v1/search): {_saving(search, total)} ({DEFAULT_LIMIT} tools)"
    router = sum(map(_tokens, DEFINITIONS))
    yield (
        f"  with the gateway's /router/mcp, where the model searches: {_saving(router, total)} "
        f"({len(DEFINITIONS)} tools, and about {search:,} tokens for each search)"
    )


def _largest_tags(compiled: CompiledDocument) -> list[tuple[str, list[str]]]:
    """The tags with the most tools, except tags that all tools have."""
    names_by_tag: dict[str, list[str]] = {}
    for report in compiled.reports:
        for tag in dict.fromkeys(report.tags) if report.tool else ():
            names_by_tag.setdefault(tag, []).append(report.tool)
    tags = [(tag, names) for tag, names in names_by_tag.items() if len(names) < len(compiled.tools)]
    return sorted(tags, key=lambda tag_and_names: (-len(tag_and_names[1]), tag_and_names[0]))[:MAX_TAGS]


def _saving(cost: int, total: int) -> str:
    return f"about {cost:,} tokens, {max(0, total - cost) * 100 // total}% less"


def _tokens(definition: bytes) -> int:
    from fairlead_formats.tokens.counting import BytesCounter

    members = msgspec.json.decode(definition)
    sent_members = {name: members[name] for name in ("name", "description", "inputSchema")}
    return BytesCounter().count(msgspec.json.encode(sent_members).decode())
