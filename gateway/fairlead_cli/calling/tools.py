"""`fairlead tools`: the tools that an endpoint lists."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

from fairlead_cli.calling.key_value_arguments import argument_rows
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.hidden_tools import hidden_lines, hidden_of, why_hidden
from fairlead_cli.models.printed_tools import print_tools_and_losses
from fairlead_cli.output import Output, first_line, print_json, print_table, printable, remark
from fairlead_cli.rest import ManagementClient
from fairlead_cli.servers.starting import LIST_SECONDS, lines_about, may_have_tool, servers_of, wait_for
from fairlead_cli.wording import ready_to_paste, unknown_tool
from fairlead_formats.names import suggest_name
from fairlead_mcp.session import McpSession

SUGGESTS: Final = "Did you mean "
"""Beginning of the suggestion in a gateway's message about an unknown tool."""
_HINTS: Final = (
    ("readOnlyHint", True, "read-only"),
    ("destructiveHint", True, "destructive"),
    ("idempotentHint", True, "idempotent"),
)


def run_tools(destination: Destination, output: Output) -> None:
    """Print the tools of all pages, as a table or as JSON definitions."""
    wait_for(destination, min(LIST_SECONDS, destination.timeout))
    definitions, hidden = destination.run(lambda session: list_tools(session, destination.timeout))
    if output is Output.json:
        print_json(definitions)
    elif not definitions:
        print(f"{destination.url} offers no tools{'' if hidden else ' yet'}.")
    else:
        rows = [(str(tool.get("name", "")), hints(tool), description(tool)) for tool in definitions]
        print_table(("TOOL", "HINTS", "DESCRIPTION"), rows)
    for line in (*hidden_lines(hidden), *lines_about(servers_of(destination))):
        if output is Output.json:
            remark("tools", line)
        else:
            print(ready_to_paste(line))


def run_tool(destination: Destination, name: str, output: Output) -> None:
    """Print one tool with its description and arguments. Raises Failure."""
    wait_for(destination, min(LIST_SECONDS, destination.timeout), lambda server: may_have_tool(server, name))
    definitions, hidden = destination.run(lambda session: list_tools(session, destination.timeout))
    definition = definition_of(definitions, name)
    if definition is None:
        reason = why_hidden(hidden, name)
        if reason is None and is_server(destination, name):
            raise Failure(f"{name} is a server: `fairlead tools --server {name}` lists its tools", code=USAGE_ERROR)
        for line in lines_about(server for server in servers_of(destination) if may_have_tool(server, name)):
            raise Failure(line)
        raise (
            Failure(f"OVER_BUDGET: {reason}")
            if reason is not None
            else _unlisted_failure(destination, name, definitions)
        )
    if output is Output.json:
        print_json(definition)
        return
    text = definition.get("description") or definition.get("title") or "(no description)"
    print(f"{printable(name)}{f' ({hints(definition)})' if hints(definition) else ''}")
    print("\n".join(f"  {printable(line)}" for line in str(text).strip().split("\n")))
    rows = list(argument_rows(schema_of(definition)))
    print()
    if rows:
        print_table(("ARGUMENT", "TYPE", "", "DESCRIPTION"), rows)
    else:
        print("The tool takes no arguments.")


def is_server(destination: Destination, name: str) -> bool:
    """Whether `name` is a server's `namespace/name`, or its name without the namespace."""
    keys = (
        {str(document.get("server")), str(document.get("server")).rpartition("/")[2]}
        for document in servers_of(destination)
    )
    return any(name in server_names for server_names in keys)


def definition_of(definitions: list[dict[str, Any]], name: str) -> dict[str, Any] | None:
    """The definition of the tool `name`; None if it is not listed."""
    return next((definition for definition in definitions if definition.get("name") == name), None)


def schema_of(definition: dict[str, Any] | None) -> dict[str, Any]:
    """Input schema of a tool; an empty schema, which accepts anything, if the tool has no schema."""
    schema = {} if definition is None else definition.get("inputSchema")
    return schema if isinstance(schema, dict) else {}


def unknown_tool_failure(name: str, definitions: list[dict[str, Any]]) -> Failure:
    """The failure for a name that no tool has."""
    similar_name = suggest_name(name, [str(definition.get("name", "")) for definition in definitions])
    return Failure(printable(unknown_tool(name, similar_name)), code=USAGE_ERROR)


def _unlisted_failure(destination: Destination, name: str, definitions: list[dict[str, Any]]) -> Failure:
    """The failure for a name that is not listed. A gateway knows names that its list does not have, such as the
    server's own name of a renamed tool. If the gateway suggests no tool, a similar name in the list is suggested.
    """
    try:
        ManagementClient.of(destination).get(f"/v1/tools/{quote(name, safe='')}")
    except Failure as failure:
        if SUGGESTS in str(failure):
            return failure
    return unknown_tool_failure(name, definitions)


def run_offer(destination: Destination, format_: str, output: Output, *, strict: bool, losses: bool) -> None:
    """Print the tools in a provider's format: only the array, or with `--json` the gateway's complete response."""
    wait_for(destination, min(LIST_SECONDS, destination.timeout))
    client = ManagementClient.of(destination)
    offer = client.get("/v1/tools", **client.scope, format=format_, strict=str(strict).lower())
    print_tools_and_losses("tools", offer, output, losses=losses)


async def list_tools(session: McpSession, timeout: float) -> tuple[list[dict[str, Any]], Any]:
    """The definitions of all tools, and the gateway's notice about hidden tools, or None. Raises McpError, and Failure
    if a definition is not a JSON object.
    """
    hidden: list[Any] = []
    try:
        raws = await session.list_all(
            "tools/list", timeout=timeout, on_page=lambda page: hidden.append(hidden_of(page))
        )
        definitions = [msgspec.json.decode(raw, type=dict[str, Any]) for raw in raws]
        return definitions, next((entry for entry in hidden if entry is not None), None)
    except msgspec.DecodeError as error:
        raise Failure(f"the server lists a tool whose definition is not a JSON object: {error}") from error


def hints(tool: dict[str, Any]) -> str:
    """The server's hints about a tool's effects, which may be wrong."""
    annotations = tool.get("annotations")
    if not isinstance(annotations, dict):
        return ""
    return ", ".join(word for name, value, word in _HINTS if annotations.get(name) is value)


def description(tool: dict[str, Any]) -> str:
    """First line of the description, or else the title."""
    text = tool.get("description") or tool.get("title") or ""
    return first_line(text) if isinstance(text, str) else ""
