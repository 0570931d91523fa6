"""`fairlead tools --tokens`: how much of a model's context each tool takes, and what the shapes of tools save."""

from __future__ import annotations

from typing import Any, Final

from fairlead_cli.connecting import Destination
from fairlead_cli.output import Output, print_json, print_table
from fairlead_cli.rest import ManagementClient
from fairlead_cli.servers.starting import LIST_SECONDS, wait_for
from fairlead_formats.tokens.counting import TokenCounter, best_counter
from fairlead_formats.tokens.sizes import render

_HEADINGS: Final = ("TOOL", "TOKENS", "SAVED")


def run_tokens(destination: Destination, output: Output) -> None:
    """Print the tokens of all listed tools, the largest first."""
    wait_for(destination, min(LIST_SECONDS, destination.timeout))
    client = ManagementClient.of(destination)
    counter = best_counter()
    rows = token_rows(client.get("/v1/tools", **client.scope)["tools"], counter)
    total, saved = (sum(row[member] for row in rows) for member in ("tokens", "saved"))
    if output is Output.json:
        print_json({"counter": counter.name, "tools": rows, "tokens": total, "saved": saved})
        return
    if not rows:
        print(f"{destination.url} offers no tools yet.")
        return
    cells = [(row["name"], f"{row['tokens']:,}", f"{row['saved']:,}" if row["saved"] else "") for row in rows]
    print_table(_HEADINGS, [*cells, ("", f"{total:,}", f"{saved:,}" if saved else "")])
    if saved:
        print(f"`tools` of the servers save about {saved:,} of {total + saved:,} tokens ({counter.name}).")


def token_rows(tools: list[dict[str, Any]], counter: TokenCounter) -> list[dict[str, Any]]:
    """Name, tokens and saved tokens of each tool document, the largest first. What a shape saves is estimated from the
    bytes of the server's own definition.
    """
    rows: list[dict[str, Any]] = []
    for tool in tools:
        text = render(tool["definition"])
        tokens, server_bytes = counter.count(text), tool.get("serverBytes")
        saved = 0 if server_bytes is None else round(tokens * server_bytes / len(text.encode())) - tokens
        rows.append({"name": tool["name"], "tokens": tokens, "saved": saved})
    return sorted(rows, key=lambda row: (-row["tokens"], row["name"]))
