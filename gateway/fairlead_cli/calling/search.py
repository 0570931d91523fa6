"""`fairlead search`: its options and help, and its output."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import (
    EndpointOptions,
    OutputOption,
)
from fairlead_cli.output import Output, first_line, print_json, print_table, printable, remark


@expand_groups
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS…", help="What the tool should do, in a few words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Maximum number of tools.")] = 8,
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Only tools with this tag; repeatable.")] = None,
    categories: Annotated[
        list[str] | None, typer.Option("--category", help="Only tools of this category; repeatable.")
    ] = None,
    gateway: EndpointOptions = EndpointOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Find tools by their purpose, best match first, among the tools that you may call.

    Words in names, descriptions and arguments match, and related words: "erase a folder" finds
    delete_directory.

    Examples:

        fairlead search how many are in stock

        fairlead search send a message --tag chat --limit 3
    """
    from fairlead_cli.rest import ManagementClient

    client = ManagementClient.of(gateway.destination())
    filters = {name: values for name, values in (("tags", tags), ("categories", categories)) if values}
    answer = client.get("/v1/search", query=" ".join(words), limit=str(limit), **client.scope, **filters)
    if output is Output.json:
        print_json(answer)
        return
    rows = [
        (printable(hit["tool"]["name"]), f"{hit['score']:.1f}", _description(hit["tool"]["definition"]))
        for hit in answer["tools"]
    ]
    if rows:
        print_table(("TOOL", "SCORE", "DESCRIPTION"), rows)
    else:
        count = answer["searched"]
        wanted = " and ".join(
            f"the {name} {' or '.join(values)}" for name, values in (("tag", tags), ("category", categories)) if values
        )
        if wanted and not count:
            remark("search", f"no tool has {wanted}; `fairlead tools` lists all tools")
            return
        remark("search", f"none of {count} tools matches: try other words, or list the tools with `fairlead tools`")


def _description(definition: object) -> str:
    description = definition.get("description") if isinstance(definition, dict) else None
    return first_line(description) if isinstance(description, str) else ""
