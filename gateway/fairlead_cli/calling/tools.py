"""`fairlead tools`: the tools that an endpoint lists."""

from __future__ import annotations

import sys
from typing import Any, Final

import msgspec

from fairlead_cli.calling.hidden import hidden_lines, hidden_of
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import Failure
from fairlead_cli.models.offers import print_offer
from fairlead_cli.output import Output, first_line, print_json, print_table
from fairlead_cli.rest import Plane
from fairlead_cli.servers.starting import LIST_SECONDS, lines_about, servers_of, wait_for
from fairlead_mcp.session import McpSession

_HINTS: Final = (
    ("readOnlyHint", True, "read-only"),
    ("destructiveHint", True, "destructive"),
    ("idempotentHint", True, "idempotent"),
)


def run_tools(destination: Destination, output: Output) -> None:
    """List them, all pages, as a table or as the definitions that came over the wire."""
    wait_for(destination, min(LIST_SECONDS, destination.timeout))
    definitions, hidden = destination.run(lambda session: listed(session, destination.timeout))
    if output is Output.json:
        print_json(definitions)
    elif not definitions:
        print(f"{destination.url} offers no tools{'' if hidden else ' yet'}.")
    else:
        rows = [(str(tool.get("name", "")), hints(tool), description(tool)) for tool in definitions]
        print_table(("TOOL", "HINTS", "DESCRIPTION"), rows)
    sys.stdout.flush()
    for line in (*hidden_lines(hidden), *lines_about(servers_of(destination))):
        print(line, file=sys.stderr if output is Output.json else sys.stdout)


def run_offer(destination: Destination, format_: str, strict: bool, output: Output) -> None:
    """Print the tools in a provider's format: the array alone, or with `--output json` the gateway's whole answer."""
    wait_for(destination, min(LIST_SECONDS, destination.timeout))
    offer = Plane.of(destination).get("/v1/tools", format=format_, strict=str(strict).lower())
    print_offer(offer, output)


async def listed(session: McpSession, timeout: float) -> tuple[list[dict[str, Any]], Any]:
    """The definitions of all tools, and what the gateway says of those that it hides, None where nothing. Raises
    McpError, and Failure where a definition is no JSON object.
    """
    hidden: list[Any] = []
    try:
        raws = await session.list_all(
            "tools/list", timeout=timeout, page_read=lambda page: hidden.append(hidden_of(page))
        )
        definitions = [msgspec.json.decode(raw, type=dict[str, Any]) for raw in raws]
        return definitions, next((one for one in hidden if one is not None), None)
    except msgspec.DecodeError as error:
        raise Failure(f"the server lists a tool whose definition is no JSON object: {error}") from error


def hints(tool: dict[str, Any]) -> str:
    """What a server says of a tool's effects; it need not be true."""
    annotations = tool.get("annotations")
    if not isinstance(annotations, dict):
        return ""
    return ", ".join(word for name, value, word in _HINTS if annotations.get(name) is value)


def description(tool: dict[str, Any]) -> str:
    """The first line of the description, else the title."""
    text = tool.get("description") or tool.get("title") or ""
    return first_line(text) if isinstance(text, str) else ""
