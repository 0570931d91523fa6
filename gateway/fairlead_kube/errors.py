"""What can go wrong at the API server, as one tree; nothing of the client library or aiohttp leaves `client`.

ApiError
  Unavailable      no answer, a time-out, 429 or 5xx: try again
  Unauthorized     401
  Forbidden        403
  NotFound         404
  Conflict         409: someone was faster, or another manager owns a field
  Gone             410: the resourceVersion is too old for a watch
  TooBig           413
  Invalid          400, 415, 422: the object is refused
  NotLeading       not sent: this process does not hold the lease
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MESSAGE_LIMIT: Final = 1000


class ApiError(Exception):
    """Base. `status` is the HTTP status (0 without an answer), `reason` that of the API server's `Status` object."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message[:MESSAGE_LIMIT])
        self.status = status
        self.reason = reason or type(self).__name__


class Unavailable(ApiError):
    """The API server cannot be reached, or asks for patience."""


class Unauthorized(ApiError):
    """The credentials are not accepted."""


class Forbidden(ApiError):
    """The credentials are good, but not for this."""


class NotFound(ApiError):
    """There is no such object, or no such kind."""


class Conflict(ApiError):
    """The object is not as it was read, or exists already."""


class Gone(ApiError):
    """A watch has to begin with a new listing."""


class TooBig(ApiError):
    """The request is larger than the API server takes."""


class Invalid(ApiError):
    """The API server refuses the object; the message names the field."""


class NotLeading(ApiError):
    """A write was held back because the lease is not held."""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    409: Conflict,
    410: Gone,
    413: TooBig,
    415: Invalid,
    422: Invalid,
    429: Unavailable,
}


def error_for(status: int, body: Mapping[str, Any] | None, what: str) -> ApiError:
    """The error for an HTTP status >= 400. `body` is trusted for text only where it is a `Status` object."""
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else ApiError)
    message, reason = "", ""
    if body is not None and body.get("kind") == "Status":
        message, reason = str(body.get("message", "")), str(body.get("reason", ""))
    return kind(f"{what}: {message or f'HTTP status {status}'}", status=status, reason=reason)
