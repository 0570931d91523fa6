"""Refusal of a call of a known tool, and the codes that are needed below `calls.refusals`, which has all of them."""

from __future__ import annotations

from typing import Final

import msgspec

INVALID_ARGUMENTS: Final = "INVALID_ARGUMENTS"
"""The arguments do not fit the tool, or its policy."""
MISSING_CLIENT_CAPABILITY: Final = "MISSING_CLIENT_CAPABILITY"
"""The tool asks something of its client that this one has not declared; the message names the capability."""
OVER_BUDGET: Final = "OVER_BUDGET"
"""The tool is too slow for the tier that the client is in; the message names the tier that has it."""


class Refusal(msgspec.Struct, frozen=True):
    """A code, a sentence for the model, and when it makes sense to try again, where that is known."""

    code: str
    message: str
    retry_after_ms: int | None = None
    required: bytes | None = None
    """`data` of the JSON-RPC error that a modern client gets in place of the result, raw JSON; None: the result."""
