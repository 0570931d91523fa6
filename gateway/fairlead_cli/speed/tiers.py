"""`fairlead tiers` and `fairlead explain`: their options and help, and their output."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import (
    GatewayOptions,
    OutputOption,
    ToolArgument,
)
from fairlead_cli.output import Output, duration, print_json, print_table, printable


@expand_groups
def tiers(
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Show the latency tiers: their limits, the number of tools that fit, and why other tools do not.

    Examples:

        fairlead tiers

        fairlead tiers --json
    """
    from fairlead_cli.rest import ManagementClient

    answer = ManagementClient.of(gateway.destination()).get("/v1/tiers")
    if output is Output.json:
        print_json(answer)
    else:
        _print_tiers(answer)


@expand_groups
def explain(
    tool: ToolArgument,
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Explain why each latency tier shows or hides a tool: the declared and measured latency, and the reason.

    Examples:

        fairlead explain demo__forecast_demand

        fairlead explain mcp.demo.forecast_demand --json
    """
    from fairlead_cli.rest import ManagementClient

    client = ManagementClient.of(gateway.destination())
    answer = client.get(f"/v1/tools/{quote(tool, safe='')}/explain")
    if output is Output.json:
        print_json(answer)
    else:
        _print_explanation(answer)


def _print_tiers(answer: dict[str, Any]) -> None:
    rows = [
        (
            tier["name"] + " (default)" * tier["default"],
            duration(tier["maxLatencyMs"], "no limit"),
            tier["quantile"],
            str(tier["tools"]),
            str(len(tier["hidden"])),
        )
        for tier in answer["tiers"]
    ]
    if not rows:
        print("There are no latency tiers: every tool is shown to everybody.")
        return
    print_table(("TIER", "LIMIT", "BY", "TOOLS", "HIDDEN"), rows)
    hidden_rows = [(name, tier["name"], reason) for tier in answer["tiers"] for name, reason in tier["hidden"].items()]
    if hidden_rows:
        print()
        print_table(("TOOL", "NOT IN", "BECAUSE"), [tuple(map(printable, row)) for row in hidden_rows])


def _print_explanation(answer: dict[str, Any]) -> None:
    for line in explanation(answer):
        print(line)
    print()
    rows = [
        (tier["tier"], "shown" if tier["shown"] else "hidden", printable(tier["reason"])) for tier in answer["tiers"]
    ]
    print_table(("TIER", "TOOL", "BECAUSE"), rows)


def explanation(answer: dict[str, Any]) -> list[str]:
    """Lines about a tool from the response of `/v1/tools/{name}/explain`: declared, measured, health; without tiers."""
    latency, measurements = answer["latency"], answer["measured"]
    quantiles, health, min_tier = measurements["quantiles"], measurements["health"], answer.get("minTier")
    median, maximum, round_trip = (
        latency["estimated_duration_ms"],
        latency["max_duration_ms"],
        measurements["roundTripMs"],
    )
    declaration = "nothing" if median is maximum is None else f"median {duration(median)}, at most {duration(maximum)}"
    network = "not measured" if round_trip is None else f"{duration(round_trip)} for a request that calls no tool"
    summary = "nothing yet"
    if quantiles:
        parts = [f"{name} {duration(quantiles[f'{name}Ms'])}" for name in ("p50", "p90", "p95", "p99")]
        calls = f"{quantiles['samples']} call{'s' * (quantiles['samples'] != 1)}"
        summary = f"{', '.join(parts)} over {calls}" + ", two speeds" * measurements["bimodal"]
        if latency.get("measured_at"):
            summary += f", the last at {printable(latency['measured_at'])}"
        summary += "; tiers use these measurements"
    policy, credential = answer.get("noCallsBy"), answer.get("credential")
    return [
        f"{printable(answer['name'])} of {printable(answer['server'])}",
        f"  declared  {declaration}" + (f", in no tier faster than {printable(min_tier)}" if min_tier else ""),
        f"  measured  {summary}",
        f"  network   {network}",
        f"  health    {health['state']}, {health['score']} of 100",
        *([f"  calls     none: the ToolPolicy {printable(policy)} has limits.callsPerMinute: 0"] if policy else ()),
        *([f"  called as {printable(credential)}"] if credential else ()),
    ]
