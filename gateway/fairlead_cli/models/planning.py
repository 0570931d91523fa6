"""`fairlead plan`: prints the gateway's plan: which model fits a conversation, and which tools it gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.models.converting import read_json
from fairlead_cli.models.plan_options import PlanOptions, TaskOptions
from fairlead_cli.output import Output, print_json, print_table, printable, some_names
from fairlead_cli.rest import ManagementClient
from fairlead_formats.names import suggest_name

UNKNOWN_WINDOW: Final = "default"
"""`windowSource` of a context window that the gateway does not know."""


def run_plan(destination: Destination, plan_options: PlanOptions, task: TaskOptions, output: Output) -> None:
    """Print the gateway's plan, as a table or as the complete response."""
    if bool(plan_options.models) == (plan_options.route is not None):
        raise Failure("give either --model, once or several times, or --route", code=USAGE_ERROR)
    client = ManagementClient.of(destination)
    answer = client.post("/v1/plan", body(plan_options, task, client.scope))
    if output is Output.json:
        print_json(answer)
        return
    for line in window_lines(answer, _similar_model(client, answer)):
        print(printable(line))
    for line in tool_lines(answer, plan_options.pinned or []):
        print(printable(line))
    _print_ways(answer["exposure"], answer["numbers"])


def _similar_model(client: ManagementClient, answer: dict[str, Any]) -> str | None:
    """Name of a known model that is similar to the name of the planned model, if the gateway does not know the planned
    model's context window.
    """
    if answer["numbers"].get("windowSource") != UNKNOWN_WINDOW:
        return None
    known_models = client.get("/v1/models", known="true")["data"]
    return suggest_name(str(answer["model"]), [str(each["id"]) for each in known_models])


def window_lines(answer: dict[str, Any], similar_model: str | None = None) -> Iterator[str]:
    """Lines about the use of the model's context window, in its own tokens; `similar_model` is a model with a similar
    name.
    """
    numbers = answer["numbers"]
    yield (
        f"{answer['model']} ({answer['offer']['format']}): {numbers['available']:,} of {numbers['contextWindow']:,} "
        "tokens are left"
    )
    if numbers.get("windowSource") == UNKNOWN_WINDOW:
        suggestion = "" if similar_model is None else f"; did you mean {similar_model}?"
        yield (
            "  the window of this model is unknown, so a small window is assumed; set it in `models` of a --routes "
            f"file{suggestion}"
        )
    prompt_limit = numbers.get("maxInput")
    if prompt_limit is not None and prompt_limit < numbers["contextWindow"] - numbers["reservedOutputTokens"]:
        yield f"  a prompt may have {prompt_limit:,} of them, the rest is for output"
    yield (
        f"  tools {numbers['toolTokens']:,}, system prompt {numbers['systemPromptTokens']:,}, "
        f"messages {numbers['messageTokens']:,}, reserved {numbers['reservedOutputTokens']:,}"
    )


def tool_lines(answer: dict[str, Any], pinned: Sequence[str]) -> Iterator[str]:
    """A line for the tools that the model gets, and one line for each reason why other tools are cut. `--json` has all
    names.
    """
    names = [*answer["offer"]["names"].values()]
    yield _count_label("offered", sorted(names, key=lambda name: name not in pinned))
    cuts: dict[str, list[Any]] = {}
    for cut in answer["cut"]:
        cuts.setdefault(str(cut["reason"]), []).append(cut)
    for reason, reason_cuts in cuts.items():
        model_tokens = round(sum(cut["tokens"] for cut in reason_cuts) * answer["numbers"]["toolFactor"])
        yield _count_label(f"cut ({reason}, {model_tokens:,} tokens)", [cut["name"] for cut in reason_cuts])
    if answer["offline"]:
        yield _count_label("offline", answer["offline"])


def _count_label(label: str, names: Sequence[str]) -> str:
    tools = f"{len(names)} tool{'' if len(names) == 1 else 's'}"
    return f"{tools} {label}{': ' if names else ''}{some_names(names)}"


def outcome_of(option: dict[str, Any], cheapest: dict[str, Any] | None, numbers: dict[str, Any]) -> str:
    """Result of a way to offer the tools: `cheapest`, or the limit that the way exceeds; else empty."""
    if option["fits"]:
        return "cheapest" if option == cheapest else ""
    is_too_long = option["largestPrompt"] > numbers["contextWindow"] - numbers["reservedOutputTokens"]
    return "does not fit the window" if is_too_long else "exceeds the limit on tools"


def _print_ways(exposure: dict[str, Any], numbers: dict[str, Any]) -> None:
    """Print the ways to offer the tools, each with the cost of the task, and the advice."""
    cheapest = exposure["cheapest"]
    rows = [
        (
            f"{option['way']} {option.get('tier', '')}".strip(),
            str(option["listed"]),
            str(option["reachable"]),
            str(option["turns"]),
            f"{option['tokens']:,}",
            f"{option['pricedTokens']:,}",
            outcome_of(option, cheapest, numbers),
        )
        for option in exposure["options"]
    ]
    print()
    print_table(("WAY", "LISTED", "REACHABLE", "TURNS", "TOKENS", "PRICED AS", ""), rows)
    print(printable(exposure["advice"]))


def body(plan_options: PlanOptions, task: TaskOptions, scope: dict[str, str]) -> dict[str, Any]:
    """The request; options that were not given are left out."""
    members: dict[str, Any] = {
        "route": plan_options.route,
        "models": [parse_model(text) for text in plan_options.models or ()],
        "messages": None if plan_options.messages is None else read_json(plan_options.messages),
        "system": plan_options.system,
        "pinned": plan_options.pinned or [],
        "maxTools": plan_options.max_tools,
        "toolTokens": plan_options.tool_tokens,
        "reservedOutputTokens": plan_options.reserved,
        "shortenDescriptions": plan_options.shorten,
        "task": task.body(),
        "tier": scope.get("tier"),
        "servers": [scope["servers"]] if "servers" in scope else [],
    }
    return {name: value for name, value in members.items() if value not in (None, [])}


def parse_model(text: str) -> dict[str, str]:
    """Parse `NAME` or `NAME=FORMAT`."""
    name, equals, format_ = text.partition("=")
    return {"model": name, "format": format_} if equals else {"model": name}
