"""`fairlead convert` and `fairlead plan`: tools for models, with their options and help. No work is done here."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.options import (
    DEFAULT_URL,
    HeaderOption,
    OutputOption,
    ServerOption,
    TimeoutOption,
    TokenOption,
    UrlOption,
)
from fairlead_cli.output import Output


def convert(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Tools as JSON: a list, one tool or a request; - reads.")],
    source: Annotated[str, typer.Option("--from", metavar="FORMAT", help="Format of FILE, as openai or mcp.")],
    target: Annotated[str, typer.Option("--to", metavar="FORMAT", help="Format to convert to.")],
    strict: Annotated[bool, typer.Option("--strict", help="Strict tools, where that loses nothing.")] = False,
    model: Annotated[str | None, typer.Option(help="Who reads the tools, where rules differ by model.")] = None,
    losses: Annotated[
        bool, typer.Option("--losses", help="Name all that the format cannot hold, tool by tool.")
    ] = False,
    output: OutputOption = Output.table,
) -> None:
    """Convert tool definitions from any provider's format to any other. Needs no gateway.

    The array of tools goes to standard output, and what the format cannot hold to standard error.

    Example: fairlead convert --from openai --to anthropic tools.json
    """
    from fairlead_cli.models.converting import run_convert

    run_convert(file, source, target, strict=strict, model=model, losses=losses, output=output)


def plan(
    models: Annotated[
        list[str] | None, typer.Option("--model", help="A model to try, as NAME or NAME=FORMAT; in order.")
    ] = None,
    route: Annotated[
        str | None, typer.Option(help="A route of the gateway's configuration, in place of models.")
    ] = None,
    messages: Annotated[
        str | None, typer.Option(metavar="FILE", help="The conversation as a JSON list of messages; - reads it.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
    pinned: Annotated[list[str] | None, typer.Option("--pin", help="A tool that is never cut.")] = None,
    max_tools: Annotated[int | None, typer.Option(min=1, help="Tools at most.")] = None,
    tool_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens for tools at most, in the model's own.")
    ] = None,
    reserved: Annotated[int | None, typer.Option(min=0, help="Tokens kept free for the answer.")] = None,
    shorten: Annotated[bool, typer.Option("--shorten", help="Shorten descriptions before a tool is cut.")] = False,
    turns: Annotated[
        int | None, typer.Option(min=1, help="A task's requests to the model; one more than its calls.")
    ] = None,
    calls: Annotated[int, typer.Option(min=0, help="Its calls of tools.")] = 1,
    searches: Annotated[
        int | None, typer.Option(min=0, help="Its searches where tools are searched for; one per call.")
    ] = None,
    caching: Annotated[bool, typer.Option("--caching", help="Its prompts are cached by the provider.")] = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="With --caching: the cache has definitions and conversation already.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
    header: HeaderOption = None,
    token: TokenOption = None,
    server: ServerOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """Say which model holds a conversation together with the tools of a gateway, what has to go where none does, and
    whether a list, a tier or search is cheapest.

    Example: fairlead plan --model gpt-5-mini --model claude-sonnet-5 --messages chat.json --max-tools 20
    """
    from fairlead_cli.connecting import Destination
    from fairlead_cli.models.planning import TaskWish, Wish, run_plan

    wish = Wish(
        tuple(models or ()),
        route,
        messages,
        system,
        tuple(pinned or ()),
        max_tools,
        tool_tokens,
        reserved,
        shorten,
        TaskWish(turns, calls, searches, caching, warm),
    )
    run_plan(Destination.parse(url, header or [], server, timeout, token), wish, output)
