"""Rejections of requests without a valid credential. Pure module; the endpoints turn them into HTTP responses."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

ErrorCode = Literal["", "invalid_request", "invalid_token", "insufficient_scope"]
"""`error` in the header `WWW-Authenticate` (RFC 6750 section 3.1); empty for a request without a credential."""


class CredentialRefusal(msgspec.Struct, frozen=True):
    """Rejection of a credential. `status` is 400 for a malformed header, 401 for a missing or invalid credential, 403
    for missing scopes, and 503 if the credential cannot be verified now.
    """

    status: int
    message: str
    error_code: ErrorCode = ""
    retry_after: int | None = None
    """Seconds of `Retry-After`."""


NO_CREDENTIAL: Final = CredentialRefusal(
    401, "this gateway requires a credential: send the header Authorization: Bearer"
)
MALFORMED: Final = CredentialRefusal(400, "the header Authorization must be one `Bearer` credential", "invalid_request")
UNKNOWN_TOKEN: Final = CredentialRefusal(
    401, "the credential is neither an API key nor a token that this gateway accepts", "invalid_token"
)
BUSY: Final = CredentialRefusal(503, "too many credentials are being looked up: retry later", retry_after=1)
UNAVAILABLE: Final = CredentialRefusal(503, "the issuer of this token cannot be reached: retry later", retry_after=5)
