"""Why a request is not let in, as a value. Pure module, written out by `endpoint` and `rest`."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Word = Literal["", "invalid_request", "invalid_token", "insufficient_scope"]
"""The `error` of a challenge (RFC 6750 section 3.1); empty where no credential was shown."""


class CredentialRefusal(msgspec.Struct, frozen=True):
    """`status`: 400 the header cannot be read, 401 nobody vouches for it, 403 it may not, 503 nobody can say now."""

    status: int
    message: str
    word: Word = ""
    retry_after: int | None = None
    """Seconds."""


NO_CREDENTIAL: Final = CredentialRefusal(
    401, "this gateway answers nobody that it does not know: send Authorization: Bearer"
)
MALFORMED: Final = CredentialRefusal(400, "Authorization must be one `Bearer` credential", "invalid_request")
UNKNOWN_TOKEN: Final = CredentialRefusal(401, "nobody vouches for this token", "invalid_token")
BUSY: Final = CredentialRefusal(503, "too many credentials are being looked up", retry_after=1)
AWAY: Final = CredentialRefusal(503, "the issuer of this token cannot be reached", retry_after=5)
