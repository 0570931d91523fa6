"""Resolves `${NAME}` and `${NAME:-default}` in values of a client configuration. No I/O: the environment is a
parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

REFERENCE: Final = re.compile(r"\$(\$)?\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""`$${NAME}` is an escaped `${NAME}`; `${env:NAME}` is a synonym in some editors."""


class UnsetVariable(ValueError):
    """A value refers to environment variables that are not set, and has no default for them."""

    def __init__(self, *names: str) -> None:
        self.names = names
        listed = " and ".join(names)
        are, them = ("is", "it") if len(names) == 1 else ("are", "them")
        self.lack = f"environment variable {listed} {are} not set: set {them}"
        """Message for keys whose values are names of variables, because a default is not possible there."""
        super().__init__(f"{self.lack}, or give a default as in ${{{names[0]}:-value}}")


def interpolate(text: str, environ: Mapping[str, str]) -> str:
    """Replace every reference in `text`. A default also replaces a variable that is set but empty, as in a shell.

    Raises UnsetVariable with the names of all unset variables.
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
