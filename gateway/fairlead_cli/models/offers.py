"""Tools in a provider's form, printed: what goes into a request to standard output, what was lost to standard error."""

from __future__ import annotations

import sys
from typing import Any

from fairlead_cli.calling.hidden import hidden_lines
from fairlead_cli.output import Output, print_json, printable


def print_offer(offer: dict[str, Any], output: Output) -> None:
    """Print the array of tools, or with `json` the whole answer."""
    if output is Output.json:
        print_json(offer)
        return
    print_json(offer["tools"])
    for loss in offer["report"]:
        if loss["action"] != "rewritten":
            line = f"{loss['tool']}{loss['path']}: {loss['keyword']} {loss['action']}: {loss['why']}"
            print(f"fairlead: {printable(line)}", file=sys.stderr)
    for name in offer.get("offline", ()):
        print(f"fairlead: {printable(name)} is left out: its server is offline", file=sys.stderr)
    for line in hidden_lines(offer.get("hidden")):
        print(f"fairlead: {line}", file=sys.stderr)
