"""Writes the verbs and options of the command line into docs/reference/cli.md.

python hack/commandspage.py [--check] FILE
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

from fairlead_cli.tree import tree
from generatedpage import run

MARK = "<!-- What follows is written by hack/gen. -->\n"
COMMON = ("url", "header", "token", "timeout", "json")
"""Options of many commands, described only once."""


def section(name: str, verb: TyperCommand) -> Iterator[str]:
    """The heading, the description, and a row for each argument and each option that is not in COMMON."""
    about = " ".join((verb.help or "").strip().split("\n\n")[0].split())
    taken = [each for each in verb.params if each.name != "help" and not getattr(each, "hidden", False)]
    own = [each for each in taken if each.name not in COMMON]
    more = [f"`{each.opts[0]}`" for each in taken if each.name in COMMON]
    yield f"### fairlead {name}\n\n{about}"
    yield f" Takes {', '.join(more)} too.\n" if more else "\n"
    if own:
        yield "\n| | |\n|---|---|\n"
        yield from (f"| {_named(each)} | {_cell(getattr(each, 'help', None))} |\n" for each in own)
    yield "\n"


def _named(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_cell(param.metavar or param.name.upper())}`"
    value = f" `{_cell(param.metavar)}`" if param.metavar else ""
    return ", ".join(f"`{option}`" for option in (*param.opts, *param.secondary_opts)) + value


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def page(before: str) -> str:
    """The page; the part before the mark is written by hand."""
    verbs = [part for name, verb in tree().verbs() for part in section(name, verb)]
    options = {param.name: param for _, verb in tree().verbs() for param in verb.params if param.name in COMMON}
    rows = "".join(f"| {_named(options[name])} | {_cell(getattr(options[name], 'help', None))} |\n" for name in COMMON)
    shared = f"\n## Options of many verbs\n\n| | |\n|---|---|\n{rows}\n"
    return before.partition(MARK)[0] + MARK + shared + "## Verbs\n\n" + "".join(verbs).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(run(page))
