"""Hierarchy of errors of an API server. `client` never raises errors of the Kubernetes client library or aiohttp.

ApiError
  Unavailable      no response, a timeout, an invalid response, 429 or 5xx: try again
  Unauthorized     401
  Forbidden        403
    NamespaceTerminating  403 for a new object, as its namespace is being deleted
  NotFound         404
  Conflict         409: the object was changed by others, or another manager owns a field
  Gone             410: the resourceVersion is too old for a watch
  TooBig           413
  Invalid          400, 415, 422, and 500 for an unreadable object: the object is invalid
  NotLeading       the write was not sent, as this process does not hold the lease

The message says which verb on which resource failed, and why; `sentence` adds the API server and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

MESSAGE_LIMIT: Final = 1000


class ApiError(Exception):
    """Base class. `status` is the HTTP status, 0 without a response. `reason` is the reason in the API server's
    `Status`, or the name of the class.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message[:MESSAGE_LIMIT])
        self.status = status
        self.reason = reason or type(self).__name__

    def sentence(self, host: str, rights: str = "") -> str:
        """Message for users: what failed at `host`, and what to do. `rights` says which rights to grant or which
        account to use.
        """
        return f"the API server at {host} rejects the request ({self})"


class Unavailable(ApiError):
    """The API server cannot be reached or is not ready."""

    def sentence(self, host: str, rights: str = "") -> str:
        if self.status:
            return f"the API server at {host} is not ready ({self}): try again later"
        return f"the API server at {host} cannot be reached ({self}): check that it runs"


class Unauthorized(ApiError):
    """The credentials are not accepted."""

    def sentence(self, host: str, rights: str = "") -> str:
        return f"the API server at {host} does not accept the credentials: renew the kubeconfig"


class Forbidden(ApiError):
    """The credentials are valid but do not permit the request."""

    def sentence(self, host: str, rights: str = "") -> str:
        return f"{super().sentence(host)}. {rights}".rstrip()


class NamespaceTerminating(Forbidden):
    """The object cannot be created because its namespace is being deleted. No right is missing."""


class NotFound(ApiError):
    """The object or its kind does not exist."""


class Conflict(ApiError):
    """The object was changed since it was read, or exists already."""


class Gone(ApiError):
    """The resourceVersion is too old: a watch has to be restarted with a new list."""


class TooBig(ApiError):
    """The request exceeds the size limit of the API server."""


class Invalid(ApiError):
    """The object is invalid; the message names the field."""


class NotLeading(ApiError):
    """A write was not sent because this process does not hold the lease."""


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


# For an apply with a value of the wrong type, the API server responds with 500 and no reason, as for internal errors.
_UNREADABLE_OBJECT: Final = re.compile(r"failed to (create typed patch|convert (new|patch)) object")


# Cause of the 403 for a new object in a namespace that is being deleted (`k8s.io/api/core/v1`).
_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    details: _Details | None = None


def error_for(status: int, body: bytes, action: str) -> ApiError:
    """Create the error for an HTTP status of at least 400. `action` is the verb and the resource. The message quotes a
    `body` that is a `Status` object, and no other.
    """
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else ApiError)
    try:
        status_object = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        status_object = _Status()
    if status_object.kind != "Status":
        status_object = _Status()
    if status == 500 and not status_object.reason and _UNREADABLE_OBJECT.match(status_object.message):
        kind = Invalid
    causes = (status_object.details and status_object.details.causes) or ()
    if kind is Forbidden and any(cause.reason == _NAMESPACE_TERMINATING for cause in causes):
        kind = NamespaceTerminating
    return kind(
        f"cannot {action} ({status}){status_object.message and ': '}{status_object.message}",
        status=status,
        reason=status_object.reason,
    )
