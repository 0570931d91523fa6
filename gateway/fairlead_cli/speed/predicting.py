"""`fairlead predict`: predicts how long several calls take together. This module has its options, help and output."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption
from fairlead_cli.output import Output, duration, print_json, print_table, printable, some_names
from fairlead_cli.wording import unknown_tool, with_tools_hint

if TYPE_CHECKING:
    from fairlead_cli.rest import ManagementClient


class Strategy(StrEnum):
    """Values of `--strategy`."""

    parallel = "parallel"
    sequential = "sequential"


@expand_groups
def predict(
    tools: Annotated[list[str], typer.Argument(metavar="TOOL...", help="Tools, in the order of the calls.")],
    strategy: Annotated[Strategy, typer.Option(help="How the tools are called.")] = Strategy.parallel,
    limit: Annotated[int | None, typer.Option(min=1, max=128, help="Maximum number of parallel calls.")] = None,
    tier: Annotated[
        str | None,
        typer.Option(help="Latency tier whose limit the calls are compared with. Default: the default tier."),
    ] = None,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Predict how long calls take together, from the measured or declared latency of the tools. Calls no tool.

    Examples:

        fairlead predict demo__get_stock demo__forecast_demand

        fairlead predict demo__get_stock demo__get_stock --strategy sequential --tier fast
    """
    from fairlead_cli.rest import ManagementClient

    calls = [
        {"id": str(number), "type": "function", "function": {"name": tool, "arguments": "{}"}}
        for number, tool in enumerate(tools, 1)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    body: dict[str, Any] = {"format": "openai-chat", "message": message, "tools": [], "strategy": strategy.value}
    client = ManagementClient.of(gateway.destination().in_tier(tier))
    body |= {"limit": limit} if limit is not None else {}
    body |= {"tier": client.scope["tier"]} if "tier" in client.scope else {}
    prediction = client.post("/v1/tool-calls/predict", body)
    if unknown_names := [str(call["name"]) for call in prediction["calls"] if not call["tool"]]:
        raise _unknown(client, unknown_names)
    if output is Output.json:
        print_json(prediction)
    else:
        _print(prediction)


def _unknown(client: ManagementClient, names: Sequence[str]) -> Failure:
    """The failure for names that are not tools, with a suggestion for a single name."""
    if len(names) > 1:
        return Failure(with_tools_hint(f"Unknown tools: {some_names(map(printable, names))}"), code=USAGE_ERROR)
    try:
        client.get(f"/v1/tools/{quote(names[0], safe='')}")
    except Failure as failure:
        return failure
    return Failure(unknown_tool(printable(names[0]), None), code=USAGE_ERROR)


def _print(prediction: dict[str, Any]) -> None:
    rows = [
        (printable(call["tool"]), duration(call["usualMs"]), duration(call["slowMs"]), call["basis"])
        for call in prediction["calls"]
    ]
    cost = prediction["cost"]
    rows.append(
        (
            "together",
            duration(cost["usualMs"]),
            duration(cost["slowMs"]),
            f"{cost['strategy']}, {cost['atOnce']} at once",
        )
    )
    print_table(("TOOL", "USUALLY", "IF SLOW", "AS"), rows)
    if cost["unknown"]:
        print(f"\nThe latency of {', '.join(map(printable, cost['unknown']))} is unknown: the total is a lower bound.")
    if cost["fits"] is not None:
        print(
            f"\nThe calls {'fit' if cost['fits'] else 'do not fit'} tier {printable(cost['tier'])} "
            f"({cost['tierMs']} ms)."
        )
