"""Definitions that are held back as a person is shown them, and asked about them, wherever they are read."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output, print_json, printable

NOT_SEEN: Final = "The operator has not seen it yet; it takes effect with the server's next answer."
IN_FORCE: Final = "In force."


@dataclass(frozen=True)
class HeldDefinition:
    """One definition that is held back."""

    sort: str
    name: str
    lines: Iterable[str]
    """Difference to the definition in force."""
    suspicious: Iterable[str]
    changed: bool
    """False: it is new."""
    cut: bool = False
    """Whether there are more lines."""

    def print(self, server: str) -> None:
        """Print what it is of which server, its difference and what is suspicious of it."""
        what = f"{self.sort} {printable(self.name)}".strip()
        print(f"{server}: {what} {'has changed' if self.changed else 'is new'}")
        for line in self.lines:
            print(f"  {printable(line)}")
        if self.cut:
            print("  … and more, which is not shown")
        for finding in self.suspicious:
            print(f"  ! {printable(finding)}")


def print_nothing_held(server: str, output: Output) -> None:
    """Say that there is nothing to approve."""
    if output is Output.json:
        print_json({"server": server, "approved": None, "outcome": "nothing is held back"})
    else:
        print(f"{server}: nothing is held back.")


def check_answerable(output: Output) -> None:
    """Raises Failure where a question would stand in JSON."""
    if output is Output.json:
        advice = "nobody is asked where JSON is printed: look at `fairlead diff`, then give --yes"
        raise Failure(advice, code=USED_WRONGLY)


def confirm(count: int, approval: str) -> None:
    """Ask whether so many definitions are put in force. Raises Failure unless the answer is yes."""
    if not sys.stdin.isatty():
        raise Failure("nobody can be asked here: look at the changes above, then give --yes", code=USED_WRONGLY)
    if input(f"\nPut these {count} definitions in force ({approval[:12]}…)? [y/N] ").lower() != "y":
        raise Failure("nothing was approved")
