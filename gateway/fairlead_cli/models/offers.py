"""Tools in a provider's form, printed: what goes into a request to standard output, what was lost to standard error."""

from __future__ import annotations

from typing import Any

from fairlead_cli.hidden_tools import hidden_lines
from fairlead_cli.output import Output, print_json, remark


def print_offer(verb: str, offer: dict[str, Any], output: Output) -> None:
    """Print the array of tools, or with `json` the whole answer. `verb` is what the remarks beside it are of."""
    if output is Output.json:
        print_json(offer)
        return
    print_json(offer["tools"])
    for loss in offer["report"]:
        if loss["action"] != "rewritten":
            remark(verb, f"{loss['tool']}{loss['path']}: {loss['keyword']} {loss['action']}: {loss['why']}")
    for name in offer.get("offline", ()):
        remark(verb, f"{name} is left out: its server is offline")
    for line in hidden_lines(offer.get("hidden")):
        remark(verb, line)
