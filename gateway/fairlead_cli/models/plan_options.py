"""Options of `fairlead plan`: the content of a model's context, and the task for which the ways to offer tools are
compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer


@dataclass(frozen=True)
class PlanOptions:
    """The models to try, the conversation, and the limits on its tools."""

    models: Annotated[
        list[str] | None, typer.Option("--model", help="Model to try, as NAME or NAME=FORMAT; tried in order.")
    ] = None
    route: Annotated[str | None, typer.Option(help="Route of the gateway, instead of models.")] = None
    messages: Annotated[
        str | None, typer.Option(metavar="FILE", help="Conversation as a JSON list of messages; - reads stdin.")
    ] = None
    system: Annotated[str | None, typer.Option(help="System prompt.")] = None
    pinned: Annotated[list[str] | None, typer.Option("--pin", help="Tool that is never cut.")] = None
    max_tools: Annotated[int | None, typer.Option(min=1, help="Maximum number of tools.")] = None
    tool_tokens: Annotated[int | None, typer.Option(min=1, help="Limit on the model's tokens for tools.")] = None
    reserved: Annotated[int | None, typer.Option(min=0, help="Tokens reserved for the answer.")] = None
    shorten: Annotated[bool, typer.Option("--shorten", help="Shorten descriptions before a tool is cut.")] = False


@dataclass(frozen=True)
class TaskOptions:
    """The task for which the costs of listing all tools, of a tier and of tool search are compared."""

    turns: Annotated[int | None, typer.Option(min=1, help="Requests of the task to the model. Default: calls + 1.")] = (
        None
    )
    calls: Annotated[int, typer.Option(min=0, help="Tool calls of the task.")] = 1
    searches: Annotated[int | None, typer.Option(min=0, help="Tool searches of the task. Default: one per call.")] = (
        None
    )
    caching: Annotated[bool, typer.Option("--caching", help="The provider caches prompts.")] = False
    warm: Annotated[
        bool, typer.Option("--warm", help="With --caching: the cache already has definitions and conversation.")
    ] = False

    def body(self) -> dict[str, Any]:
        """The member `task` of the request, without options that were not given."""
        counts = {"turns": self.turns, "calls": self.calls, "searches": self.searches}
        switches = {"caching": self.caching, "warm": self.warm}
        return {name: value for name, value in {**counts, **switches}.items() if value is not None}
