"""Problem documents (RFC 9457), by which the REST API reports all errors.

Resources raise a problem document as the exception `Problem`. Its `code` is the code of a refusal of the gateway
(`fairlead_tools.refusals`), or one of the codes that only the REST API has.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from fairlead_formats import names
from fairlead_gateway.policy.hidden_tools_notice import HiddenTool
from fairlead_tools.refusal import Refusal

TYPE: Final = "tag:fairlead.dev,2026:problem/"
"""Prefix of the problem type, which is followed by the code. A tag URI cannot be fetched (RFC 4151)."""

INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
RATE_LIMITED: Final = "RATE_LIMITED"
OVER_BUDGET: Final = "OVER_BUDGET"
UNKNOWN_FORMAT: Final = "UNKNOWN_FORMAT"
UNKNOWN_TIER: Final = "UNKNOWN_TIER"
NOT_DISCOVERED: Final = "NOT_DISCOVERED"
UNKNOWN_SERVER: Final = "UNKNOWN_SERVER"
STARTING: Final = "STARTING"
CONNECTION_LOST: Final = "CONNECTION_LOST"
SIGN_IN_REQUIRED: Final = "SIGN_IN_REQUIRED"
UNKNOWN_ROUTE: Final = "UNKNOWN_ROUTE"
UNKNOWN_TOOL: Final = "UNKNOWN_TOOL"
NOT_FOUND: Final = "NOT_FOUND"
NOT_KEPT: Final = "NOT_KEPT"
METHOD_NOT_ALLOWED: Final = "METHOD_NOT_ALLOWED"
NOT_HELD: Final = "NOT_HELD"
REFUSED: Final = "REFUSED"
UNKNOWN_KEY: Final = "UNKNOWN_KEY"
UNKNOWN_ACCOUNT: Final = "UNKNOWN_ACCOUNT"
UNKNOWN_SIGN_IN: Final = "UNKNOWN_SIGN_IN"
UNREADABLE: Final = "UNREADABLE"
BODY_TOO_LARGE: Final = "BODY_TOO_LARGE"
UNSUPPORTED_MEDIA_TYPE: Final = "UNSUPPORTED_MEDIA_TYPE"
FORBIDDEN_HOST: Final = "FORBIDDEN_HOST"
FORBIDDEN_ORIGIN: Final = "FORBIDDEN_ORIGIN"
UNAUTHENTICATED: Final = "UNAUTHENTICATED"
FORBIDDEN: Final = "FORBIDDEN"
BUSY: Final = "BUSY"
OVERLOADED: Final = "OVERLOADED"
INTERNAL: Final = "INTERNAL"

TABLE: Final[dict[str, tuple[int, str]]] = {
    INVALID_ARGUMENTS: (400, "The request cannot be read"),
    UNKNOWN_FORMAT: (400, "The format does not exist"),
    UNAUTHENTICATED: (401, "The request is not authenticated"),
    FORBIDDEN: (403, "The principal may not do this"),
    SIGN_IN_REQUIRED: (403, "A sign-in at the server is required"),
    UNKNOWN_TIER: (404, "The tier does not exist"),
    UNKNOWN_SERVER: (404, "The server does not exist"),
    UNKNOWN_ROUTE: (404, "The route does not exist"),
    UNKNOWN_TOOL: (404, "The tool does not exist"),
    NOT_FOUND: (404, "The resource does not exist"),
    METHOD_NOT_ALLOWED: (405, "The method is not allowed"),
    NOT_DISCOVERED: (409, "The server has no discovered tools"),
    NOT_KEPT: (409, "This gateway does not store the data"),
    UNKNOWN_KEY: (404, "The key does not exist"),
    UNKNOWN_ACCOUNT: (404, "The account does not exist"),
    UNKNOWN_SIGN_IN: (404, "The sign-in does not exist"),
    REFUSED: (409, "No key was made"),
    NOT_HELD: (409, "The definition is not held back"),
    BODY_TOO_LARGE: (413, "The body is too large"),
    UNSUPPORTED_MEDIA_TYPE: (415, "The body must be JSON"),
    FORBIDDEN_HOST: (421, "The host is not allowed"),
    FORBIDDEN_ORIGIN: (403, "The origin is not allowed"),
    OVER_BUDGET: (422, "The budget is exceeded"),
    RATE_LIMITED: (429, "Too many requests"),
    INTERNAL: (500, "The gateway failed"),
    BUSY: (503, "The credential cannot be checked now"),
    STARTING: (503, "The server is starting"),
    CONNECTION_LOST: (503, "The server cannot be reached"),
    UNREADABLE: (503, "The data cannot be read now"),
    OVERLOADED: (503, "Too many clients do not read their answers"),
}
"""HTTP status and title of each code."""


class ProblemDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Problem document (RFC 9457). `code` is stable for programs; `detail` is a sentence for people."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(examples=[UNKNOWN_TOOL])]
    did_you_mean: str | None = None
    """Visible name that was probably meant."""
    existing: tuple[str, ...] = msgspec.field(name="known", default=())
    """Names of the existing formats, tiers or servers."""
    retry_after_ms: int | None = None
    would_fit: tuple[str, ...] = ()
    """Changes that would each satisfy the budget, for OVER_BUDGET."""
    numbers: Any = None
    """Tokens by their use, for OVER_BUDGET."""
    hidden: HiddenTool | None = None
    """Tool that a tier hides, with the reason and the tiers that show it, for OVER_BUDGET."""


class Problem(Exception):
    """Error of the REST API, with its problem document."""

    def __init__(self, code: str, detail: str, **members: Any) -> None:
        super().__init__(detail)
        status, title = TABLE[code]
        self.document = ProblemDocument(f"{TYPE}{code}", title, status, detail, code, **members)
        self.headers: dict[str, str] = {}
        """Additional headers of the response."""
        self.missing_name = ""
        """Name of the unknown tool or server, for UNKNOWN_TOOL and UNKNOWN_SERVER."""


def unknown_tool(name: str, similar_name: str | None) -> Problem:
    """Problem about an unknown tool, with the name that was probably meant."""
    problem = Problem(UNKNOWN_TOOL, names.unknown_tool(name, similar_name), did_you_mean=similar_name)
    problem.missing_name = name
    return problem


def unknown_server(name: str, detail: str, existing: tuple[str, ...]) -> Problem:
    """Problem about an unknown server, with the names of existing servers."""
    problem = Problem(UNKNOWN_SERVER, detail, existing=existing)
    problem.missing_name = name
    return problem


def unready_problem(refusal: Refusal) -> Problem:
    """Problem about a server that is starting or has failed."""
    return Problem(refusal.code, refusal.message, retry_after_ms=refusal.retry_after_ms)
