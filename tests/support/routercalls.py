"""Calls at the router endpoint, and their stored results."""

from __future__ import annotations

from typing import Any, Final

from fairlead_gateway.result_stores.store import OVERHEAD
from gatewayworld import Answer, Ask, calling

ROUTER: Final = "/router/mcp"
KIB: Final = 1024


def execute(
    name: str, arguments: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None, **more: Any
) -> Ask:
    """A call of `execute_tool`. `more` are arguments other than the tool's name and arguments."""
    params = {"name": name, "arguments": arguments or {}, **more}
    return calling("execute_tool", params, **(meta or {})).to(ROUTER)


def context_of(answer: Answer) -> Any:
    """Session and entry under which the result of an answer is stored."""
    return answer.message["result"]["_meta"]["fairlead.dev/context"]


def blob(text: str, size: int = KIB) -> bytes:
    """An entry that a store counts as `size` bytes."""
    return text.encode().ljust(size - OVERHEAD, b".")
