"""Output of tools in a provider's format: the tools on standard output, losses on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead_cli.hidden_tools import hidden_lines
from fairlead_cli.output import Output, print_json, remark

MAX_NAMED: Final = 3
"""Maximum number of tools that a summary line names."""


def print_tools_and_losses(command: str, response: dict[str, Any], output: Output, *, losses: bool) -> None:
    """Print the array of tools of a gateway's response or of a conversion; with JSON output, the complete `response`.
    Remarks begin with the command's name. `losses` prints each loss instead of a line for each kind.
    """
    if output is Output.json:
        print_json(response)
        return
    print_json(response["tools"])
    reported_losses = [loss for loss in response["report"] if loss["action"] != "rewritten"]
    for line in map(_loss_line, reported_losses) if losses else summary(reported_losses):
        remark(command, line)
    for name in response.get("offline", ()):
        remark(command, f"{name} is left out: its server is offline")
    for line in hidden_lines(response.get("hidden")):
        remark(command, line)


def summary(report: Iterable[dict[str, Any]]) -> Iterator[str]:
    """One line for each kind of loss with several losses, and one for every other loss and every refused tool."""
    kinds: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for loss in report:
        kinds.setdefault((loss["keyword"], loss["action"], loss["why"]), []).append(loss)
    has_summarized_losses = False
    for (keyword, action, why), losses in kinds.items():
        if len(losses) == 1 or action == "refused":
            yield from map(_loss_line, losses)
            continue
        has_summarized_losses = True
        tools = [*dict.fromkeys(loss["tool"] for loss in losses)]
        suffix = f" and {len(tools) - MAX_NAMED:,} more" if len(tools) > MAX_NAMED else ""
        loss_count = f"{len(losses):,} times in " if len(losses) != len(tools) else ""
        number = f"{len(tools):,} tool{'' if len(tools) == 1 else 's'}"
        yield f"{keyword} {action} {loss_count or 'in '}{number}: {why} ({', '.join(tools[:MAX_NAMED])}{suffix})"
    if has_summarized_losses:
        yield "pass --losses to list all losses"


def _loss_line(loss: dict[str, Any]) -> str:
    return f"{loss['tool']}{loss['path']}: {loss['keyword']} {loss['action']}: {loss['why']}"
