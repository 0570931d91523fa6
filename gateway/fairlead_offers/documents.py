"""JSON decoding to typed structs, with errors as `Problem`, and encoding to compact bytes."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from fairlead_mcp.misread_values import explain_misreading
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem

Body = TypeVar("Body")


def decode(body: bytes | Raw, kind: type[Body]) -> Body:
    """Decode a body as a struct. Raises Problem with the location of the error in the body."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(INVALID_ARGUMENTS, explain_misreading(error, "the body")) from error


encode: Final = msgspec.json.Encoder().encode
