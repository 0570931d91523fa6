"""Output of held-back definitions, and the confirmation of their approval."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json, printable

NOT_SEEN: Final = "The operator has not seen the approval yet; it takes effect with the server's next discovery."
IN_FORCE: Final = "The approved definitions are served."


@dataclass(frozen=True)
class HeldDefinition:
    """One definition that is held back."""

    sort: str
    """Kind of the definition, such as `tool`."""
    name: str
    lines: Iterable[str]
    """Difference from the served definition."""
    suspicious: Iterable[str]
    """Sentences about suspicious texts in the definition."""
    changed: bool
    """Whether the definition has changed; if not, it is new."""
    cut: bool = False
    """Whether `lines` is truncated."""

    def print(self, server: str) -> None:
        """Print kind and name of the definition, its difference and suspicious texts."""
        title = f"{self.sort} {printable(self.name)}".strip()
        print(f"{server}: {title} {'has changed' if self.changed else 'is new'}")
        for line in self.lines:
            print(f"  {printable(line)}")
        if self.cut:
            print("  … and more, which is not shown")
        for finding in self.suspicious:
            print(f"  ! {printable(finding)}")


def print_nothing_held(server: str, output: Output) -> None:
    """Print that there is nothing to approve."""
    if output is Output.json:
        print_json({"server": server, "approved": None, "outcome": "nothing is held back"})
    else:
        print(f"{server}: nothing is held back.")


def check_answerable(output: Output) -> None:
    """Raises Failure if the output is JSON, which has no room for a question."""
    if output is Output.json:
        advice = "JSON output cannot ask for confirmation: check `fairlead diff`, then pass --yes"
        raise Failure(advice, code=USAGE_ERROR)


def confirm(count: int, approval: str) -> None:
    """Ask whether to approve `count` definitions. Raises Failure unless the answer is yes."""
    if not sys.stdin.isatty():
        raise Failure("standard input is not a terminal: check the changes above, then pass --yes", code=USAGE_ERROR)
    if input(f"\nApprove these {count} definitions ({approval[:12]}…)? [y/N] ").lower() != "y":
        raise Failure("nothing was approved")
