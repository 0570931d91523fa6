"""Template filters that show codes as words: outcomes of calls, transports, names, commands. No I/O.

Pages also show the code itself, at least as a tooltip, so that it can be searched in logs, metrics and REST responses.
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
from fairlead_tools.commands import add_url

OUTCOMES: Final[Mapping[str, str]] = {
    OK: "answered",
    FAILED: "all that failed",
    TOOL_ERROR: "the tool failed",
    refusal.INVALID_ARGUMENTS: "the arguments do not match the input schema",
    refusal.CONNECTION_LOST: "no connection to the server",
    refusal.STARTING: "the server is starting",
    refusal.TIMEOUT: "the call took too long",
    refusal.RESULT_TOO_LARGE: "the result is too large",
    refusal.RATE_LIMITED: "too many calls",
    refusal.OVER_BUDGET: "the tool is too slow for the tier",
    refusal.UPSTREAM_ERROR: "error of the server",
    refusal.CREDENTIAL_UNAVAILABLE: "no access token for the caller",
    refusal.SIGN_IN_REQUIRED: "the caller has to sign in at the server",
    refusal.BREAKER_OPEN: "circuit breaker open",
    refusal.CANCELLED: "cancelled by the client",
    refusal.MISSING_CLIENT_CAPABILITY: "the client lacks a capability",
    "-32602": "unknown tool, or not allowed for this agent",
}
"""Texts by outcome of a call (docs/reference/calls.md); FAILED is the filter for all failed calls."""
TRANSPORTS: Final[Mapping[str, str]] = {
    "streamable-http": "HTTP",
    "sse": "HTTP+SSE",
    "stdio-child": "stdio, a process of the gateway",
    "stdio-tcp": "stdio, in a pod",
    "openapi": "an HTTP API, by its OpenAPI document",
    "local": "inside the gateway",
}
"""Texts by the tag of an endpoint in the catalog."""
MAX_BREAKS: Final = 8
"""Maximum number of line break opportunities in a name, so that many underscores do not fill the page with tags."""


def outcome_words(outcome: str) -> str:
    """Describe the outcome of a call. An outcome may be the code of a JSON-RPC error."""
    if outcome.removeprefix("-").isdecimal():
        return OUTCOMES.get(outcome, "protocol error")
    return OUTCOMES.get(outcome, outcome)


def error_words(reason: str) -> str:
    """Describe the reason of a failed attempt: `connection lost` for `ConnectionLost`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", reason).lower()


def transport_words(tag: str) -> str:
    """Describe the transport of a server."""
    return TRANSPORTS.get(tag, tag)


def with_line_breaks(name: str) -> Markup:
    """Escape a name for HTML, with a line break opportunity after each `__`, which separates server and tool."""
    return Markup(re.sub("(?<=__)(?!_)", "<wbr>", str(escape(name)), count=MAX_BREAKS))


@pass_context
def with_url(context: Context, text: str) -> str:
    """Add `--url` with the browser's URL of the gateway to the `fairlead` commands in a text."""
    return add_url(text, context["mcp_url"])


WORDING: Final[Mapping[str, Callable[..., Any]]] = {
    "outcome": outcome_words,
    "transport": transport_words,
    "breakable": with_line_breaks,
    "with_url": with_url,
}
