"""Creates responses with problem documents (RFC 9457)."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from fairlead_offers.problems import INTERNAL, Problem

MEDIA_TYPE: Final = "application/problem+json"


def problem_response(problem: Problem) -> Response:
    """Create the response for a problem, with its headers."""
    headers = {**problem.headers}
    if problem.document.retry_after_ms is not None:
        headers["Retry-After"] = seconds_of(problem.document.retry_after_ms)
    return Response(msgspec.json.encode(problem.document), problem.document.status, headers, MEDIA_TYPE)


def internal_error() -> Response:
    """Create the response for an internal error."""
    return problem_response(Problem(INTERNAL, "an internal error of the gateway; its log has the details"))


def seconds_of(milliseconds: int) -> str:
    """Value of `Retry-After` (RFC 9110 section 10.2.3): whole seconds, rounded up."""
    return str(-(-milliseconds // 1000))
