"""`${NAME}` and `${NAME:-default}` in values of a client configuration. Pure: the environment is a parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

REFERENCE: Final = re.compile(r"\$(\$)?\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""`$${NAME}` stands for the text `${NAME}`; `${env:NAME}` is how some editors write `${NAME}`."""


class UnsetVariable(ValueError):
    """A value refers to environment variables that are not set and names no default for them."""

    def __init__(self, *names: str) -> None:
        self.names = names
        listed = " and ".join(names)
        are, them = ("is", "it") if len(names) == 1 else ("are", "them")
        self.lack = f"environment variable {listed} {are} not set: set {them}"
        """Message for a file that can give no default, as it names variables by their names alone."""
        super().__init__(f"{self.lack}, or give a default as in ${{{names[0]}:-value}}")


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """Replace every reference in `text`; a default also stands in for a variable that is set and empty, as in a shell.

    Raises UnsetVariable naming every variable that is missing.
    """
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match.group(0)[1:]
        variable = environ.get(name)
        if variable is None and default is None:
            missing.append(name)
            return ""
        return variable or default or ""

    replaced = REFERENCE.sub(value, text)
    if missing:
        raise UnsetVariable(*dict.fromkeys(missing))
    return replaced
