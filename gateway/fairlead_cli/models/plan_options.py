"""Options of `fairlead plan`: what a model has to hold, and the task by which ways to offer tools are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer


@dataclass(frozen=True)
class PlanWish:
    """The models that are tried, the conversation, and the bounds of its tools."""

    models: Annotated[
        list[str] | None, typer.Option("--model", help="A model to try, as NAME or NAME=FORMAT; in order.")
    ] = None
    route: Annotated[str | None, typer.Option(help="A route of the gateway's configuration, in place of models.")] = (
        None
    )
    messages: Annotated[
        str | None, typer.Option(metavar="FILE", help="The conversation as a JSON list of messages; - reads it.")
    ] = None
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None
    pinned: Annotated[list[str] | None, typer.Option("--pin", help="A tool that is never cut.")] = None
    max_tools: Annotated[int | None, typer.Option(min=1, help="Tools at most.")] = None
    tool_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens for tools at most, in the model's own.")] = None
    reserved: Annotated[int | None, typer.Option(min=0, help="Tokens kept free for the answer.")] = None
    shorten: Annotated[bool, typer.Option("--shorten", help="Shorten descriptions before a tool is cut.")] = False


@dataclass(frozen=True)
class TaskWish:
    """The task by which list, tiers and search are compared."""

    turns: Annotated[
        int | None, typer.Option(min=1, help="A task's requests to the model; one more than its calls.")
    ] = None
    calls: Annotated[int, typer.Option(min=0, help="Its calls of tools.")] = 1
    searches: Annotated[
        int | None, typer.Option(min=0, help="Its searches where tools are searched for; one per call.")
    ] = None
    caching: Annotated[bool, typer.Option("--caching", help="Its prompts are cached by the provider.")] = False
    warm: Annotated[
        bool, typer.Option("--warm", help="With --caching: the cache has definitions and conversation already.")
    ] = False

    def body(self) -> dict[str, Any]:
        """The member `task` of the request; what was not given is left out."""
        given = {"turns": self.turns, "calls": self.calls, "searches": self.searches}
        switches = {"caching": self.caching, "warm": self.warm}
        return {name: value for name, value in {**given, **switches}.items() if value is not None}
