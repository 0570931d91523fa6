"""Decision whether a route continues with its next model after an answer. Does no I/O."""

from __future__ import annotations

from typing import Final

_NEXT_MODEL_STATUSES: Final = frozenset({401, 403, 404, 408, 424, 429})
"""HTTP statuses of refusals after which another provider may accept the request: credentials, unknown model, timeout, a
failed model (Bedrock), rate limit.
"""


def asks_next(status: int) -> bool:
    """Whether a request is sent to the next model of a route after an answer with this HTTP status."""
    return status >= 500 or status in _NEXT_MODEL_STATUSES
