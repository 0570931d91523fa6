"""Words of readers in place of codes: outcomes of calls, transports, names that may break, commands. Pure module.

The code stays beside its words, or as their title: logs, metrics and REST have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from fairlead_gateway.telemetry import TOOL_ERROR
from fairlead_rest.ended_calls import FAILED, OK
from fairlead_tools import refusal
from fairlead_tools.commands import reaching

OUTCOMES: Final[Mapping[str, str]] = {
    OK: "answered",
    FAILED: "anything but answered",
    TOOL_ERROR: "the tool failed",
    refusal.INVALID_ARGUMENTS: "arguments do not fit",
    refusal.CONNECTION_LOST: "no connection to the server",
    refusal.STARTING: "the server still starts",
    refusal.TIMEOUT: "took too long",
    refusal.RESULT_TOO_LARGE: "result too large",
    refusal.RATE_LIMITED: "too many calls",
    refusal.OVER_BUDGET: "too slow for its tier",
    refusal.UPSTREAM_ERROR: "error of the server",
    refusal.BREAKER_OPEN: "the server is left alone",
    refusal.CANCELLED: "cancelled by the client",
    refusal.MISSING_CLIENT_CAPABILITY: "the client cannot be asked",
    "-32602": "unknown to this agent, or not allowed",
}
"""Outcomes of calls (docs/reference/calls.md), and the filter for all that failed."""
TRANSPORTS: Final[Mapping[str, str]] = {
    "streamable-http": "HTTP",
    "sse": "HTTP+SSE",
    "stdio-child": "stdio, a process here",
    "stdio-tcp": "stdio, in a pod",
    "local": "inside the gateway",
}
"""By the tag of an endpoint in the catalog."""
MAX_BREAKS: Final = 8
"""Places in one name where it may break: a hostile name of underscores adds no more."""


def outcome_words(outcome: str) -> str:
    """Outcome of a call in words; the number of a JSON-RPC error as such."""
    if outcome.removeprefix("-").isdecimal():
        return OUTCOMES.get(outcome, "error of the protocol")
    return OUTCOMES.get(outcome, outcome)


def error_words(reason: str) -> str:
    """Reason of a failed attempt in words: `connection lost` for `ConnectionLost`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", reason).lower()


def transport_words(tag: str) -> str:
    """How a server is reached, in words."""
    return TRANSPORTS.get(tag, tag)


def breakable(name: str) -> Markup:
    """A name as HTML that breaks behind `__`, between server and tool, before it breaks within a word."""
    return Markup(re.sub("(?<=__)(?!_)", "<wbr>", str(escape(name)), count=MAX_BREAKS))


@pass_context
def with_url(context: Context, text: str) -> str:
    """A text whose `fairlead` commands reach the gateway of the page, by the address that the browser has it under."""
    return reaching(text, context["mcp_url"])


WORDING: Final[Mapping[str, Callable[..., Any]]] = {
    "outcome": outcome_words,
    "transport": transport_words,
    "breakable": breakable,
    "with_url": with_url,
}
