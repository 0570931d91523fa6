"""JSON as typed structs: read with a sentence about what is wrong, written as compact bytes."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from fairlead_offers.problems import INVALID_ARGUMENTS, Problem

Body = TypeVar("Body")


def decode(body: bytes | Raw, kind: type[Body]) -> Body:
    """The body as a struct. Raises Problem, which says where in the body it is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(INVALID_ARGUMENTS, f"the body: {error}") from error
    except RecursionError as error:
        raise Problem(INVALID_ARGUMENTS, "the body is nested too deeply") from error


encode: Final = msgspec.json.Encoder().encode
