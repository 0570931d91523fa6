"""Problem documents (RFC 9457): the one form in which the REST API says no.

Raised as `Problem`. `code` is from the gateway's contract of errors (`refusals`)
where that has one, else from the few that only REST needs.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from fairlead_formats import names
from fairlead_gateway.policy.hidden_tools_notice import HiddenTool
from fairlead_tools.refusal import Refusal

TYPE: Final = "tag:fairlead.dev,2026:problem/"
"""Followed by the code. Not to be fetched (RFC 4151)."""

INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
RATE_LIMITED: Final = "RATE_LIMITED"
OVER_BUDGET: Final = "OVER_BUDGET"
UNKNOWN_FORMAT: Final = "UNKNOWN_FORMAT"
UNKNOWN_TIER: Final = "UNKNOWN_TIER"
NOT_DISCOVERED: Final = "NOT_DISCOVERED"
UNKNOWN_SERVER: Final = "UNKNOWN_SERVER"
STARTING: Final = "STARTING"
CONNECTION_LOST: Final = "CONNECTION_LOST"
UNKNOWN_ROUTE: Final = "UNKNOWN_ROUTE"
UNKNOWN_TOOL: Final = "UNKNOWN_TOOL"
NOT_FOUND: Final = "NOT_FOUND"
NOT_KEPT: Final = "NOT_KEPT"
METHOD_NOT_ALLOWED: Final = "METHOD_NOT_ALLOWED"
NOT_HELD: Final = "NOT_HELD"
REFUSED: Final = "REFUSED"
UNKNOWN_KEY: Final = "UNKNOWN_KEY"
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
    UNKNOWN_FORMAT: (400, "There is no such format"),
    UNAUTHENTICATED: (401, "This gateway does not know who asks"),
    FORBIDDEN: (403, "The credential is not enough"),
    UNKNOWN_TIER: (404, "There is no such tier"),
    UNKNOWN_SERVER: (404, "There is no such server"),
    UNKNOWN_ROUTE: (404, "There is no such route"),
    UNKNOWN_TOOL: (404, "There is no such tool"),
    NOT_FOUND: (404, "There is nothing here"),
    METHOD_NOT_ALLOWED: (405, "The method is not allowed"),
    NOT_DISCOVERED: (409, "This server is not asked for its tools"),
    NOT_KEPT: (409, "This gateway does not keep it"),
    UNKNOWN_KEY: (404, "There is no such key"),
    REFUSED: (409, "No key was made"),
    NOT_HELD: (409, "It is not held back"),
    BODY_TOO_LARGE: (413, "The body is too large"),
    UNSUPPORTED_MEDIA_TYPE: (415, "The body must be JSON"),
    FORBIDDEN_HOST: (421, "This gateway does not answer for that host"),
    FORBIDDEN_ORIGIN: (403, "The origin is not allowed"),
    OVER_BUDGET: (422, "It does not fit the budget"),
    RATE_LIMITED: (429, "Too much at once"),
    INTERNAL: (500, "The gateway failed"),
    BUSY: (503, "The credential cannot be checked now"),
    STARTING: (503, "The server starts"),
    CONNECTION_LOST: (503, "The server cannot be reached"),
    UNREADABLE: (503, "It cannot be read now"),
    OVERLOADED: (503, "Too many answers are not read"),
}
"""Code to status and title."""


class ProblemDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """RFC 9457. `code` is stable; `detail` is a sentence for a person."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(examples=[UNKNOWN_TOOL])]
    did_you_mean: str | None = None
    """The visible name that was probably meant."""
    existing: tuple[str, ...] = msgspec.field(name="known", default=())
    """Names that exist: of formats, tiers or servers."""
    retry_after_ms: int | None = None
    would_fit: tuple[str, ...] = ()
    """Changes for OVER_BUDGET; any one of them suffices."""
    numbers: Any = None
    """Tokens by their use, for OVER_BUDGET."""
    hidden: HiddenTool | None = None
    """With OVER_BUDGET: the tool that a tier hides, why, and where it is."""


class Problem(Exception):
    """A refusal by the REST API, with its document."""

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        status, title = TABLE[code]
        self.document = ProblemDocument(f"{TYPE}{code}", title, status, detail, code, **more)
        self.headers: dict[str, str] = {}
        """More of them, to go with the document."""
        self.missing = ""
        """Name of the tool or server that does not exist; set for UNKNOWN_TOOL and UNKNOWN_SERVER."""


def unknown_tool(name: str, near: str | None) -> Problem:
    """Problem about a tool that there is not, with the name that was probably meant."""
    problem = Problem(UNKNOWN_TOOL, names.unknown_tool(name, near), did_you_mean=near)
    problem.missing = name
    return problem


def unknown_server(name: str, detail: str, existing: tuple[str, ...]) -> Problem:
    """Problem about a server that there is not, with some that there are."""
    problem = Problem(UNKNOWN_SERVER, detail, existing=existing)
    problem.missing = name
    return problem


def unready_problem(refusal: Refusal) -> Problem:
    """Problem about a server that starts or failed."""
    return Problem(refusal.code, refusal.message, retry_after_ms=refusal.retry_after_ms)
