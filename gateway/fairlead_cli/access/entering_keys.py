"""Keys that `fairlead login` enters for a person: from a terminal without echo, an environment variable or a pipe."""

from __future__ import annotations

import getpass
import os
import sys
from typing import Any, Final

from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import printable
from fairlead_cli.rest import ManagementClient

MAX_CHARS: Final = 4_096
"""Limit on what is read from standard input."""


class EnteredKeySource:
    """Source of a key: the environment variable `variable`, standard input, or a terminal."""

    def __init__(self, variable: str | None = None, *, stdin: bool = False) -> None:
        """Raises Failure if both are given."""
        if variable is not None and stdin:
            raise Failure("give either --key-env or --key-stdin", code=USAGE_ERROR)
        self._variable = variable
        self._stdin = stdin

    @property
    def is_given(self) -> bool:
        """Whether an option names the source."""
        return self._variable is not None or self._stdin

    @property
    def asks(self) -> bool:
        """Whether a person can be asked at a terminal."""
        return not self.is_given and sys.stdin.isatty() and sys.stderr.isatty()

    def read(self, state: dict[str, Any] | None = None) -> str:
        """Read the key. At a terminal, the prompt is made from `state`, the gateway's document of the sign-in. Raises
        Failure."""
        if self._variable is not None:
            key = os.environ.get(self._variable)
            if not key:
                raise Failure(f"the environment variable {self._variable} is not set", code=USAGE_ERROR)
            return key
        if self._stdin:
            return sys.stdin.read(MAX_CHARS)
        assert state is not None, "without an option, the gateway has said what to ask for"
        return getpass.getpass(_question(state), sys.stderr)


FROM_TERMINAL: Final = EnteredKeySource()


def enter_key(client: ManagementClient, path: str, key: str) -> dict[str, Any]:
    """Have the gateway store a key. Returns its document. Raises Failure."""
    state: dict[str, Any] = client.put(path, {"key": key})
    return state


def _question(state: dict[str, Any]) -> str:
    key = state["key"]
    parts = [f"Key for {printable(state['server'])}"]
    if key["description"]:
        parts.append(f" ({printable(key['description'])})")
    if key["helpUrl"]:
        parts.append(f", from {printable(key['helpUrl'])}")
    return f"{''.join(parts)}: "
