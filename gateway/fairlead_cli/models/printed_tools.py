"""Tools in a provider's form, printed: what goes into a request to standard output, what was lost to standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead_cli.hidden_tools import hidden_lines
from fairlead_cli.output import Output, print_json, remark

NAMED: Final = 3
"""Tools that a line about many names."""


def print_offer(verb: str, offer: dict[str, Any], output: Output, *, losses: bool) -> None:
    """Print the array of tools, or with `json` the whole answer. `verb` is what the remarks beside it are of; `losses`:
    each is named, in place of a line for each kind.
    """
    if output is Output.json:
        print_json(offer)
        return
    print_json(offer["tools"])
    report = [loss for loss in offer["report"] if loss["action"] != "rewritten"]
    for line in map(_each, report) if losses else summary(report):
        remark(verb, line)
    for name in offer.get("offline", ()):
        remark(verb, f"{name} is left out: its server is offline")
    for line in hidden_lines(offer.get("hidden")):
        remark(verb, line)


def summary(report: Iterable[dict[str, Any]]) -> Iterator[str]:
    """A line for each kind of loss; one for itself for a loss that is alone in its kind, and for each tool refused."""
    kinds: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for loss in report:
        kinds.setdefault((loss["keyword"], loss["action"], loss["why"]), []).append(loss)
    shortened = False
    for (keyword, action, why), some in kinds.items():
        if len(some) == 1 or action == "refused":
            yield from map(_each, some)
            continue
        shortened = True
        tools = [*dict.fromkeys(loss["tool"] for loss in some)]
        more = f" and {len(tools) - NAMED:,} more" if len(tools) > NAMED else ""
        times = f"{len(some):,} times in " if len(some) != len(tools) else ""
        number = f"{len(tools):,} tool{'' if len(tools) == 1 else 's'}"
        yield f"{keyword} {action} {times or 'in '}{number}: {why} ({', '.join(tools[:NAMED])}{more})"
    if shortened:
        yield "--losses names all of them"


def _each(loss: dict[str, Any]) -> str:
    return f"{loss['tool']}{loss['path']}: {loss['keyword']} {loss['action']}: {loss['why']}"
