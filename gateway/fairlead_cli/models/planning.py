"""`fairlead plan`: which model holds a conversation and which tools it gets, as the gateway decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.models.converting import read_json
from fairlead_cli.output import Output, print_json, print_table
from fairlead_cli.rest import Plane


@dataclass(frozen=True)
class Wish:
    """The options of the command."""

    models: tuple[str, ...]
    route: str | None
    messages: str | None
    system: str | None
    pinned: tuple[str, ...]
    max_tools: int | None
    tool_tokens: int | None
    reserved: int | None
    shorten: bool


def run_plan(destination: Destination, wish: Wish, output: Output) -> None:
    """Ask the gateway and print its plan: a table, or the whole answer."""
    if bool(wish.models) == (wish.route is not None):
        raise Failure("give either --model, once or several times, or --route", code=USED_WRONGLY)
    plane = Plane.of(destination)
    answer = plane.post("/v1/plan", body(wish, plane.scope))
    if output is Output.json:
        print_json(answer)
        return
    numbers = answer["numbers"]
    print(f"{answer['model']} ({answer['offer']['format']}), {numbers['available']} tokens left of")
    print(
        f"  {numbers['contextWindow']} in its window: tools {numbers['toolTokens']}, system prompt "
        f"{numbers['systemPromptTokens']}, messages {numbers['messageTokens']}, reserved "
        f"{numbers['reservedOutputTokens']}"
    )
    rows = [(name, "pinned" if name in wish.pinned else "") for name in answer["offer"]["names"].values()]
    rows += [(cut["name"], f"cut: {cut['reason']}, {cut['tokens']} tokens") for cut in answer["cut"]]
    rows += [(name, "offline") for name in answer["offline"]]
    print_table(("TOOL", ""), rows)


def body(wish: Wish, scope: dict[str, str]) -> dict[str, Any]:
    """The request; what was not given is left out."""
    asked: dict[str, Any] = {
        "route": wish.route,
        "models": [model(text) for text in wish.models],
        "messages": None if wish.messages is None else read_json(wish.messages),
        "system": wish.system,
        "pinned": list(wish.pinned),
        "maxTools": wish.max_tools,
        "toolTokens": wish.tool_tokens,
        "reservedOutputTokens": wish.reserved,
        "shortenDescriptions": wish.shorten,
        "tier": scope.get("tier"),
        "servers": [scope["servers"]] if "servers" in scope else [],
    }
    return {name: value for name, value in asked.items() if value not in (None, [])}


def model(text: str) -> dict[str, str]:
    """`NAME` or `NAME=FORMAT`."""
    name, given, format_ = text.partition("=")
    return {"model": name, "format": format_} if given else {"model": name}
